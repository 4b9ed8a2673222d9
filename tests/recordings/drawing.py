"""Draws frames of a terminal as SVG: one as a picture, several as a film that repeats."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby

from tests.recordings.terminal import Cell, Frame

_COLUMN = 8.0
_LINE = 18.0
_MARGIN = 16.0
_SHORTEST_S = 0.12
"""Frames that follow each other faster are one to the eye."""
_LAST_S = 6.0
"""How long the last frame stays before the film begins anew."""
_STYLE = """
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d8dee9;
  white-space: pre; }
.s1 { font-weight: bold; } .s2 { fill: #8f98a8; }
.s31 { fill: #ff8080; } .s32 { fill: #7fd18b; } .s33 { fill: #f0c674; } .s36 { fill: #6fc7d8; }
"""

Row = tuple[Cell, ...]


def draw_film(frames: Sequence[Frame], *, columns: int, title: str) -> str:
    """Return frames as an SVG that shows each for as long as it was shown.

    A reader whose system asks for less motion gets the last frame.

    Parameters
    ----------
    frames
        The frames, at least one.
    columns
        Width of the terminal.
    title
        What a screen reader says.
    """
    shown = _thin(frames)
    began = shown[0].at_s
    total = shown[-1].at_s - began + _LAST_S
    ends = [frame.at_s - began for frame in shown[1:]] + [total]
    rows = list(dict.fromkeys(row for frame in shown for row in frame.rows if row))
    numbers = {row: number for number, row in enumerate(rows)}
    style, body = [_STYLE], [f"<defs>{''.join(_draw_row(row, f'r{numbers[row]}') for row in rows)}</defs>"]
    for number, (frame, end) in enumerate(zip(shown, ends, strict=True)):
        uses = "".join(
            f'<use href="#r{numbers[row]}" y="{_top(place):g}"/>' for place, row in enumerate(frame.rows) if row
        )
        is_last = number == len(shown) - 1
        body.append(f'<g id="f{number}"{"" if is_last else " visibility=" + chr(34) + "hidden" + chr(34)}>{uses}</g>')
        if len(shown) > 1:
            from_, to = (100 * (frame.at_s - began) / total, 100 * end / total)
            style.append(_keyframes(number, from_, to, total))
    return _document(max(len(frame.rows) for frame in shown), columns, title, "".join(style), "".join(body))


def _thin(frames: Sequence[Frame]) -> list[Frame]:
    """Return the frames without those that were shown too shortly to be seen."""
    following = [*frames[1:], None]
    return [
        frame
        for frame, after in zip(frames, following, strict=True)
        if after is None or after.at_s - frame.at_s >= _SHORTEST_S
    ]


def _keyframes(number: int, begin: float, end: float, total: float) -> str:
    hidden, visible = "visibility:hidden", "visibility:visible"
    steps = [f"0%{{{visible if begin == 0 else hidden}}}"]
    if begin:
        steps.append(f"{begin:.2f}%{{{visible}}}")
    if end < 100:
        steps.append(f"{end:.2f}%{{{hidden}}}")
    steps.append(f"100%{{{hidden if end < 100 else visible}}}")
    rule = f"#f{number}{{animation:k{number} {total:.1f}s step-end infinite}}"
    return f"@keyframes k{number}{{{''.join(steps)}}}@media (prefers-reduced-motion:no-preference){{{rule}}}"


def _draw_row(row: Row, name: str) -> str:
    """Return a row as a text whose pieces begin at their columns, whatever font there is."""
    pieces, column = [], 0
    for style, group in groupby(row, key=lambda cell: cell.style):
        text = "".join(cell.character for cell in group)
        names = " ".join(f"s{each}" for each in style.split())
        kind = f' class="{names}"' if names else ""
        if text.strip():
            place, width = _MARGIN + column * _COLUMN, len(text) * _COLUMN
            fit = f'x="{place:g}" textLength="{width:g}" lengthAdjust="spacingAndGlyphs"'
            pieces.append(f"<tspan {fit}{kind}>{escape(text)}</tspan>")
        column += len(text)
    return f'<text id="{name}" xml:space="preserve">{"".join(pieces)}</text>'


def _top(place: int) -> float:
    return _MARGIN + (place + 0.75) * _LINE


def _document(rows: int, columns: int, title: str, style: str, body: str) -> str:
    width, height = 2 * _MARGIN + columns * _COLUMN, 2 * _MARGIN + rows * _LINE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">'
        f"<title>{escape(title)}</title><style>{style}</style>"
        f'<rect width="{width:g}" height="{height:g}" rx="8" fill="#1b1f27"/>{body}</svg>\n'
    )
