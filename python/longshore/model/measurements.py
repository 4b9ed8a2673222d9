"""What jobs used, measured over runs: distributions, the history of a label, and the margin of suggested requests."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec

from longshore.model.workflow import MIB, round_up

# Distribution of measured values: their number, minimum, median, 95th percentile and maximum (pure).


_FEW_LISTS: Final = 16
"""More sorted lists take less time to merge than to search for their quantiles."""


class Distribution(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Distribution of the known values of one measure; all but the counts are ``None`` where no value is known.

    Attributes
    ----------
    known, unknown
        Number of attempts with and without a value.
    least, p50, p95, most
        Minimum, median, 95th percentile and maximum; the percentiles are values that were measured.
    total
        Sum of the known values.
    """

    known: int = 0
    unknown: int = 0
    least: float | None = None
    p50: float | None = None
    p95: float | None = None
    most: float | None = None
    total: float | None = None


def quantile(ascending: Sequence[float], share: float) -> float | None:
    """Return the smallest value that at least this share of the values does not exceed; ``None`` of no values."""
    return ascending[_place(len(ascending), share)] if ascending else None


def distribution_of(values: Sequence[float], *, unknown: int = 0) -> Distribution:
    """Return the distribution of some values, in any order; `unknown` attempts have none."""
    return distribution_of_lists([sorted(values)], unknown=unknown)


def distribution_of_lists(ascending: Sequence[Sequence[float]], *, unknown: int = 0) -> Distribution:
    """Return the distribution of the values of several lists in ascending order; `unknown` attempts have none."""
    lists = [each for each in ascending if each]
    if len(lists) > _FEW_LISTS:
        lists = [sorted(chain.from_iterable(lists))]
    known = sum(map(len, lists))
    if not known:
        return Distribution(unknown=unknown)
    return Distribution(
        known=known,
        unknown=unknown,
        least=min(each[0] for each in lists),
        p50=_quantile_of_lists(lists, 0.5),
        p95=_quantile_of_lists(lists, 0.95),
        most=max(each[-1] for each in lists),
        total=sum(map(sum, lists)),
    )


def _quantile_of_lists(lists: Sequence[Sequence[float]], share: float) -> float:
    """Return what `quantile` returns of the merged lists, without merging them."""
    if len(lists) == 1:
        return lists[0][_place(len(lists[0]), share)]
    place = _place(sum(map(len, lists)), share)
    begins, ends = [0] * len(lists), list(map(len, lists))
    while True:
        # At each step, half of the longest part that is left goes.
        longest = max(range(len(lists)), key=lambda number: ends[number] - begins[number])
        middle = lists[longest][(begins[longest] + ends[longest]) // 2]
        below = [bisect_left(*part) for part in zip(lists, [middle] * len(lists), begins, ends, strict=True)]
        upto = [bisect_right(*part) for part in zip(lists, [middle] * len(lists), begins, ends, strict=True)]
        if place < sum(below):
            ends = below
        elif place >= sum(upto):
            begins = upto
        else:
            return middle


def _place(number: int, share: float) -> int:
    return max(0, math.ceil(share * number) - 1)


# Run-time and memory history of a label over all runs of a payload, and its update by new successes (pure).


FORMAT: Final = 1
"""Version of a history's file."""
MAX_WEIGHT: Final = 100
"""Successes after which a mean is a moving one: each new value counts for one in a hundred."""
MAX_JOBS: Final = 20_000
"""Maximum number of jobs per label with run times of their own; others are expected to take the label's mean."""
_MAX_COUNTED: Final = 2_000
"""Successes in a distribution after which older ones count half."""


class AttemptUsage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Resources used by one successful attempt."""

    label: str
    job: str
    run_s: float
    cpu_s: float | None = None
    peak_memory_b: int | None = None
    tasks: int = 1
    """Number of tasks that the job ran."""


class LabelHistory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Statistics of a label's successful attempts.

    Attributes
    ----------
    weight
        Successes in `run_s`, counted up to `MAX_WEIGHT`.
    run_s, cpu_s
        Mean run time, and mean processor time where that is known.
    task_s
        Mean run time per task; 0 where unknown, and where jobs have one task each.
    cpu_weight
        Successes in `cpu_s`, counted likewise.
    peak_memory_b
        The maximum memory of all successes.
    run_ms, memory_mib
        Number of successes per amount, rounded up to four steps per octave; older ones count for less.
    jobs
        Run time in seconds of the newest success of each job.
    """

    label: str
    v: int = FORMAT
    weight: int = 0
    run_s: float = 0.0
    task_s: float = 0.0
    cpu_weight: int = 0
    cpu_s: float = 0.0
    peak_memory_b: int = 0
    run_ms: Mapping[int, float] = msgspec.field(default_factory=dict)
    memory_mib: Mapping[int, float] = msgspec.field(default_factory=dict)
    jobs: Mapping[str, float] = msgspec.field(default_factory=dict)


def update_mean(mean: float, weight: int, value: float) -> tuple[float, int]:
    """Mean and weight after one more value: the plain mean of the first hundred, then a moving mean."""
    weight = min(weight + 1, MAX_WEIGHT)
    return mean + (value - mean) / weight, weight


def update_history(history: LabelHistory, successes: Iterable[AttemptUsage]) -> LabelHistory:
    """Update the history of a label by more successes, oldest first."""
    run_s, weight = history.run_s, history.weight
    task_s = history.task_s or run_s
    cpu_s, cpu_weight = history.cpu_s, history.cpu_weight
    peak = history.peak_memory_b
    run_ms, memory_mib, jobs = dict(history.run_ms), dict(history.memory_mib), dict(history.jobs)
    for success in successes:
        task_s, _ = update_mean(task_s, weight, success.run_s / success.tasks)
        run_s, weight = update_mean(run_s, weight, success.run_s)
        _count(run_ms, max(1, round(success.run_s * 1000)))
        if success.cpu_s is not None:
            cpu_s, cpu_weight = update_mean(cpu_s, cpu_weight, success.cpu_s)
        if success.peak_memory_b is not None:
            peak = max(peak, success.peak_memory_b)
            _count(memory_mib, max(1, -(-success.peak_memory_b // MIB)))
        if success.job in jobs or len(jobs) < MAX_JOBS:
            jobs[success.job] = float(f"{success.run_s:.4g}")
    return LabelHistory(
        label=history.label,
        weight=weight,
        run_s=run_s,
        task_s=0.0 if task_s == run_s else task_s,
        cpu_weight=cpu_weight,
        cpu_s=cpu_s,
        peak_memory_b=peak,
        run_ms=run_ms,
        memory_mib=memory_mib,
        jobs=jobs,
    )


def count_quantile(counts: Mapping[int, float], share: float) -> int | None:
    """Quantile of a distribution, rounded up as its amounts are; ``None`` where it is empty."""
    rest = share * sum(counts.values())
    amount = None
    for amount in sorted(counts):
        rest -= counts[amount]
        # Rounding may leave a sum of floats short by the last bit.
        if rest <= 1e-9:
            break
    return amount


def _count(counts: dict[int, float], amount: int) -> None:
    step = round_up(amount)
    counts[step] = counts.get(step, 0.0) + 1.0
    if sum(counts.values()) > _MAX_COUNTED:
        for each, number in list(counts.items()):
            # Drop amounts that were seen once, long ago.
            if number < 1.0:
                del counts[each]
            else:
                counts[each] = number / 2


# Margin of suggested requests over what was measured.


DEFAULT_MARGIN: Final = 1.2
"""Factor on what was measured."""
MIN_MARGIN: Final = 1.0
MAX_MARGIN: Final = 10.0
