"""Time left of a live run, from the attempts of its events and the history of its payload."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

from longshore.app.report.attempts import AttemptCollector
from longshore.app.time_left.remaining_work import BARRIER, RemainingWork, find_open_jobs, map_parents
from longshore.app.time_left.simulated import MAX_JOBS, simulate_time_left
from longshore.app.time_left.summed import SummedWork, sum_time_left
from longshore.contract.context import RunPaths
from longshore.engine.rundir.job_table import JobTable
from longshore.engine.rundir.run_settings import read_settings
from longshore.errors import LongshoreError
from longshore.world.runs.label_history import read_history

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
