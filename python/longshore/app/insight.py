"""Turns what was counted of a run into what a reader wants to know: how long yet, what runs, waits and failed."""

from __future__ import annotations

from collections.abc import Mapping

from longshore.app.digest import Failed
from longshore.app.estimate import time_left
from longshore.app.tally import Tally
from longshore.contract.batch import WaitReasons
from longshore.engine.job_table import JobTable
from longshore.model.moment import moment
from longshore.model.report import Running, RunSummary, Spent
from longshore.model.state import TERMINAL, JobState

_LONGEST = 5
"""Running jobs that are named."""

Counts = Mapping[JobState, int]


def insight(
    *,
    tally: Tally,
    jobs: JobTable,
    failed: Failed,
    counts: Counts,
    labels: Mapping[str, Counts],
    now: float,
    moves: bool,
    waiting: WaitReasons | None = None,
) -> RunSummary:
    """What there is to know of a run beside its counts.

    Parameters
    ----------
    tally, jobs
        What happened, to which jobs.
    failed
        What failed.
    counts, labels
        Number of jobs per state, in all and per label.
    now
        This moment, in seconds since the epoch.
    moves
        Whether the run goes on: else nothing of it runs, waits, or needs time yet.
    waiting
        Why the workload manager does not start what it has.
    """
    start, end = tally.first_start, tally.finished
    elapsed = None if start is None else max(0.0, (end.t if end else now) - start)
    left = None
    if moves and start is not None:
        left = time_left(
            now=now,
            started_at=start,
            left=[
                sum(count for state, count in labels[label].items() if state not in TERMINAL) for label in jobs.labels
            ],
            running_s=_running_s(tally, len(jobs.labels), now),
            run_s=tally.run_s,
            ended_at=tally.ended_at,
            busy_s=tally.busy_s,
        )
    return RunSummary(
        elapsed_s=elapsed if moves or end else None,
        left_s=left,
        running=_running(tally, jobs) if moves else (),
        waits=(*_waits(tally, counts, now), *_reasons(counts, waiting)) if moves else (),
        failures=failed.digest(),
        badput={
            cause: Spent(attempts=int(spent[0]), seconds=spent[1]) for cause, spent in sorted(tally.badput.items())
        },
        exit_codes=failed.exit_codes(),
    )


def _running_s(tally: Tally, labels: int, now: float) -> list[list[float]]:
    """How long each job has run that runs, per label."""
    running: list[list[float]] = [[] for _ in range(labels)]
    for job, start in tally.running.items():
        running[tally.label_of[job]].append(max(0.0, now - (start.at or start.t)))
    return running


def _running(tally: Tally, jobs: JobTable) -> tuple[Running, ...]:
    longest = sorted(tally.running.values(), key=lambda start: (start.at or start.t, start.j))[:_LONGEST]
    names = jobs.names_of(start.j for start in longest)
    return tuple(
        Running(
            name=names[start.j],
            label=jobs.label(start.j),
            host=start.host,
            started_at=start.at or start.t,
        )
        for start in longest
    )


def _waits(tally: Tally, counts: Counts, now: float) -> list[str]:
    said = []
    later = [at for job, at in tally.retries.items() if at > now and job not in tally.running]
    if later:
        said.append(f"{_jobs(len(later))} waiting to be tried again, the first at {moment(min(later))}")
    ready = counts.get(JobState.READY, 0) - len(later)
    if ready > 0 and (counts.get(JobState.RUNNING, 0) or counts.get(JobState.PENDING, 0)):
        said.append(f"{_jobs(ready)} ready, waiting for room")
    for state, words in (
        (JobState.PENDING, "handed over, waiting to be started"),
        (JobState.HELD, "held"),
        (JobState.UNREADY, "waiting for other jobs to succeed"),
    ):
        if counts.get(state):
            said.append(f"{_jobs(counts[state])} {words}")
    return said


def _reasons(counts: Counts, waiting: WaitReasons | None) -> list[str]:
    """Why jobs wait at the workload manager, in its own words, as long as some do."""
    if waiting is None or not (counts.get(JobState.PENDING) or counts.get(JobState.HELD)):
        return []
    numbers = {reason: len(jobs) for reason, jobs in waiting.reasons.items() if jobs}
    said = ", ".join(f"{reason} ({number})" for reason, number in sorted(numbers.items(), key=lambda it: (-it[1], it)))
    return [f"the workload manager's reasons: {said}"] if said else []


def _jobs(count: int) -> str:
    return f"{count} job is" if count == 1 else f"{count} jobs are"
