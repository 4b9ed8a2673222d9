"""Estimates a run's time left, as a range, from run times and concurrency so far.

The engine estimates with the number of processors (`longshore.engine.schedule.eta`).
A reader of the journal does not know it, so the concurrency so far stands for it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

MIN_ENDED: Final = 10
"""Ended attempts required for an estimate: a guess from three jobs is worse than none."""
_RECENT_ENDS: Final = 1000
"""Ends per label that are used: the newest say most, and sorting a million at every poll is slow."""


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
    """Return the shortest and longest likely time left in seconds; ``None`` if too little is known.

    The range spans median and mean run times, and the concurrency of the whole run and of its second half.
    Dependencies between jobs are ignored. `now` and `started_at` are this moment and the first start. `left` counts
    unfinished jobs per label. `running_s` has the run time so far of running jobs per label, empty if unknown.
    `run_s` has run times of successful attempts per label. `ended_at` has end times, ascending, and `busy_s` the
    summed run time up to each.
    """
    elapsed = now - started_at
    if len(ended_at) < MIN_ENDED or elapsed <= 0.0 or not any(left):
        return None
    # A label without ended attempts is estimated like all others.
    everything = [seconds for times in run_s for seconds in times[-_RECENT_ENDS // max(len(run_s), 1) :]]
    paces = _mean_concurrency(now, elapsed, ended_at, busy_s)
    if not everything or not paces:
        return None
    # Imported late: every command that reports on runs imports this module, and few need estimates.
    from statistics import fmean, median

    from longshore.engine.schedule.eta import LabelWork, estimate_eta

    work = []
    for number, times, runs in zip(left, run_s, running_s or [()] * len(left), strict=True):
        if number:
            sample = times[-_RECENT_ENDS:] if len(times) >= MIN_ENDED else everything
            middle, mean = median(sample), fmean(sample)
            # A job beyond the typical run time is about to end, and must not reduce the others' time.
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
    # Only ended attempts count: the value may be too low at the start of long jobs, never too high.
    return estimate_eta(work, max(paces)).earliest_s, estimate_eta(work, min(paces)).latest_s


def _mean_concurrency(now: float, elapsed: float, ended_at: Sequence[float], busy_s: Sequence[float]) -> list[float]:
    """Return the average number of concurrent jobs in the whole run and in its second half."""
    before = bisect_right(ended_at, now - elapsed / 2)
    recent = busy_s[-1] - (busy_s[before - 1] if before else 0.0)
    return [pace for pace in (busy_s[-1] / elapsed, recent / (elapsed / 2)) if pace > 0.0]
