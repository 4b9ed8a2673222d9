"""Range of the ends of simulated courses of a run, without the extreme ones (pure)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

MAX_COURSES: Final = 60
_CUT: Final = 0.06
"""Share of the courses outside of each end of the range."""
_SEED: Final = 20


def range_of_courses(course_s: Callable[[int, Random], float], courses: int) -> tuple[float, float]:
    """Return the range of the lengths of some courses in seconds.

    `course_s` returns the length of one, by its number and random numbers, which are the same in each call of this
    function: the same work has the same range.
    """
    dice = Random(_SEED)  # noqa: S311 - the same estimate for the same work
    lengths = sorted(course_s(number, dice) for number in range(courses))
    outside = int(courses * _CUT)
    return lengths[outside], lengths[-1 - outside]
