"""Estimated end of a run (ETA), and resource advice per label, from the runtime history; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import msgspec

from longshore.model.run.label_history import LabelHistory, quantile
from longshore.model.workflow.request import MIB, Request, round_up

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
    shortest_s, longest_s
        Run times between which most of its jobs are.
    """

    open: int
    running: int = 0
    elapsed_s: float = 0.0
    cpus: float = 1.0
    run_s: float
    shortest_s: float | None = None
    longest_s: float | None = None


class Eta(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds until a run is over: the best guess, and its range."""

    expected_s: float
    earliest_s: float
    latest_s: float


def estimate_eta(work: Iterable[LabelWork], cpus: float) -> Eta:
    """Estimate the rest of a run that only resources limit: dependencies between jobs are left out.

    Parameters
    ----------
    work
        Remaining work per label.
    cpus
        Processors its jobs can have at once, or had on average.
    """
    labels = [each for each in work if each.open > 0]
    expected = _estimate_s([(each, each.run_s) for each in labels], cpus)
    least = _estimate_s([(each, each.run_s if each.shortest_s is None else each.shortest_s) for each in labels], cpus)
    most = _estimate_s([(each, each.run_s if each.longest_s is None else each.longest_s) for each in labels], cpus)
    return Eta(expected_s=expected, earliest_s=min(least, expected), latest_s=max(most, expected))


def _estimate_s(labels: list[tuple[LabelWork, float]], cpus: float) -> float:
    total = longest = 0.0
    for work, run_s in labels:
        cpus_per_job = max(1.0, work.cpus)
        waiting = work.open - work.running
        left = waiting * run_s + max(0.0, work.running * run_s - work.elapsed_s)
        total += left * cpus_per_job
        # However many processors there are, no job takes less than its own time.
        longest = max(longest, run_s if waiting else left / max(1, work.running))
    return max(total / (cpus if cpus > 0.0 else 1.0), longest)


def is_relevant_change(reported: float | None, newest: float, *, at: float) -> bool:
    """Return whether a new estimate of the end differs from the reported one by enough to report it.

    Both are times on one clock, which now shows `at`; ``None`` means that none was reported.
    """
    return reported is None or abs(newest - reported) * _MIN_PART > abs(newest - at)


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """Measured use of a label's resources and the advised request; ``None`` where there are no measurements.

    Attributes
    ----------
    successes
        Successes that the means rest on, at most a hundred.
    request
        The label's request.
    run_s
        Mean run time.
    memory_p50_b, memory_p95_b, memory_max_b
        Memory that 50 % and 95 % of its jobs did not exceed, and the most of any job.
    cpus_used
        Processors that were busy on average.
    memory_b
        Memory to request: the most of any job plus the margin, rounded up.
    cpus
        Processors to request.
    """

    label: str
    successes: int
    request: Request
    run_s: float
    memory_p50_b: int | None = None
    memory_p95_b: int | None = None
    memory_max_b: int | None = None
    cpus_used: float | None = None
    memory_b: int | None = None
    cpus: int | None = None


def make_advice(history: LabelHistory, request: Request, *, margin: float = 1.1) -> Advice:
    """Return the request to advise for a label, from the use of its successes.

    `margin` multiplies the most memory of any job.
    """
    used = history.cpu_s / history.run_s if history.cpu_weight and history.run_s > 0 else None
    p50, p95 = quantile(history.memory_mib, 0.5), quantile(history.memory_mib, 0.95)
    peak = history.peak_memory_b
    return Advice(
        label=history.label,
        successes=history.weight,
        request=request,
        run_s=history.run_s,
        memory_p50_b=None if p50 is None else min(p50 * MIB, peak),
        memory_p95_b=None if p95 is None else min(p95 * MIB, peak),
        memory_max_b=peak or None,
        cpus_used=used,
        memory_b=round_up(math.ceil(peak * margin / MIB)) * MIB if peak else None,
        cpus=None if used is None else max(1, math.ceil(used - 0.1)),
    )
