"""Reports as plain text: BPS's tables, which scripts cut by column, then facts and the summary of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Final

from longshore.cli.error_text import indent_paragraph
from longshore.model.event import add_staged
from longshore.model.report import (
    INDENT,
    PAYLOAD_CODES,
    Badput,
    Failure,
    Removals,
    Retries,
    RunReport,
    RunSummary,
    count_failed_jobs,
    escape_controls,
    failure_text,
    format_duration,
    staged_text,
)
from longshore.model.states import Cause, JobState
from longshore.model.wording import format_timestamp
from longshore.reports.run_list import field_values

_MAX_CODES: Final = 4
"""Maximum number of exit codes and signals shown per cause; programs get all."""
_MAX_GROUPS: Final = 5
"""Maximum number of failure groups shown with an example; programs get all."""


def run_summary_lines(summary: RunSummary, *, now: float | None = None, examples: bool = True) -> list[str]:
    """Format a run's summary, a line each, with empty lines between the parts.

    With `now`, running jobs show how long they have run. With `examples`, failure groups have an example each.
    """
    lines = _progress_lines(summary)
    if summary.running:
        lines.append(f"Longest running: {', '.join(_running_jobs(summary, now))}")
    lines += [f"Waiting: {escape_controls(words)}" for words in summary.waits]
    staged = [label.staged for label in summary.labels.values() if label.staged is not None]
    if staged:
        lines.append(f"Staged: {staged_text(reduce(add_staged, staged))}")
    if summary.badput:
        lines.append(f"Ended badly: {_badput_text(summary.badput)}")
    if summary.retries.newest:
        lines.append(_retries_text(summary.retries))
    if summary.removals.newest:
        lines.append(removals_text(summary.removals))
    if summary.failures:
        lines += ["", *failure_lines(summary.failures, examples=examples)]
    return ["", *lines] if lines and lines[0] else lines


def failure_lines(failures: Sequence[Failure], *, examples: bool = True) -> list[str]:
    """Format groups of failures, all in a few lines, and then an example of each if wanted."""
    lines = list(_group_lines(failures)) if failures else []
    for number, failure in enumerate(failures[:_MAX_GROUPS] if examples else (), start=1):
        lines += ["", *_example_lines(number, failure)]
    return lines


def describe_hopeless(number: int) -> str:
    """Describe why a run has no end."""
    return "1 job can never start" if number == 1 else f"{number} jobs can never start"


def _progress_lines(summary: RunSummary) -> list[str]:
    parts = []
    if summary.elapsed_s is not None:
        parts.append(f"Elapsed: {format_duration(summary.elapsed_s)}")
    if summary.left_s:
        low, high = (format_duration(seconds) for seconds in summary.left_s)
        parts.append(f"left: about {low}" if low == high else f"left: about {low} to {high}")
    elif summary.hopeless_jobs:
        parts.append(f"left: never, as {describe_hopeless(summary.hopeless_jobs)}")
    return [", ".join(parts)] if parts else []


def _running_jobs(summary: RunSummary, now: float | None) -> Iterator[str]:
    for job in summary.running:
        parts = [escape_controls(job.name)]
        if now is not None and job.started_at is not None:
            parts.append(f"for {format_duration(max(0.0, now - job.started_at))}")
        if job.host:
            parts.append(f"on {escape_controls(job.host)}")
        yield " ".join(parts)


def _badput_text(badput: Mapping[Cause, Badput]) -> str:
    attempts = sum(spent.attempts for spent in badput.values())
    seconds = sum(spent.seconds for spent in badput.values())
    causes = ", ".join(
        f"{spent.attempts} with cause {cause} ({'; '.join(_spent_parts(spent))})" for cause, spent in badput.items()
    )
    return f"{format_count(attempts, 'attempt')}, {format_duration(seconds)}: {causes}"


def _spent_parts(spent: Badput) -> Iterator[str]:
    """How attempts of one cause ended, the most frequent first, and their time."""
    ends = [(number, f"exit code {code}") for code, number in sorted(spent.exit_codes.items())]
    ends += [(number, f"signal {signal}") for signal, number in sorted(spent.signals.items())]
    ends.sort(key=lambda end: -end[0])
    named = [f"{number} with {what}" for number, what in ends[:_MAX_CODES]]
    if ends[_MAX_CODES:]:
        named.append(f"{sum(number for number, _ in ends[_MAX_CODES:])} with others")
    # One attempt, or all of them, need no number.
    if len(ends) == 1 and ends[0][0] == spent.attempts:
        named = [ends[0][1]]
    if named:
        yield ", ".join(named)
    yield format_duration(spent.seconds)


def _retries_text(retries: Retries) -> str:
    """Jobs that are retried, with how the newest of their attempts failed."""
    newest = retries.newest[0]
    outcome = failure_text(newest.cause, newest.exit_code, newest.signal)
    number = format_count(retries.jobs, "job")
    example = f"{'the last is ' if retries.jobs > 1 else ''}{newest.name}, attempt {newest.attempt}"
    message = f": {newest.message}" if newest.message else ""
    return escape_controls(f"Retried: {number}, {example} ({outcome}){message}")


def removals_text(removals: Removals) -> str:
    """Describe how many jobs a person removed; the newest one is named, with the reason of its removal."""
    newest = removals.newest[0]
    number = format_count(removals.jobs, "job")
    last = "the last is " if removals.jobs > 1 else ""
    return escape_controls(f"Removed from the workload manager: {number}, {last}{newest.name} ({newest.reason})")


def _group_lines(failures: Sequence[Failure]) -> Iterator[str]:
    """All causes in a few lines, above the logs, so that they are on the first screen."""
    total = count_failed_jobs(failures)
    yield f"Failed: {format_count(total, 'job')}, alike in {format_count(len(failures), 'group')}:"
    for number, failure in enumerate(failures[:_MAX_GROUPS], start=1):
        yield f"{INDENT}{number}. {_group_text(failure)}"
    rest = failures[_MAX_GROUPS:]
    if rest:
        # Those of unread logs are told with the first group of their kind.
        jobs = format_count(total - count_failed_jobs(failures[:_MAX_GROUPS]), "job")
        groups = format_count(len(rest), "more group")
        yield f"{INDENT}... and {groups} of {jobs}: --json has them all"


def _group_text(failure: Failure) -> str:
    number = format_count(failure.count, "job")
    more = f", and perhaps more of {failure.unread} whose logs were not read" if failure.unread else ""
    words = f"{failure.label}: {number} ({failure_text(failure.cause, failure.exit_code, failure.signal)}{more})"
    return escape_controls(f"{words}: {failure.message}" if failure.message else words)


def _example_lines(number: int, failure: Failure) -> Iterator[str]:
    where = f" on {failure.host}" if failure.host else ""
    reason = f": {failure.reason}" if failure.reason else ""
    yield escape_controls(
        f"{number}. {failure.label}, for example {failure.job}, attempt {failure.attempt}{where}{reason}"
    )
    if failure.not_retried:
        # The reason stands on the line above.
        rule = failure.not_retried.removesuffix(f": {failure.reason}")
        yield f"{INDENT}not tried again: {escape_controls(rule)}"
    if failure.log:
        # The absolute path, to be copied to a pager.
        yield f"{INDENT}log: {escape_controls(failure.log)}"
    if failure.by_hand:
        yield f"{INDENT}again by hand: {escape_controls(failure.by_hand)}"
    for line in failure.tail:
        yield f"{INDENT}| {escape_controls(line)}"
    if failure.log and not failure.tail:
        yield f"{INDENT}(the log is empty, or cannot be read)"


def format_count(number: int, noun: str) -> str:
    """A number and a noun, such as ``3 jobs``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


_SUMMARY_COLUMNS = ("X", "STATE", "%S", "ID", "OPERATOR", "PROJECT", "CAMPAIGN", "PAYLOAD", "RUN")
_DETAIL_COLUMNS = (" ", *(state.value for state in JobState), "EXPECTED")

_NUMERIC_ID = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})*")
"""A numeric id, such as ``9.0``; the limit of eighteen digits keeps a hostile id cheap."""

_CODE_COLUMNS = (
    " ",
    "PAYLOAD ERROR COUNT",
    "PAYLOAD ERROR CODES",
    "INFRASTRUCTURE ERROR COUNT",
    "INFRASTRUCTURE ERROR CODES",
)
_MIN_COLUMN_WIDTH = 3
_BLANK_LINES = ("", "")


def summary_table(reports: Sequence[RunReport], *, global_ids: bool = False) -> str:
    """Format BPS's table of runs, a row each, sorted by id: numbers as numbers, then all others as text."""
    rows = [_summary_row(report, global_ids=global_ids) for report in sort_by_id(reports)]
    return "\n".join(format_table(_SUMMARY_COLUMNS, rows))


def sort_by_id(reports: Iterable[RunReport]) -> list[RunReport]:
    """Sort runs as the table of runs does."""
    return sorted(reports, key=lambda report: _id_sort_key(report.id))


def fields_table(reports: Iterable[RunReport], names: Sequence[str], *, header: bool = True, tsv: bool = False) -> str:
    """Format chosen fields of runs, a row each; with `tsv` separated by tabs, for programs."""
    rows = [[_cell_text(value) for value in field_values(report, names)] for report in sort_by_id(reports)]
    titles = [name.upper() for name in names]
    if not tsv:
        lines = format_table(titles, rows)
        return "\n".join(lines if header else lines[2:])
    return "\n".join("\t".join(map(escape_controls, row)) for row in ([titles, *rows] if header else rows))


def _cell_text(value: str | int | None) -> str:
    return "UNK" if value is None else str(value)


def report_text(report: RunReport) -> str:
    """Format one run in detail: its row, its place, the states per label, failures, and notes."""
    lines = [summary_table([report]), *_BLANK_LINES, *fact_lines(report), *_BLANK_LINES, *_label_table(report)]
    if report.summary:
        lines += run_summary_lines(report.summary)
    if report.notes:
        lines += ["", *(f"Note: {indent_paragraph(note)}" for note in report.notes)]
    return "\n".join(lines)


def exit_codes_table(report: RunReport) -> str:
    """Format exit codes of failed jobs per label, as BPS's ``--return-exit-codes`` does.

    BPS calls the codes 1 and 2 errors of the payload, and all others, signals included, errors of the infrastructure.
    """
    codes = report.summary.exit_codes if report.summary else {}
    lines = format_table(
        _CODE_COLUMNS, [_code_row(label, label_codes.codes) for label, label_codes in codes.items()], first_left=True
    )
    unknown = [label for label, label_codes in codes.items() if label_codes.unknown]
    if unknown:
        lines.append(f"WARNING: exit codes not available for job labels: {', '.join(map(escape_controls, unknown))}")
    return "\n".join(lines)


def _code_row(label: str, codes: Mapping[int, int]) -> tuple[str, ...]:
    cells = [label]
    for of_payload in (True, False):
        label_codes = [code for code in codes if (code in PAYLOAD_CODES) == of_payload]
        cells += [str(sum(codes[code] for code in label_codes)), ", ".join(sorted(map(str, label_codes))) or "None"]
    return tuple(cells)


def format_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, first_left: bool = False) -> list[str]:
    """Lines of a table in the layout of astropy's ``pformat``, which scripts around BPS cut by column.

    Headers are centred above a rule of at least three dashes. Values are right-aligned (the first column left-aligned
    with `first_left`), and every column is as wide as its widest cell: text that is cut off cannot be searched for.
    """
    cells = [[escape_controls(cell) for cell in row] for row in rows]
    widths = [max(_MIN_COLUMN_WIDTH, *map(len, column)) for column in zip(header, *cells, strict=True)]
    lines = [
        " ".join(name.center(width) for name, width in zip(header, widths, strict=True)),
        " ".join("-" * width for width in widths),
    ]
    for row in cells:
        padded = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        if first_left:
            padded[0] = row[0].ljust(widths[0])
        lines.append(" ".join(padded))
    return lines


def _summary_row(report: RunReport, *, global_ids: bool) -> tuple[str, ...]:
    percent = report.percent_succeeded
    return (
        str(field_values(report, ["x"])[0]),
        report.state.value,
        "UNK" if percent is None else str(percent),
        (report.global_id or report.id) if global_ids else report.id,
        report.operator,
        report.project,
        report.campaign,
        report.payload,
        report.name,
    )


def _id_sort_key(run_id: str) -> tuple[bool, tuple[int, ...], str]:
    """Sort key of an id: BPS sorts as text and puts 10.0 before 9.0; Longshore's ids sort by time as text."""
    if _NUMERIC_ID.fullmatch(run_id):
        return False, tuple(int(part) for part in run_id.split(".")), run_id
    return True, (), run_id


def fact_lines(report: RunReport) -> list[str]:
    """Facts about the whole run, a line each."""
    facts: list[tuple[str, str | None]] = [("Path", report.path), ("Global job id", report.global_id)]
    facts += [("Service", report.service), ("Site", report.site)]
    for name, at in (
        ("Submitted", report.submitted_at),
        ("Started", report.started_at),
        ("Finished", report.finished_at),
    ):
        facts.append((name, format_timestamp(at)))
    return [
        *(f"{name}: {escape_controls(value)}" for name, value in facts if value),
        *map(escape_controls, report.specifics),
    ]


def _label_table(report: RunReport) -> list[str]:
    """BPS's table of labels; an unknown label has -1 everywhere, and uncounted jobs are not ready yet."""
    expected = report.expected_labels
    rows = [_label_row("TOTAL", report.counts, report.expected)]
    for label in sorted(report.labels) if expected is None else dict.fromkeys((*expected, *report.labels)):
        number = -1 if expected is None else expected.get(label, sum(report.labels.get(label, {}).values()))
        rows.append(_label_row(label, report.labels.get(label), number))
    lines = format_table(_DETAIL_COLUMNS, rows, first_left=True)
    lines.insert(3, lines[1])
    return [*lines, *label_warnings(report)]


def label_warnings(report: RunReport) -> list[str]:
    """Return what a reader must know of the table of labels, as BPS words it."""
    if not report.labels:
        return [
            "",
            f"WARNING: Job summary for run '{escape_controls(report.id)}' not available, report may be incomplete.",
        ]
    if report.expected_labels is None:
        return ["", "WARNING: Could not determine order of pipeline, instead sorted alphabetically."]
    return []


def _label_row(label: str, counts: Mapping[JobState, int] | None, expected: int) -> tuple[str, ...]:
    if counts is None:
        return (label, *("-1" for _ in JobState), str(expected))
    uncounted = max(0, expected - sum(counts.values()))
    numbers = (counts.get(state, 0) + (uncounted if state is JobState.UNREADY else 0) for state in JobState)
    return (label, *map(str, numbers), str(expected))
