"""Explains, from the end of DAGMan and its messages, failures of jobs that no log records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from longshore.services.htcondor.events.dag_jobs import DagJobs, NamedNodes
from longshore.services.htcondor.events.dagman_end import DagmanEnd
from longshore.services.htcondor.events.dagman_out import barrier_failures, dag_errors, submit_failures
from longshore.services.htcondor.events.job_phases import JobPhase, JobPhases


def explain_unsubmitted(
    jobs: DagJobs, messages: Path, end: DagmanEnd, phases: JobPhases, *, any_log: bool
) -> Mapping[int, str]:
    """Reasons for the failure of jobs that DAGMan never submitted.

    The file `messages` of DAGMan may be missing. `phases` are those at the end. `any_log` says whether DAGMan submitted
    anything.
    """
    job_of = jobs.nodes.job_of if isinstance(jobs.nodes, NamedNodes) else None
    failures = jobs.renumber(submit_failures(messages, jobs.size, job_of))
    if end.is_removed:
        return failures
    errors = dag_errors(messages)
    if errors and not any_log:
        return {**failures} | dict.fromkeys(_ready(jobs, phases), f"DAGMan refuses to run the graph: {errors[0]}")
    if end.exit and not (failures or phases.has_failures or phases.is_cancelled):
        # No job failed: the error is DAGMan's own.
        why = [*barrier_failures(messages), *reversed(errors)][:1]
        words = ": ".join([f"DAGMan ended with exit code {end.exit}", *why])
        return dict.fromkeys(_ready(jobs, phases), words)
    return failures


def _ready(jobs: DagJobs, phases: JobPhases) -> Iterator[int]:
    """Jobs that have not started although all their parents and barriers are over."""
    numbers, table = jobs.newest_numbers, jobs.table
    phase = [JobPhase.OVER if number < 0 else phases.phase[number] for number in numbers]
    behind = {
        job
        for barrier in table.barriers
        if any(phase[before] != JobPhase.OVER for before in barrier.after)
        for job in barrier.before
    }
    # The final job waits for all others.
    first = table.parents[:-1] if table.header.final else table.parents
    for job, parents in enumerate(first):
        if (
            phase[job] == JobPhase.IDLE
            and job not in behind
            and all(phase[parent] == JobPhase.OVER for parent in parents)
        ):
            yield numbers[job]
