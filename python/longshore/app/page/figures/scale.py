"""Axes of figures: bins of values and round ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from longshore.model.text_format import format_duration

_TIME_STEPS: Final = (
    *(0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30),
    *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(3600 * hours for hours in (1, 2, 3, 6, 12)),
    *(86_400 * days for days in (1, 2, 7, 14, 28)),
)
"""Seconds between two ticks."""


class Tick(NamedTuple):
    """A mark of an axis: its place from 0 to 1, and its text."""

    place: float
    text: str


def time_ticks(seconds: float, most: int = 8) -> tuple[Tick, ...]:
    """Return ticks of an axis from 0 to a number of seconds, at most `most` after the first."""
    if not seconds > 0.0 or not math.isfinite(seconds):
        return (Tick(0.0, "0 s"),)
    step = next((each for each in _TIME_STEPS if seconds / each <= most), 0.0) or _round_up(seconds / most / 86_400) * (
        86_400
    )
    marks = (number * step for number in range(1, int(seconds / step) + 1))
    return (Tick(0.0, "0"), *(Tick(at / seconds, tick_duration(at)) for at in marks))


def tick_duration(seconds: float) -> str:
    """Return a duration as an axis shows it, such as ``30 s`` or ``2 h``."""
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:g} {name}" if seconds % unit == 0 else format_duration(seconds)
    return f"{seconds:g} s"


def count_ticks(most: float, ticks: int = 4) -> tuple[Tick, ...]:
    """Return ticks of an axis from 0 to a number of jobs."""
    if not most > 0.0:
        return (Tick(0.0, "0"),)
    step = _round_up(max(most / ticks, 1.0))
    return tuple(Tick(number * step / most, f"{number * step:,.0f}") for number in range(int(most / step) + 1))


def log_bins(low: float, high: float, number: int) -> tuple[float, ...]:
    """Return the limits of bins on a logarithmic axis, one more than bins."""
    low = max(low, 1e-3)
    high = max(high, low * 1.01)
    ratio = math.log(high / low)
    return (*(low * math.exp(ratio * place / number) for place in range(number)), high)


def linear_bins(high: float, number: int) -> tuple[float, ...]:
    """Return the limits of bins from 0, one more than bins."""
    return tuple(high * place / number for place in range(number + 1))


def count_in_bins(values: Sequence[float], limits: Sequence[float]) -> list[int]:
    """Count values per bin; those outside count in the first or the last one."""
    # Imported late: pages alone need it.
    from bisect import bisect_right

    counts = [0] * (len(limits) - 1)
    for value in values:
        counts[min(max(bisect_right(limits, value) - 1, 0), len(counts) - 1)] += 1
    return counts


def _round_up(value: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 2, 5, 10) if value <= factor * power * (1 + 1e-9))
