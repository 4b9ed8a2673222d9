"""Estimates how long a run still takes, as a range, from how long its jobs took and how many ran side by side.

The engine estimates with the number of processors (`longshore.engine.schedule.eta`).
A reader of the journal does not know it, so the pace so far stands for it.
"""

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
    running_s: Sequence[Sequence[float]] = (),
    run_s: Sequence[Sequence[float]],
    ended_at: Sequence[float],
    busy_s: Sequence[float],
) -> tuple[float, float] | None:
    """The least and the most time a run is likely to need from now on, in seconds; ``None`` when too little is known.

    The two ends of the range are the smaller and the larger of median and mean, and of the pace of the whole run and of
    its second half. That jobs wait for each other is left out.

    Parameters
    ----------
    now, started_at
        This moment, and the first start.
    left
        Jobs that are not over, per label.
    running_s
        How long each of them has run that runs, per label; nothing where that is not known.
    run_s
        Run times of successful attempts, per label.
    ended_at, busy_s
        When each attempt ended, ascending, and how long all up to it ran together.
    """
    elapsed = now - started_at
    if len(ended_at) < LEAST_ENDS or elapsed <= 0.0 or not any(left):
        return None
    # A label nobody has run yet is taken for one like all others.
    everything = [seconds for times in run_s for seconds in times[-_RECENT // max(len(run_s), 1) :]]
    paces = _paces(now, elapsed, ended_at, busy_s)
    if not everything or not paces:
        return None
    # Imported here: every command that looks at a run imports this module, and few have anything to estimate.
    from statistics import fmean, median

    from longshore.engine.schedule.eta import LabelWork, eta

    work = []
    for number, times, runs in zip(left, run_s, running_s or [()] * len(left), strict=True):
        if number:
            sample = times[-_RECENT:] if len(times) >= LEAST_ENDS else everything
            middle, mean = median(sample), fmean(sample)
            # What has run longer than its like is about to end, and takes no time off from the others.
            elapsed_s = sum(min(seconds, mean) for seconds in runs)
            work.append(
                LabelWork(
                    open=number,
                    running=min(len(runs), number),
                    elapsed_s=elapsed_s,
                    run_s=mean,
                    shortest_s=min(middle, mean),
                    longest_s=max(middle, mean),
                )
            )
    # Pace counts only what has ended: at the beginning of long jobs it is too low, never too high.
    return eta(work, max(paces)).earliest_s, eta(work, min(paces)).latest_s


def _paces(now: float, elapsed: float, ended_at: Sequence[float], busy_s: Sequence[float]) -> list[float]:
    """How many jobs ran side by side on average, in the whole run so far and in its second half."""
    before = bisect_right(ended_at, now - elapsed / 2)
    recent = busy_s[-1] - (busy_s[before - 1] if before else 0.0)
    return [pace for pace in (busy_s[-1] / elapsed, recent / (elapsed / 2)) if pace > 0.0]
