"""Estimates the time left of a run by simulated courses of its open jobs, with drawn run times (pure)."""

from __future__ import annotations

from heapq import heappop, heappush
from math import exp
from random import Random
from typing import Final

from longshore.app.time_left.courses import MAX_COURSES, range_of_courses
from longshore.app.time_left.remaining_work import BARRIER, RemainingWork
from longshore.app.time_left.run_times import UNSEEN, LabelRunTimes, label_run_times

MAX_JOBS: Final = 1500
"""Open jobs up to which courses are simulated."""
_DRAWS: Final = 30_000
"""Jobs in all simulated courses together, which take some hundredths of a second."""
_MIN_COURSES: Final = 12


def simulate_time_left(work: RemainingWork) -> tuple[float, float]:
    """Return the range of the time left in seconds; the same for the same work.

    Each course draws the run times of all open jobs, and starts them as slots get free, those with the longest chain
    of jobs behind them first. Half of the courses have the least number of slots, half the largest.
    """
    running: list[list[float]] = [[] for _ in work.run_s]
    for label, elapsed in zip(work.labels, work.elapsed_s, strict=True):
        if elapsed is not None:
            running[label].append(elapsed)
    times = label_run_times(work.run_s, running, work.earlier_ms)
    pressures = _pressures(work, [each.mean_s for each in times])
    return range_of_courses(
        lambda course, dice: _course_s(work, times, pressures, work.slots[course % 2], dice),
        min(max(_DRAWS // max(1, len(work.labels)), _MIN_COURSES), MAX_COURSES),
    )


def _pressures(work: RemainingWork, means: list[float]) -> list[float]:
    """Return the expected length of the longest chain that begins with each job."""
    chains = [0.0 if label == BARRIER else means[label] for label in work.labels]
    behind = [0.0] * len(chains)
    for job in range(len(chains) - 1, -1, -1):
        chains[job] += behind[job]
        for parent in work.parents[job]:
            behind[parent] = max(behind[parent], chains[job])
    return chains


def _course_s(
    work: RemainingWork, times: list[LabelRunTimes], pressures: list[float], slots: int, dice: Random
) -> float:
    """Return how long one course of the open jobs takes."""
    unseen = exp(dice.gauss(*UNSEEN))
    scales = [each.draw_scale(dice, unseen) for each in times]
    waiting = [len(parents) for parents in work.parents]
    children: list[list[int]] = [[] for _ in waiting]
    running: list[tuple[float, int]] = []
    ready: list[tuple[float, int]] = []
    for job, (label, elapsed) in enumerate(zip(work.labels, work.elapsed_s, strict=True)):
        for parent in work.parents[job]:
            children[parent].append(job)
        if elapsed is not None:
            total = times[label].draw(dice, scales[label], elapsed_s=elapsed)
            heappush(running, (total - elapsed, job))
        elif not waiting[job]:
            heappush(ready, (-pressures[job], job))
    now = 0.0
    while running or ready:
        while ready and (len(running) < slots or not running):
            job = heappop(ready)[1]
            label = work.labels[job]
            heappush(running, (now + times[label].draw(dice, scales[label]), job))
        now, ended = heappop(running)
        for child in children[ended]:
            waiting[child] -= 1
            if waiting[child] or work.elapsed_s[child] is not None:
                continue
            if work.labels[child] == BARRIER:
                heappush(running, (now, child))
            else:
                heappush(ready, (-pressures[child], child))
    return now
