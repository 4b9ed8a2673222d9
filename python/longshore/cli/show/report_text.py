"""Formats reports, ping results and errors as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from longshore.cli.show.format import INDENT, KIB, escape_controls, format_size, indent_paragraph
from longshore.cli.show.run_summary_text import run_summary_lines
from longshore.contract.service import PingReport
from longshore.errors import LongshoreError, Origin
from longshore.model.report import PAYLOAD_CODES, RunReport
from longshore.model.states import JobState
from longshore.model.wording import format_timestamp
from longshore.reports.run_list import field_values

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
_MAX_FAULTS: Final = 40
"""Maximum number of faults shown of one error; ``--json`` gives all."""
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


def error_text(error: LongshoreError) -> str:
    """Format an error: origin and message, then the hint; each fault of several."""
    if len(error.details) <= 1:
        return _fault_text(error.origin, error.message, error.hint)
    faults = error.details[:_MAX_FAULTS]
    # A hint that consecutive faults share is printed after the last of them.
    following = [*(fault.hint for fault in faults[1:]), ""]
    shown = [
        _fault_text(fault.origin, fault.message, fault.hint if fault.hint != after else "")
        for fault, after in zip(faults, following, strict=True)
    ]
    left = len(error.details) - len(faults)
    more = f", {left} of which are not shown; --json gives all" if left else ""
    return "\n".join([*shown, f"longshore: error: {len(error.details)} problems in all{more}"])


def _fault_text(origin: Origin | None, message: str, hint: str) -> str:
    place = f"{escape_controls(str(origin))}: " if origin else ""
    text = f"longshore: error: {place}{indent_paragraph(message)}"
    return f"{text}\n{INDENT}{indent_paragraph(hint)}" if hint else text


def ping_text(report: PingReport) -> str:
    """Format a service's answer to a ping: whether it is available, then its details."""
    lines = [
        f"{escape_controls(report.service)}: {'ok' if report.ok else 'not usable'}: {indent_paragraph(report.message)}"
    ]
    lines += [f"{INDENT}{escape_controls(name)}: {escape_controls(value)}" for name, value in report.details.items()]
    if report.capacity:
        amounts = (f"{escape_controls(name)} {_amount(name, amount)}" for name, amount in report.capacity.items())
        lines.append(f"{INDENT}largest job: {', '.join(amounts)}")
    return "\n".join(lines)


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


def _amount(name: str, amount: int) -> str:
    """Amount of a resource; memory and disk are in bytes, all others are counts."""
    return format_size(amount) if name in {"memory", "disk"} and amount >= KIB else str(amount)
