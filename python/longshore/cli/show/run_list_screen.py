"""List of runs for a terminal: fits its width, and leaves out columns that say nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from longshore.cli.show.format import escape_controls
from longshore.cli.show.report_text import sort_by_id
from longshore.cli.terminal import Terminal
from longshore.model.report import RunReport
from longshore.reports.run_list import field_values
from longshore.reports.styled import STATE_STYLES, Line, Span, cut, lines_text, pad, width_of

_COLUMNS: Final = ("x", "state", "%s", "id", "operator", "project", "campaign", "payload", "run")
_DROPPED: Final = ("operator", "campaign", "project", "run", "payload")
"""Columns that a narrow terminal leaves out, the first first."""
_MIN_WIDTH: Final = 12
_GAP: Final = "  "


def run_list_screen(reports: Sequence[RunReport], terminal: Terminal, *, global_ids: bool = False) -> str:
    """Format a list of runs, a row each, sorted by id, in the width of a terminal."""
    rows = [_cells(report, global_ids=global_ids) for report in sort_by_id(reports)]
    names = [name for name in _COLUMNS if name in {"state", "id"} or any(row[name].strip() for row in rows)]
    for dropped in ("", *_DROPPED):
        names = [name for name in names if name != dropped]
        widths = {name: max(width_of(name), *(width_of(row[name]) for row in rows), 0) for name in names}
        excess = sum(widths.values()) + len(_GAP) * (len(names) - 1) - terminal.width
        widest = max(names, key=lambda name: widths[name])
        if excess <= 0 or widths[widest] - excess >= _MIN_WIDTH:
            widths[widest] -= max(0, excess)
            break
    ellipsis = "…" if terminal.has_unicode else "..."
    lines = [_line({name: name.upper() for name in names}, widths, ellipsis, style="strong")]
    lines += [_line(row, widths, ellipsis) for row in rows]
    return lines_text(lines, color=terminal.has_color)


def _cells(report: RunReport, *, global_ids: bool) -> dict[str, str]:
    values = zip(_COLUMNS, field_values(report, _COLUMNS), strict=True)
    row = {name: "" if value is None else str(value) for name, value in values}
    row["state"] = report.state_word
    if global_ids:
        row["id"] = report.global_id or report.id
    return {name: escape_controls(text) for name, text in row.items()}


def _line(row: dict[str, str], widths: dict[str, int], ellipsis: str, *, style: str = "") -> Line:
    spans = []
    for name, width in widths.items():
        text = pad(cut(row[name], width, ellipsis), width, left=name != "%s")
        spans += [Span(_GAP), Span(text, style or (STATE_STYLES.get(row[name], "") if name == "state" else ""))]
    return tuple(spans[1:])
