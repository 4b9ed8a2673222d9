"""Estimated end of a run for the engine's priorities; a report has a range (`longshore.reports.time_left`); pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

_MIN_PART: Final = 16
"""Smallest change of an estimate worth reporting, as a part of the time that is left."""


class LabelWork(msgspec.Struct, frozen=True, kw_only=True):
    """Remaining work of one label.

    Attributes
    ----------
    open
        Jobs that are not over, including running ones.
    running
        Running jobs.
    elapsed_s
        Seconds that the running jobs have run, summed.
    cpus
        Processors of a job.
    run_s
        Expected run time of a job.
    """

    open: int
    running: int = 0
    elapsed_s: float = 0.0
    cpus: float = 1.0
    run_s: float


def estimate_rest_s(work: Iterable[LabelWork], cpus: float) -> float:
    """Return the seconds until a run is over that only resources limit: dependencies between jobs are left out.

    Parameters
    ----------
    work
        Remaining work per label.
    cpus
        Processors its jobs can have at once, or had on average.
    """
    total = longest = 0.0
    for label in work:
        if label.open <= 0:
            continue
        waiting = label.open - label.running
        left = waiting * label.run_s + max(0.0, label.running * label.run_s - label.elapsed_s)
        total += left * max(1.0, label.cpus)
        # However many processors there are, no job takes less than its own time.
        longest = max(longest, label.run_s if waiting else left / max(1, label.running))
    return max(total / (cpus if cpus > 0.0 else 1.0), longest)


def is_relevant_change(reported: float | None, newest: float, *, at: float) -> bool:
    """Return whether a new estimate of the end differs from the reported one by enough to report it.

    Both are times on one clock, which now shows `at`; ``None`` means that none was reported.
    """
    return reported is None or abs(newest - reported) * _MIN_PART > abs(newest - at)
