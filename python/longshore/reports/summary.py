"""Run summary: time left, longest running jobs, wait reasons and failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import nlargest
from itertools import islice
from typing import Final

from longshore.contract.executor import WaitReasons
from longshore.model.event import Ended, Lost
from longshore.model.measurements import quantile
from longshore.model.report import (
    Badput,
    JobFailure,
    LabelSummary,
    Removals,
    RemovedJob,
    Retries,
    RunningJob,
    RunSummary,
)
from longshore.model.states import TERMINAL_STATES, Cause, JobState
from longshore.model.wording import format_moment
from longshore.model.workflow import largest_memory
from longshore.reports.attempts import AttemptCollector
from longshore.reports.failures import FailedJobs
from longshore.reports.state import RunStatus
from longshore.rundir.job_table import JobTable

_MAX_RUNNING: Final = 5
"""Running jobs listed by name."""
_MAX_LAST_FAILURES: Final = 3
"""Newest failures listed by name."""


def summarize_run(
    jobs: JobTable,
    attempts: AttemptCollector,
    failed: FailedJobs,
    status: RunStatus,
    *,
    now: float,
    waiting: WaitReasons,
) -> RunSummary:
    """Summarize a run from its attempts, failed jobs and status.

    `now` is in seconds since the epoch. `waiting` are the workload manager's reasons not to start jobs.
    """
    end, is_live = attempts.finished, status.is_live
    hopeless = _count_hopeless(attempts, status.counts, waiting) if is_live else 0
    return RunSummary(
        elapsed_s=attempts.elapsed_s(now) if is_live or end else None,
        left_s=_time_left(jobs, attempts, status, now) if _goes_on(status) and not hopeless else None,
        hopeless_jobs=hopeless,
        running=_longest_running(attempts, jobs, now) if is_live else (),
        waits=(*_wait_notes(attempts, status.counts, now), *_manager_notes(status.counts, waiting)) if is_live else (),
        failures=failed.groups(),
        badput={
            cause: Badput(
                attempts=spent.number, seconds=spent.seconds, exit_codes=spent.exit_codes, signals=spent.signals
            )
            for cause, spent in sorted(attempts.badput.items(), key=lambda item: item[0])
        },
        exit_codes=failed.exit_codes(),
        last_failures=_last_failures(attempts, jobs, failed),
        retries=_retries(attempts, jobs, failed) if is_live else Retries(),
        removals=_removals(attempts, jobs),
        labels={label: _label_summary(jobs, attempts, number) for number, label in enumerate(jobs.labels)},
    )


def _goes_on(status: RunStatus) -> bool:
    """Tell whether a run gets to its end by itself; nothing tells how long a pause or a hold takes."""
    return status.is_live and not status.is_paused and status.state is not JobState.HELD


def _label_summary(jobs: JobTable, attempts: AttemptCollector, label: int) -> LabelSummary:
    times = sorted(attempts.run_s[label])
    requested = largest_memory(jobs.requests_of_labels[jobs.labels[label]])
    return LabelSummary(
        median_s=quantile(times, 0.5),
        p95_s=quantile(times, 0.95),
        peak_memory_b=attempts.peak_memory_b[label] or None,
        requested_memory_b=max(attempts.raised_memory_b[label], requested or 0) or None,
        staged=attempts.staged.get(label),
    )


def _time_left(jobs: JobTable, attempts: AttemptCollector, status: RunStatus, now: float) -> tuple[float, float] | None:
    open_jobs = [
        sum(count for state, count in status.labels[label].items() if state not in TERMINAL_STATES)
        for label in jobs.labels
    ]
    # Imported late: only live runs have time left.
    from longshore.reports.time_left import estimate_time_left

    return estimate_time_left(jobs, attempts, open_jobs, now)


def _longest_running(attempts: AttemptCollector, jobs: JobTable, now: float) -> tuple[RunningJob, ...]:
    longest = sorted(attempts.running.values(), key=lambda start: (start.at or start.t, start.j))[:_MAX_RUNNING]
    names = jobs.names_of(start.j for start in longest)
    return tuple(
        RunningJob(
            name=names[start.j],
            label=jobs.label(start.j),
            host=start.host,
            # What is shown is how long ago that was.
            started_at=start.at or start.t if attempts.since_life_s is None else now - attempts.run_so_far(start, now),
        )
        for start in longest
    )


def _last_failures(attempts: AttemptCollector, jobs: JobTable, failed: FailedJobs) -> tuple[JobFailure, ...]:
    newest = list(islice(reversed(attempts.failed), _MAX_LAST_FAILURES))
    return _job_failures(newest, attempts, jobs, failed)


def _retries(attempts: AttemptCollector, jobs: JobTable, failed: FailedJobs) -> Retries:
    """Return the jobs whose newest attempt to end failed, and that may still succeed."""
    ends = {
        job: end
        for job, end in attempts.failed_ends.items()
        if job not in attempts.failed and job not in attempts.hold_codes and not is_cancelled(end)
    }
    newest = nlargest(_MAX_LAST_FAILURES, ends, key=lambda job: (ends[job].t, ends[job].n))
    return Retries(jobs=len(ends), newest=_job_failures(newest, attempts, jobs, failed))


def _removals(attempts: AttemptCollector, jobs: JobTable) -> Removals:
    """Return the jobs that a person removed from the workload manager."""
    newest = list(islice(reversed(attempts.removed), _MAX_LAST_FAILURES))
    names = jobs.names_of(newest)
    return Removals(
        jobs=len(attempts.removed),
        newest=tuple(
            RemovedJob(name=names[job], label=jobs.label(job), reason=attempts.removed[job]) for job in newest
        ),
    )


def is_cancelled(end: Ended | Lost) -> bool:
    """Tell whether an attempt ended because its job was cancelled."""
    return isinstance(end, Ended) and end.cause is Cause.CANCELLED


def _job_failures(
    chosen: Sequence[int], attempts: AttemptCollector, jobs: JobTable, failed: FailedJobs
) -> tuple[JobFailure, ...]:
    names = jobs.names_of(chosen)
    found = []
    for job in chosen:
        end = attempts.failed_ends.get(job)
        message = failed.error_line(job, names[job], end)
        found.append(_job_failure(names[job], jobs.label(job), end, message))
    return tuple(found)


def _job_failure(name: str, label: str, end: Ended | Lost | None, message: str) -> JobFailure:
    if end is None:
        return JobFailure(name=name, label=label)
    if isinstance(end, Lost):
        return JobFailure(
            name=name,
            label=label,
            cause=Cause.LOST,
            reason=end.why,
            ended_at=end.t,
            attempt=end.a,
            message=message,
        )
    return JobFailure(
        name=name,
        label=label,
        cause=end.cause,
        exit_code=end.exit,
        signal=end.signal,
        reason=end.reason,
        ended_at=end.end or end.t,
        attempt=end.a,
        message=message,
    )


def _wait_notes(attempts: AttemptCollector, counts: Mapping[JobState, int], now: float) -> list[str]:
    notes = []
    later = [at for job, at in attempts.retry_times.items() if at > now and job not in attempts.running]
    if later:
        notes.append(f"{_counted(len(later))} waiting to be retried, the first at {format_moment(min(later))}")
    ready = counts.get(JobState.READY, 0) - len(later)
    if ready > 0 and (counts.get(JobState.RUNNING, 0) or counts.get(JobState.PENDING, 0)):
        notes.append(f"{_counted(ready)} ready, waiting for room")
    for state, words in (
        (JobState.PENDING, "submitted, waiting to be started"),
        (JobState.HELD, "held"),
        (JobState.UNREADY, "waiting for other jobs to succeed"),
    ):
        if counts.get(state):
            notes.append(f"{_counted(counts[state])} {words}")
    return notes


def _manager_notes(counts: Mapping[JobState, int], waiting: WaitReasons) -> list[str]:
    """Return the workload manager's reasons why jobs wait, while some do."""
    if not (counts.get(JobState.PENDING) or counts.get(JobState.HELD)):
        return []
    numbers = {reason: len(jobs) for reason, jobs in waiting.reasons.items() if jobs}
    texts = ", ".join(f"{reason} ({number})" for reason, number in sorted(numbers.items(), key=lambda it: (-it[1], it)))
    return [f"the workload manager's reasons: {texts}"] if texts else []


def _count_hopeless(attempts: AttemptCollector, counts: Mapping[JobState, int], waiting: WaitReasons) -> int:
    """Count the jobs that the workload manager can never start."""
    named = {job for reason in waiting.hopeless for job in waiting.reasons.get(reason, ())}
    # The reasons may be older than the counts.
    return min(len(named - attempts.running.keys()), counts.get(JobState.PENDING, 0))


def _counted(count: int) -> str:
    return f"{count} job is" if count == 1 else f"{count} jobs are"
