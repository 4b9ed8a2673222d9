"""Turns how long jobs took, and how many ran side by side, into a range for the time a run still needs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

LEAST_ENDS: Final = 10
"""Ends of attempts below which nothing is said: a guess from three jobs is worse than none."""
_RECENT: Final = 1000
"""Ends per label that are looked at: the newest tell most, and a million are too many to sort at every look."""


def time_left(
    *,
    now: float,
    started_at: float,
    left: Sequence[int],
    run_s: Sequence[Sequence[float]],
    ended_at: Sequence[float],
    busy_s: Sequence[float],
) -> tuple[float, float] | None:
    """The least and the most time a run is likely to need from now on, in seconds; ``None`` when too little is known.

    Work that is left is the number of jobs per label times what its jobs took; it is divided by how many ran side by
    side so far. The two ends of the range are the smaller and the larger of median and mean, and of the pace of the
    whole run and of its second half. That jobs wait for each other is left out.

    Parameters
    ----------
    now, started_at
        This moment, and the first start.
    left
        Jobs that are not over, per label.
    run_s
        Run times of successful attempts, per label.
    ended_at, busy_s
        When each attempt ended, ascending, and how long all up to it ran together.
    """
    # Imported here: every command that looks at a run imports this module, and few have anything to estimate.
    from statistics import fmean, median

    elapsed = now - started_at
    if len(ended_at) < LEAST_ENDS or elapsed <= 0.0 or not any(left):
        return None
    # A label nobody has run yet is taken for one like all others.
    everything = [seconds for times in run_s for seconds in times[-_RECENT // max(len(run_s), 1) :]]
    if not everything:
        return None
    work_low = work_high = longest = 0.0
    for number, times in zip(left, run_s, strict=True):
        if number:
            sample = times[-_RECENT:] if len(times) >= LEAST_ENDS else everything
            middle, mean = median(sample), fmean(sample)
            work_low += number * min(middle, mean)
            work_high += number * max(middle, mean)
            longest = max(longest, middle)
    half = now - elapsed / 2
    before = bisect_right(ended_at, half)
    recent = busy_s[-1] - (busy_s[before - 1] if before else 0.0)
    paces = [pace for pace in (busy_s[-1] / elapsed, recent / (elapsed / 2)) if pace > 0.0]
    if not paces:
        return None
    # Pace counts only what has ended: at the beginning of long jobs it is too low, never too high.
    return work_low / max(*paces, 1e-9), max(work_high / min(paces), min(longest, work_high))
