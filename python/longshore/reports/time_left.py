"""Time left of a live run, as a range of simulated courses of its open jobs; of very many, from the sums of labels."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import accumulate
from math import exp
from random import Random
from statistics import NormalDist
from typing import Final

import msgspec

from longshore.contract.service import RunPaths
from longshore.engine.run_settings import read_settings
from longshore.errors import LongshoreError
from longshore.model.workflow import Barrier
from longshore.reports.attempts import AttemptCollector
from longshore.rundir.histories import read_history
from longshore.rundir.job_table import JobTable

_UNKNOWN_SPREAD: Final = 1.0
"""Standard deviation of the logarithm of a label's run times where only other labels are known, beside `UNSEEN`."""
UNSEEN: Final = (-1.5, 1.8)
"""Mean and standard deviation of the logarithm of a factor that all labels without a run time share: often the long
jobs come first, and what follows gathers their results."""
_SMALL_SPREAD: Final = 0.35
"""The same of a label's mean where one run time is known; it falls with the square root of their number."""
_LEAST_SPREAD: Final = 0.03
_BEYOND: Final = 0.4
"""Spread of what jobs still need that run longer than any that ended."""
_MEAN_BEYOND: Final = 2 * math.exp(_BEYOND**2 / 2) * NormalDist().cdf(_BEYOND)
"""Mean of `_draw_beyond`: that of exp(abs(x)), where x is normal with this spread."""
_RECENT: Final = 500
"""Ended jobs of a label that count: the newest say most."""
_TRIES: Final = 8


class LabelRunTimes:
    """Distribution of the run times of a label's jobs.

    Jobs that still run are censored values: without them, the first jobs to end would make all look short
    (estimator of Kaplan and Meier).

    Parameters
    ----------
    ended
        Run times in this run, in order of their ends.
    running
        Run times so far of running jobs.
    earlier
        Number of jobs per run time in milliseconds in earlier runs.
    fallback_s
        Typical run time of other labels, where nothing is known of this one.
    """

    def __init__(
        self,
        ended: Sequence[float],
        running: Sequence[float] = (),
        earlier: Mapping[int, float] | None = None,
        *,
        fallback_s: float = 1.0,
    ) -> None:
        recent = sorted(ended[-_RECENT:])
        self.known = len(recent)
        self._longest_running = max(running, default=0.0)
        values, weights = _survival_weights(recent, sorted(running))
        self._beyond = max(0.0, 1.0 - sum(weights)) if recent else 0.0
        counted = sum((earlier or {}).values())
        self.is_seen = bool(recent or counted)
        self._spread = _SMALL_SPREAD
        if not recent:
            self._spread = _SMALL_SPREAD / 2 if counted else _UNKNOWN_SPREAD
        if counted and self.known < _RECENT:
            # As if ten jobs of earlier runs had run in this one, at most.
            share = min(counted, 10.0) / (min(counted, 10.0) + self.known)
            weights = [weight * (1 - share) for weight in weights]
            self._beyond *= 1 - share
            for run_ms, number in (earlier or {}).items():
                values.append(run_ms / 1000)
                weights.append(share * number / counted)
        self._values = values or [max(fallback_s, self._longest_running)]
        self._sums = list(accumulate(weights)) or [1.0]
        self._effective = max(1.0, self.known + min(counted, 10.0))
        self.mean_s = self._mean(weights)

    def _mean(self, weights: Sequence[float]) -> float:
        total = sum(value * weight for value, weight in zip(self._values, weights or [1.0], strict=True))
        return total + self._beyond * self._longest_running * _MEAN_BEYOND

    def draw_scale(self, dice: Random, unseen: float) -> float:
        """Return a factor for all jobs of the label in one simulated course: how well their mean is known.

        `unseen` is the factor of this course for labels without a run time.
        """
        factor = math.exp(dice.gauss(0.0, max(_LEAST_SPREAD, self._spread / math.sqrt(self._effective))))
        return factor if self.is_seen else factor * unseen

    def draw(self, dice: Random, scale: float, *, elapsed_s: float = 0.0) -> float:
        """Return the run time of one job that has run for `elapsed_s`."""
        for _ in range(_TRIES):
            drawn = self._draw_any(dice) * scale
            # One that has not begun may take no time at all.
            if drawn > elapsed_s or not elapsed_s:
                return drawn
        # It runs longer than is known of any.
        return elapsed_s * _draw_beyond(dice)

    def _draw_any(self, dice: Random) -> float:
        share = dice.random()
        place = bisect_right(self._sums, share)
        if place < len(self._values):
            return self._values[place]
        if self._beyond:
            return self._longest_running * _draw_beyond(dice)
        return self._values[-1]


def label_run_times(
    run_s: Sequence[Sequence[float]],
    running_s: Sequence[Sequence[float]],
    earlier_ms: Sequence[Mapping[int, float]] = (),
) -> list[LabelRunTimes]:
    """Return the distribution of each label's run times, from those of ended, running and earlier jobs per label."""
    typical = typical_run_time(run_s)
    return [
        LabelRunTimes(ended, running, earlier, fallback_s=typical)
        for ended, running, earlier in zip(run_s, running_s, earlier_ms or [{}] * len(run_s), strict=True)
    ]


def typical_run_time(run_s: Sequence[Sequence[float]]) -> float:
    """Return the geometric mean of the labels' medians; 1 where no run time is known."""
    medians = [sorted(times[-_RECENT:])[len(times[-_RECENT:]) // 2] for times in run_s if times]
    return math.exp(sum(math.log(max(each, 1e-3)) for each in medians) / len(medians)) if medians else 1.0


def _draw_beyond(dice: Random) -> float:
    """Return the factor on the run time so far of a job that runs longer than any that ended."""
    return math.exp(abs(dice.gauss(0.0, _BEYOND)))


def _survival_weights(ended: Sequence[float], running: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the values of ended jobs, and the share of all jobs that takes each, ascending."""
    values, weights = [], []
    surviving = 1.0
    for place, value in enumerate(ended):
        # Jobs that took or will take at least as long.
        at_risk = len(ended) - place + len(running) - bisect_left(running, value)
        values.append(value)
        weights.append(surviving / at_risk)
        surviving -= surviving / at_risk
    return values, weights


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


BARRIER: Final = -1
"""In place of a label: a barrier, which takes neither time nor a slot."""


class RemainingWork(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of a live run that are not over, with the barriers between them, and run times by label.

    Attributes
    ----------
    labels
        Index of the label per open job, parents before children; `BARRIER` for a barrier.
    parents
        Places of the open parents of each; those of a barrier are the jobs before it.
    elapsed_s
        Run time so far of each that runs; ``None`` for others.
    run_s
        Run times of successful attempts per label, in order of their ends.
    earlier_ms
        Number of jobs per run time in earlier runs of the payload, in milliseconds, per label.
    slots
        Least and largest number of jobs that may run at once.
    """

    labels: Sequence[int]
    parents: Sequence[Sequence[int]]
    elapsed_s: Sequence[float | None]
    run_s: Sequence[Sequence[float]]
    earlier_ms: Sequence[Mapping[int, float]] = ()
    slots: tuple[int, int]


def find_open_jobs(
    over: Sequence[int],
    failed: Mapping[int, object],
    parents: Sequence[Sequence[int]],
    barriers: Iterable[Barrier] = (),
) -> list[int]:
    """Return the jobs that may still run: not over, and no ancestor failed or was deleted.

    Jobs before a blocking barrier count as ancestors. Those before another barrier need not succeed, only be over.
    `over` is 1 for a job that succeeded, 2 for one that was deleted, and else 0.
    """
    blocking = [barrier for barrier in barriers if barrier.blocking]
    before = _barriers_before(blocking)
    shut: dict[int, bool] = {}
    dead = bytearray(len(parents))
    found = []
    for job, of_job in enumerate(parents):
        if over[job] == 1:
            continue
        for number in before.get(job, ()):
            if number not in shut:
                shut[number] = any(dead[earlier] for earlier in blocking[number].after)
            dead[job] |= shut[number]
        if over[job] or job in failed or dead[job] or any(dead[parent] for parent in of_job):
            dead[job] = 1
        else:
            found.append(job)
    return found


def map_parents(
    jobs: Sequence[int], parents: Sequence[Sequence[int]], barriers: Sequence[Barrier] = ()
) -> Iterator[tuple[int | None, tuple[int, ...]]]:
    """Yield each job with the places of those of its parents that are among these jobs.

    A barrier with such jobs before it is yielded as ``None``, before the first job that waits for it. So the number of
    places grows with the number of jobs, not of pairs of jobs.
    """
    before = _barriers_before(barriers)
    places: dict[int, int] = {}
    barrier_places: dict[int, list[int]] = {}
    size = 0
    for job in jobs:
        for number in before.get(job, ()):
            if number not in barrier_places:
                waits_for = tuple(places[earlier] for earlier in barriers[number].after if earlier in places)
                barrier_places[number] = [size] if waits_for else []
                if waits_for:
                    yield None, waits_for
                    size += 1
        waits_for = tuple(places[parent] for parent in parents[job] if parent in places)
        yield job, (*waits_for, *(place for number in before.get(job, ()) for place in barrier_places[number]))
        places[job] = size
        size += 1


def _barriers_before(barriers: Iterable[Barrier]) -> dict[int, list[int]]:
    """Return the numbers of the barriers that each job waits for."""
    found: dict[int, list[int]] = {}
    for number, barrier in enumerate(barriers):
        for job in barrier.before:
            found.setdefault(job, []).append(number)
    return found


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
    return range_of_courses(lambda _, dice: _summed_course_s(work, times, dice), MAX_COURSES)


def _summed_course_s(work: SummedWork, times: Sequence[LabelRunTimes], dice: Random) -> float:
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


_MORE_ROOM: Final = 4
"""Factor on the largest number of running jobs while no job waits for room."""


def estimate_time_left(
    jobs: JobTable,
    attempts: AttemptCollector,
    open_jobs: Sequence[int],
    now: float,
    *,
    earlier: Mapping[str, Mapping[int, float]] | None = None,
    max_simulated: int = MAX_JOBS,
) -> tuple[float, float] | None:
    """Return the range of seconds until a run is over; ``None`` if too little is known.

    Parameters
    ----------
    open_jobs
        Number of jobs per label that are not over.
    now
        This moment, in seconds since the epoch.
    earlier
        Number of jobs per run time in milliseconds, per label, in earlier runs; by default the history of the payload.
    max_simulated
        Number of open jobs up to which the rest of the run is simulated.
    """
    if attempts.first_start is None or now - attempts.live_jump_s <= attempts.first_start or not any(open_jobs):
        return None
    history = read_run_times(jobs.run, jobs.labels) if earlier is None else earlier
    if not any(attempts.run_s) and not all(label in history for label in jobs.labels):
        return None
    earlier_ms = [history.get(label, {}) for label in jobs.labels]
    if sum(open_jobs) > max_simulated:
        return sum_time_left(summed_work(attempts, open_jobs, now, earlier_ms=earlier_ms))
    return simulate_time_left(remaining_work(jobs, attempts, now, earlier_ms=earlier_ms))


def remaining_work(
    jobs: JobTable, attempts: AttemptCollector, now: float, *, earlier_ms: Sequence[Mapping[int, float]] = ()
) -> RemainingWork:
    """Return the open jobs of a run with their parents, the barriers between them, and the run times so far."""
    found = find_open_jobs(attempts.over, attempts.failed, jobs.parents, jobs.barriers)
    placed = list(map_parents(found, jobs.parents, jobs.barriers))
    if jobs.final is not None and found and found[-1] == jobs.final:
        placed[-1] = jobs.final, tuple(range(len(placed) - 1))
    starts = attempts.running
    elapsed = [
        attempts.run_so_far(start, now) if job is not None and (start := starts.get(job)) is not None else None
        for job, _ in placed
    ]
    has_ready = any(so_far is None and not before for so_far, (_, before) in zip(elapsed, placed, strict=True))
    return RemainingWork(
        labels=[BARRIER if job is None else jobs.label_of[job] for job, _ in placed],
        parents=[before for _, before in placed],
        elapsed_s=elapsed,
        run_s=attempts.run_s,
        earlier_ms=earlier_ms,
        slots=_slots(attempts, now, has_ready=has_ready),
    )


def summed_work(
    attempts: AttemptCollector, open_jobs: Sequence[int], now: float, *, earlier_ms: Sequence[Mapping[int, float]] = ()
) -> SummedWork:
    """Return the remaining work per label.

    The pace counts running jobs as well as ended ones, so that it is not too low before the first jobs end.
    """
    running: list[list[float]] = [[] for _ in open_jobs]
    for job, start in attempts.running.items():
        running[attempts.label_of[job]].append(attempts.run_so_far(start, now))
    elapsed = max(now - attempts.live_jump_s - (attempts.first_start or now), 1e-3)
    busy, running_s = attempts.busy_s[-1] if attempts.busy_s else 0.0, sum(map(sum, running))
    before = bisect_right(attempts.ended_at, now - elapsed / 2)
    recent = busy - (attempts.busy_s[before - 1] if before else 0.0)
    paces = [(busy + running_s) / elapsed, (recent + running_s) / (elapsed / 2), float(len(attempts.running))]
    known = [min(pace, float(attempts.most_running or pace)) for pace in paces if pace > 0.0] or [1.0]
    return SummedWork(
        open_jobs=open_jobs,
        running_s=running,
        run_s=attempts.run_s,
        earlier_ms=earlier_ms,
        paces=(min(known), max(known)),
    )


def _slots(attempts: AttemptCollector, now: float, *, has_ready: bool) -> tuple[int, int]:
    """Return the least and largest number of jobs that may run at once, by what ran so far."""
    most, running = attempts.most_running, len(attempts.running)
    if not most:
        # Where starts are not reported, the mean is all that is known.
        pace = (attempts.busy_s[-1] if attempts.busy_s else 0.0) / max(
            now - attempts.live_jump_s - (attempts.first_start or now), 1e-3
        )
        return max(1, int(pace)), max(1, round(pace + 1.0))
    if has_ready:
        return max(1, running), most
    # Nothing waits for room: there may be more of it.
    return most, _MORE_ROOM * most


def read_run_times(run: RunPaths, labels: Sequence[str]) -> Mapping[str, Mapping[int, float]]:
    """Return the run times of the payload's earlier runs, and those of this run in the same history."""
    try:
        identity = read_settings(run).history
    except LongshoreError:
        return {}
    if not identity:
        return {}
    return {label: found.run_ms for label, found in read_history(identity, labels).items() if found.run_ms}
