"""Bar of the states of a run's or label's jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from markupsafe import Markup

from longshore.app.page.figures.svg import element, figure
from longshore.model.run.states import JobState
from longshore.model.wording import count_noun

BAR_ORDER: Final = (
    JobState.SUCCEEDED,
    JobState.RUNNING,
    JobState.PENDING,
    JobState.READY,
    JobState.UNREADY,
    JobState.HELD,
    JobState.FAILED,
    JobState.PRUNED,
    JobState.DELETED,
    JobState.MISFIT,
    JobState.UNKNOWN,
)
"""States from left to right."""
_WIDTH: Final = 1000.0
_LEAST: Final = 8.0
"""Width of a state that has few jobs: it must be seen."""


def shown_states(counts: Mapping[JobState, int]) -> list[tuple[JobState, int]]:
    """Return states that some job is in, in the order of the bar."""
    return [(state, counts[state]) for state in BAR_ORDER if counts.get(state)]


def describe_counts(counts: Mapping[JobState, int]) -> str:
    """Describe counts in words."""
    return ", ".join(f"{number:,} {state.lower()}" for state, number in shown_states(counts)) or "no jobs"


def draw_state_bar(name: str, counts: Mapping[JobState, int], what: str = "") -> Markup:
    """Return a bar whose parts have the share of each state."""
    shown = shown_states(counts)
    widths = _shares([number for _, number in shown])
    parts = []
    at = 0.0
    for (state, number), width in zip(shown, widths, strict=True):
        title = element("title", {}, f"{count_noun(number, 'job')} {state.lower()}")
        parts.append(
            element("rect", {"x": at, "y": 0, "width": width, "height": 10, "class": f"s-{state.value}"}, title)
        )
        at += width
    text = f"{what}: {describe_counts(counts)}" if what else describe_counts(counts)
    return figure(name, text, (_WIDTH, 10), *parts, stretch=True)


def _shares(numbers: list[int]) -> list[float]:
    """Divide the width in proportion; each part can be seen."""
    total = sum(numbers)
    if not total:
        return []
    widths = [max(_LEAST, _WIDTH * number / total) for number in numbers]
    return [width * _WIDTH / sum(widths) for width in widths]
