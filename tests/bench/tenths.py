"""Divides a run into tenths of its jobs: the rate of each, and the processor time that its jobs took.

A file system that slows down lowers the rate, as do other programs. The processor time of engine and keeper tells
such a run from one whose engine has more to do per job the longer it runs.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

PARTS = 10


class JobEnd(NamedTuple):
    """The end of a job, as its keeper recorded it: epoch seconds, and seconds of a processor."""

    time: float
    cpu_s: float


class Tenth(msgspec.Struct, frozen=True, kw_only=True):
    """A tenth of a run.

    Attributes
    ----------
    per_s
        Jobs per second by the clock.
    engine_us, keeper_us, job_us
        Processor microseconds per job of the engine, of the keeper, and of the jobs' own processes.
    """

    per_s: float
    engine_us: float
    keeper_us: float
    job_us: float

    @property
    def own_us(self) -> float:
        """Processor microseconds per job that are Longshore's own."""
        return self.engine_us + self.keeper_us


def split_run(
    ends: Sequence[JobEnd], engine: Sequence[tuple[float, float]], keeper: Sequence[tuple[float, float]]
) -> list[Tenth]:
    """Return the tenths of a run; none of one that is too short.

    Parameters
    ----------
    ends
        All jobs.
    engine, keeper
        Samples of time and of processor seconds so far, oldest first.
    """
    ends = sorted(ends)
    size = (len(ends) - 1) // PARTS
    if size < 1 or not engine or not keeper:
        return []
    found = []
    for first in range(0, size * PARTS, size):
        since, until = ends[first].time, ends[first + size].time
        found.append(
            Tenth(
                per_s=size / max(until - since, 1e-9),
                engine_us=1e6 * (_cpu_at(engine, until) - _cpu_at(engine, since)) / size,
                keeper_us=1e6 * (_cpu_at(keeper, until) - _cpu_at(keeper, since)) / size,
                job_us=1e6 * sum(end.cpu_s for end in ends[first : first + size]) / size,
            )
        )
    return found


def _cpu_at(samples: Sequence[tuple[float, float]], time: float) -> float:
    """Return the processor seconds at a time, between two samples by interpolation."""
    after = bisect_left(samples, (time, 0.0))
    if after in (0, len(samples)):
        return samples[min(after, len(samples) - 1)][1]
    (earlier, before_s), (later, after_s) = samples[after - 1], samples[after]
    return before_s + (after_s - before_s) * (time - earlier) / max(later - earlier, 1e-9)


def compare_rates(tenths: Sequence[Tenth]) -> float:
    """Return the rate of the last tenth by that of the second; the first one has the start of the engine."""
    return tenths[-1].per_s / tenths[1].per_s if tenths else math.nan


def compare_costs(tenths: Sequence[Tenth]) -> float:
    """Return Longshore's processor time per job in the second tenth by that in the last: below 1 if it grows."""
    return tenths[1].own_us / tenths[-1].own_us if tenths else math.nan


def describe_tenths(tenths: Sequence[Tenth]) -> list[str]:
    """Return the lines of a table, and one that compares its last line with its second."""
    if not tenths:
        return []
    lines = ["  tenth  jobs/s  us of a processor per job: engine  keeper  processes of the job"]
    lines += [
        f"  {number:5} {tenth.per_s:7.0f} {tenth.engine_us:33.0f} {tenth.keeper_us:7.0f} {tenth.job_us:21.0f}"
        for number, tenth in enumerate(tenths, 1)
    ]
    by_own, by_jobs = compare_costs(tenths), tenths[1].job_us / tenths[-1].job_us
    last = f"engine and keeper {by_own:.2f}, jobs {by_jobs:.2f}; below 1 is a job that costs more at the end"
    return [*lines, f"  second tenth against the last: {last}"]
