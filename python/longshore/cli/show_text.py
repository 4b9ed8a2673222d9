"""Turns reports, answers of services and errors into text for people."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath

from longshore.contract.context import PingReport
from longshore.errors import LongshoreError
from longshore.model.report import JobReport, RunReport
from longshore.model.state import Cause, JobState

_SUMMARY_COLUMNS = ("X", "STATE", "%S", "ID", "OPERATOR", "PROJECT", "CAMPAIGN", "PAYLOAD", "RUN")
_DETAIL_COLUMNS = (" ", *(state.value for state in JobState), "EXPECTED")

_FLAGS = ((JobState.HELD, "H"), (JobState.DELETED, "D"), (JobState.FAILED, "F"))
"""Why a running run may need a person, the most urgent first."""

_NUMBERED = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})*")
"""An id that counts, such as HTCondor's ``9.0``; eighteen digits keep a hostile one from costing time."""

_CODE_COLUMNS = (
    " ",
    "PAYLOAD ERROR COUNT",
    "PAYLOAD ERROR CODES",
    "INFRASTRUCTURE ERROR COUNT",
    "INFRASTRUCTURE ERROR CODES",
)
_PAYLOAD_CODES = frozenset({1, 2})
_MOST_FAILED_SHOWN = 10
_SHORTEST_RULE = 3
_INDENT = "  "
_BLANK_LINES = ("", "")


def summary_table(reports: Sequence[RunReport]) -> str:
    """Return BPS's table of runs, a row each, sorted by id: numbers as numbers, then all others as text."""
    rows = [_summary_row(report) for report in sorted(reports, key=lambda report: _id_order(report.id))]
    return "\n".join(_table(_SUMMARY_COLUMNS, rows))


def detailed(report: RunReport) -> str:
    """Return everything about one run: its row, where it is, the states per label, what failed, and what to know."""
    lines = [summary_table([report]), *_BLANK_LINES, *_facts(report), *_BLANK_LINES, *_label_table(report)]
    failed = _failed_lines(report)
    if failed:
        lines += ["", *failed]
    if report.notes:
        lines += ["", *(f"Note: {_paragraph(note)}" for note in report.notes)]
    return "\n".join(lines)


def exit_codes(report: RunReport) -> str:
    """Return how jobs failed per label, as BPS's ``--return-exit-codes`` shows it.

    BPS calls the codes 1 and 2 errors of the payload, and all others, signals among them, errors of the infrastructure.
    """
    failed = [job for job in report.jobs or () if job.state is JobState.FAILED]
    codes: dict[str, list[int]] = {label: [] for label in report.labels}
    for job in failed:
        code = job.exit_code if job.exit_code is not None else job.signal
        if code is not None:
            codes.setdefault(job.label, []).append(code)
    rows = [_code_row(label, these) for label, these in codes.items()]
    lines = _table(_CODE_COLUMNS, rows, first_left=True)
    unknown = dict.fromkeys(job.label for job in failed if job.exit_code is None and job.signal is None)
    if unknown:
        lines.append(f"WARNING: exit codes not available for job labels: {', '.join(map(visible, unknown))}")
    return "\n".join(lines)


def _code_row(label: str, codes: Sequence[int]) -> tuple[str, ...]:
    payload = [code for code in codes if code in _PAYLOAD_CODES]
    others = [code for code in codes if code not in _PAYLOAD_CODES]
    cells = [label]
    for these in (payload, others):
        cells += [str(len(these)), ", ".join(sorted({str(code) for code in these})) or "None"]
    return tuple(cells)


def outcome_line(report: RunReport) -> str:
    """Return how a run ended, in one line whose counts add up to the number of jobs."""
    expected = report.expected
    parts = [f"{expected} job" + ("" if expected == 1 else "s")]
    parts += [f"{state.lower()} {report.counts.get(state, 0)}/{expected}" for state in _outcome_states(report)]
    seconds = wall_seconds(report)
    if seconds is not None:
        parts.append(f"wall time {duration(seconds)}")
    return ", ".join(parts)


def error_text(error: LongshoreError) -> str:
    """Return an error as the command line shows it: place and message, then the way out."""
    place = f"{visible(str(error.origin))}: " if error.origin else ""
    text = f"longshore: error: {place}{_paragraph(error.message)}"
    return f"{text}\n{_INDENT}{_paragraph(error.hint)}" if error.hint else text


def ping_text(report: PingReport) -> str:
    """Return a service's answer: whether it can be used, then what it told about itself."""
    lines = [f"{visible(report.service)}: {'ok' if report.ok else 'not usable'}: {_paragraph(report.message)}"]
    lines += [f"{_INDENT}{visible(name)}: {visible(value)}" for name, value in report.details.items()]
    if report.capacity:
        amounts = (f"{visible(name)} {_amount(name, amount)}" for name, amount in report.capacity.items())
        lines.append(f"{_INDENT}largest job: {', '.join(amounts)}")
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """Return a length of time in its two largest units, such as ``4 min 5 s``; below a minute in tenths of a second."""
    tenths = round(max(seconds, 0.0), 1)
    if tenths < 60:
        return f"{tenths:.1f} s"
    minutes, rest = divmod(int(tenths), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def timestamp(at: float, *, timespec: str = "seconds") -> str | None:
    """Return a moment as ISO-8601 in UTC, or ``None`` if it lies outside the years 1 to 9999.

    Parameters
    ----------
    at
        Seconds since the epoch.
    timespec
        How exact, in the words of `datetime.datetime.isoformat`; the rest is cut off.
    """
    try:
        moment = datetime.fromtimestamp(at, UTC)
    except (OverflowError, ValueError, OSError):
        # A clock that was never set, or a damaged record, must not hide the rest of a report.
        return None
    return moment.replace(tzinfo=None).isoformat(timespec=timespec) + "Z"


def wall_seconds(report: RunReport) -> float | None:
    """Return how long a finished run took, from its first start to its end; ``None`` while that is not known."""
    if report.started_at is None or report.finished_at is None:
        return None
    return max(report.finished_at - report.started_at, 0.0)


def visible(text: str) -> str:
    r"""Return text with all that a terminal would obey, or could not print, spelled out as ``\x1b`` and the like."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def _paragraph(text: str) -> str:
    """Text whose line breaks are kept, but indented: no message can pass for a second one."""
    return f"\n{_INDENT}".join(visible(line) for line in text.strip().splitlines())


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], *, first_left: bool = False) -> list[str]:
    """Lines of a table as astropy's ``pformat`` lays it out, which scripts around BPS cut by column.

    Headers are centred above a rule of at least three dashes, values stand to the right (the first column's to the left
    if `first_left`), and every column is as wide as its widest cell: what is cut off cannot be searched for.
    """
    cells = [[visible(cell) for cell in row] for row in rows]
    widths = [max(_SHORTEST_RULE, *map(len, column)) for column in zip(header, *cells, strict=True)]
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


def _summary_row(report: RunReport) -> tuple[str, ...]:
    percent = report.percent_succeeded
    return (
        _flag(report),
        report.state.value,
        "UNK" if percent is None else str(percent),
        report.id,
        report.operator,
        report.project,
        report.campaign,
        report.payload,
        report.name,
    )


def _flag(report: RunReport) -> str:
    if report.state is JobState.RUNNING:
        for state, flag in _FLAGS:
            if report.counts.get(state):
                return flag
    return " "


def _id_order(run_id: str) -> tuple[bool, tuple[int, ...], str]:
    """Sort key of an id: BPS sorts as text and puts 10.0 before 9.0; our own ids are in the order of time as text."""
    if _NUMBERED.fullmatch(run_id):
        return False, tuple(int(part) for part in run_id.split(".")), run_id
    return True, (), run_id


def _facts(report: RunReport) -> list[str]:
    """What is known of a run as a whole, a line each."""
    facts: list[tuple[str, str | None]] = [("Path", report.path), ("Service", report.service), ("Site", report.site)]
    for name, at in (
        ("Submitted", report.submitted_at),
        ("Started", report.started_at),
        ("Finished", report.finished_at),
    ):
        facts.append((name, None if at is None else timestamp(at)))
    return [f"{name}: {visible(value)}" for name, value in facts if value]


def _label_table(report: RunReport) -> list[str]:
    rows = [("TOTAL", *(str(report.counts.get(state, 0)) for state in JobState), str(report.expected))]
    for label, counts in report.labels.items():
        rows.append((label, *(str(counts.get(state, 0)) for state in JobState), str(sum(counts.values()))))
    lines = _table(_DETAIL_COLUMNS, rows, first_left=True)
    rule = lines[1]
    return [*lines[:3], rule, *lines[3:]]


def _failed_lines(report: RunReport) -> list[str]:
    """A line for each of the first failed jobs."""
    failed = [job for job in report.jobs or () if job.state is JobState.FAILED]
    if not failed:
        return []
    lines = ["Failed:"]
    lines += [f"{_INDENT}{_failed_line(job, report.path)}" for job in failed[:_MOST_FAILED_SHOWN]]
    if len(failed) > _MOST_FAILED_SHOWN:
        lines.append(f"{_INDENT}... and {len(failed) - _MOST_FAILED_SHOWN} more")
    return lines


def _failed_line(job: JobReport, run_path: str) -> str:
    parts = [_why(job), f"{job.attempts} attempt" + ("" if job.attempts == 1 else "s")]
    if job.log is not None:
        # The whole path, so that it can be copied to a pager; one that is absolute already stays as it is.
        parts.append(f"log {PurePosixPath(run_path) / job.log}")
    return f"{visible(job.name)}: {visible(', '.join(parts))}"


def _why(job: JobReport) -> str:
    """Why a job failed, in as few words as tell all that is known."""
    known = []
    if job.signal is not None:
        known.append(_signal_name(job.signal))
    elif job.exit_code is not None:
        known.append(f"exit code {job.exit_code}")
    if job.cause is not None and not (known and job.cause in {Cause.EXIT, Cause.SIGNAL}):
        known.insert(0, job.cause.value)
    words = ", ".join(known) or "cause unknown"
    return f"{words} ({job.reason})" if job.reason else words


def _signal_name(number: int) -> str:
    try:
        return f"signal {signal.Signals(number).name}"
    except ValueError:
        # The job may have run on a host that has signals this one lacks.
        return f"signal {number}"


def _outcome_states(report: RunReport) -> list[JobState]:
    """The two states everybody looks for, and any other that some job is in."""
    always = [JobState.SUCCEEDED, JobState.FAILED]
    return always + [state for state in JobState if state not in always and report.counts.get(state)]


def _amount(name: str, amount: int) -> str:
    """An amount of a resource; memory and disk are counted in bytes, all others in pieces."""
    if name not in {"memory", "disk"} or amount < 1024:
        return str(amount)
    power = min((amount.bit_length() - 1) // 10, 5)
    return f"{amount / 1024**power:.1f}".removesuffix(".0") + f" {'KMGTP'[power - 1]}iB"
