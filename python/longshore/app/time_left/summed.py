"""Estimates the time left of a run with very many open jobs, from the sums of its labels (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp
from random import Random

import msgspec

from longshore.app.time_left.courses import MAX_COURSES, range_of_courses
from longshore.app.time_left.run_times import UNSEEN, LabelRunTimes, label_run_times


class SummedWork(msgspec.Struct, frozen=True, kw_only=True):
    """Remaining work of a run, per label.

    Attributes
    ----------
    open_jobs
        Number of jobs that are not over.
    running_s
        Run times so far of running jobs.
    run_s, earlier_ms
        As in `RemainingWork`.
    paces
        Least and largest number of jobs that ran at once on average, of the whole run and of its newest part.
    """

    open_jobs: Sequence[int]
    running_s: Sequence[Sequence[float]]
    run_s: Sequence[Sequence[float]]
    earlier_ms: Sequence[Mapping[int, float]] = ()
    paces: tuple[float, float]


def sum_time_left(work: SummedWork) -> tuple[float, float]:
    """Return the range of the time left in seconds; the same for the same work.

    A course draws how well the mean of each label is known, and divides the work by the pace. As the dependencies of so
    many jobs are not followed, it adds a random part of the time in which a chain with one job of each label leaves
    slots without work (Graham): none of it with one slot, nearly all of the chain with many.
    """
    times = label_run_times(work.run_s, work.running_s, work.earlier_ms)
    return range_of_courses(lambda _, dice: _course_s(work, times, dice), MAX_COURSES)


def _course_s(work: SummedWork, times: Sequence[LabelRunTimes], dice: Random) -> float:
    unseen = exp(dice.gauss(*UNSEEN))
    total = chain = 0.0
    for number, running, label in zip(work.open_jobs, work.running_s, times, strict=True):
        if number:
            mean = label.mean_s * label.draw_scale(dice, unseen)
            # A job beyond the mean is about to end, and must not reduce the others' time.
            total += max(0.0, number * mean - sum(min(seconds, mean) for seconds in running))
            chain += mean
    pace = dice.uniform(*work.paces)
    return total / pace + chain * max(0.0, 1 - 1 / pace) * dice.random()
