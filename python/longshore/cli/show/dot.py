"""Formats pictures of graphs as Graphviz (dot) or Mermaid."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from longshore.model.report import Drawing, DrawingNode
from longshore.model.states import JobState
from longshore.plan.drawings import escape_dot

_COLOURS: Final[tuple[tuple[JobState, str], ...]] = (
    (JobState.FAILED, "#f4b6b6"),
    (JobState.HELD, "#f6d9a8"),
    (JobState.RUNNING, "#b9d7f5"),
    (JobState.PENDING, "#d9e8f7"),
    (JobState.DELETED, "#dddddd"),
    (JobState.PRUNED, "#e6dcef"),
)
"""Colour of a box by the states of its jobs; the first that matches is used."""
_SUCCEEDED_COLOUR: Final = "#c4e6c0"
_DEFAULT_COLOUR: Final = "#ffffff"
_MERMAID_UNSAFE: Final = re.compile(r"[^\w .,:+/=-]")


def to_dot(picture: Drawing) -> str:
    """Format a picture for Graphviz."""
    lines = [
        "digraph longshore {",
        f"  label={_quote(picture.title)}; labelloc=t; rankdir=TB;",
        '  node [shape=box, style="rounded,filled", fontname="Helvetica", fillcolor="#ffffff"];',
    ]
    for number, box in enumerate(picture.boxes):
        text = r"\n".join(escape_dot(line) for line in box_lines(box))
        emphasis = ", penwidth=3" if box.here else ""
        style = ', style="rounded,dashed"' if box.more else f', fillcolor="{_box_colour(box)}"'
        lines.append(f'  n{number} [label="{text}"{style}{emphasis}];')
    for arrow in picture.arrows:
        text = f' [label="{arrow.jobs:,}"]' if arrow.jobs > 1 else ""
        lines.append(f"  n{arrow.start} -> n{arrow.end}{text};")
    return "\n".join([*lines, "}"])


def to_mermaid(picture: Drawing) -> str:
    """Format a picture for Mermaid, as Markdown pages of several forges draw it."""
    lines = ["flowchart TD"]
    for number, box in enumerate(picture.boxes):
        text = "<br/>".join(_MERMAID_UNSAFE.sub(_to_entity, line) for line in box_lines(box))
        lines.append(f'  n{number}["{text}"]')
        if not box.more:
            lines.append(f"  style n{number} fill:{_box_colour(box)}" + (",stroke-width:3px" if box.here else ""))
    for arrow in picture.arrows:
        text = f"|{arrow.jobs}|" if arrow.jobs > 1 else ""
        lines.append(f"  n{arrow.start} -->{text} n{arrow.end}")
    return "\n".join(lines)


def box_lines(box: DrawingNode) -> list[str]:
    """Lines of text in a box."""
    if box.more:
        return [box.name, box.label]
    lines = [box.name]
    if box.name != box.label:
        lines.append(box.label)
    elif box.jobs:
        lines.append(f"{box.jobs:,} job" + "s" * (box.jobs != 1))
    return [*lines, *_state_lines(box.counts, box.jobs)]


def _state_lines(counts: Mapping[JobState, int], jobs: int) -> list[str]:
    """Number of jobs per state, as short as possible."""
    if jobs == 1 or len(counts) == 1:
        return [state.value.lower() for state in counts]
    return [", ".join(f"{number:,} {state.value.lower()}" for state, number in counts.items())] if counts else []


def _box_colour(box: DrawingNode) -> str:
    for state, colour in _COLOURS:
        if box.counts.get(state):
            return colour
    return _SUCCEEDED_COLOUR if box.counts and set(box.counts) == {JobState.SUCCEEDED} else _DEFAULT_COLOUR


def _quote(text: str) -> str:
    return f'"{escape_dot(text)}"'


def _to_entity(found: re.Match[str]) -> str:
    return f"#{ord(found[0])};"
