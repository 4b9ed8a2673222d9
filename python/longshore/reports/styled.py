"""Styled lines of text: measures them in columns of a terminal, cuts them, and adds colours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from longshore.model.report import escape_controls
from longshore.model.states import JobState

STYLES: Final[Mapping[str, str]] = {
    "good": "32",
    "bad": "31",
    "active": "36",
    "warning": "33",
    "strong": "1",
    "faint": "2",
}
"""Parameters of the terminal's sequence per style."""

STATE_STYLES: Final[Mapping[str, str]] = {
    JobState.SUCCEEDED: "good",
    JobState.FAILED: "bad",
    JobState.RUNNING: "active",
    JobState.HELD: "warning",
    JobState.DELETED: "warning",
    JobState.PRUNED: "warning",
    JobState.UNKNOWN: "warning",
    "PAUSED": "warning",
}


class Span(NamedTuple):
    """A piece of text in one style; control characters in it are escaped when it is drawn."""

    text: str
    style: str = ""


Line: TypeAlias = tuple[Span, ...]


def width_of(text: str) -> int:
    """Return the number of columns of a text: characters of some scripts take two, others none."""
    if text.isascii():
        return len(text)
    # Imported late: most names are ASCII.
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, width: int, ellipsis: str = "…") -> str:
    """Return the text in at most `width` columns, with an ellipsis where it was cut."""
    text = escape_controls(text)
    if width_of(text) <= width:
        return text
    room = width - len(ellipsis)
    return _start_of(text, room) + ellipsis if room > 0 else ellipsis[: max(width, 0)]


def cut_name(name: str, width: int, ellipsis: str = "…") -> str:
    """Return a name in at most `width` columns, cut in its middle: similar names often differ at their ends."""
    name = escape_controls(name)
    room = width - len(ellipsis)
    if width_of(name) <= width or room < 2:
        return cut(name, width, ellipsis)
    start = _start_of(name, room // 2)
    end = _start_of(name[::-1], room - width_of(start))[::-1]
    return start + ellipsis + end


def _start_of(text: str, room: int) -> str:
    """Return as many first characters as fit in the room."""
    end = min(len(text), room)
    while end and width_of(text[:end]) > room:
        end -= 1
    return text[:end]


def pad(text: str, width: int, *, left: bool = False) -> str:
    """Return the text in exactly `width` columns, if it is not wider; `left` puts it at the left."""
    space = " " * max(0, width - width_of(text))
    return text + space if left else space + text


def cut_line(line: Line, width: int, ellipsis: str = "…") -> Line:
    """Return a line in at most `width` columns, without control characters."""
    spans: list[Span] = []
    room = width
    for span in line:
        text = cut(span.text, room, ellipsis)
        if text:
            spans.append(Span(text, span.style))
        room -= width_of(text)
        if text != escape_controls(span.text):
            break
    return tuple(spans)


def plain(line: Line) -> str:
    """Return a line without its styles."""
    return "".join(escape_controls(span.text) for span in line).rstrip()


def line_text(line: Line, *, color: bool) -> str:
    """Return a line as a terminal shows it."""
    return "".join(map(_colored, line)) if color else plain(line)


def lines_text(lines: Iterable[Line], *, color: bool) -> str:
    """Return lines as a terminal shows them."""
    return "\n".join(line_text(line, color=color) for line in lines)


class TableColumn(NamedTuple):
    """A column of a table: its title, and a cell per row; `left` aligns them at the left."""

    title: str
    cells: Sequence[Line]
    left: bool = False

    @property
    def width(self) -> int:
        """Width of its widest cell."""
        return max(width_of(self.title), *map(line_width, self.cells))


def line_width(line: Line) -> int:
    """Return the number of columns of a line."""
    return sum(width_of(span.text) for span in line)


def table_width(columns: Sequence[TableColumn], gap: int) -> int:
    """Return the number of columns of a table with `gap` spaces between its columns."""
    return sum(column.width for column in columns) + gap * (len(columns) - 1)


def table_lines(columns: Sequence[TableColumn], gap: int) -> list[Line]:
    """Return the lines of a table: its header, then a line per row."""
    titles = (pad(column.title, column.width, left=column.left) for column in columns)
    header = (Span((" " * gap).join(titles).rstrip(), "strong"),)
    return [header, *(_row_line(columns, number, gap) for number in range(len(columns[0].cells)))]


def _row_line(columns: Sequence[TableColumn], number: int, gap: int) -> Line:
    spans: list[Span] = []
    for column in columns:
        if spans:
            spans.append(Span(" " * gap))
        cell = column.cells[number]
        space = Span(" " * (column.width - line_width(cell)))
        spans += (*cell, space) if column.left else (space, *cell)
    return tuple(span for span in spans if span.text)


def _colored(span: Span) -> str:
    text = escape_controls(span.text)
    return f"\x1b[{STYLES[span.style]}m{text}\x1b[0m" if span.style and text.strip() else text
