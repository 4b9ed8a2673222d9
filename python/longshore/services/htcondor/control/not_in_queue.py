"""Finds selected jobs that an intervention misses, because DAGMan has yet to submit them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from longshore.contract.service import RunPaths
from longshore.engine.rundir.job_table import JobTable
from longshore.engine.rundir.replay import replay
from longshore.engine.state.job_codes import JobCode
from longshore.errors import LongshoreError
from longshore.services.htcondor.events.event_source import LogEventSource
from longshore.services.htcondor.submission_record import read_submissions

_UNSUBMITTED: Final = (JobCode.UNREADY, JobCode.READY, JobCode.UNDECIDED)
_IN_QUEUE: Final = (JobCode.PENDING, JobCode.RUNNING, JobCode.HELD)


def unreached_notes(run: RunPaths, selected: Collection[int], act: str) -> tuple[str, ...]:
    """Notes on selected jobs that an intervention such as ``hold`` did not reach; empty if it reached all."""
    try:
        count = len(unsubmitted_jobs(run, selected))
    except (LongshoreError, OSError) as error:
        return (f"whether DAGMan has yet to submit some of these jobs is not known: {error}",)
    if not count:
        return ()
    jobs_are, pronoun = ("1 of these jobs is", "it") if count == 1 else (f"{count} of these jobs are", "them")
    alternative = "pause the whole run" if act == "hold" else f"{act} the whole run"
    note = (
        f"{jobs_are} not in HTCondor's queue yet, and DAGMan will submit {pronoun}: "
        f"{act} {pronoun} once there, or {alternative}"
    )
    return (note,)


def unsubmitted_jobs(run: RunPaths, selected: Collection[int]) -> set[int]:
    """Selected jobs that DAGMan is yet to submit, without descendants of jobs that were reached.

    Raises `RunUnreadableError` if the events cannot be read.
    """
    jobs = JobTable(run, "parents")
    # The caller knows that the run is in the queue.
    state = replay(jobs, LogEventSource(run, read_submissions(run), lambda: False).events()[0])
    code, selected_jobs = state.code, set(selected)
    # Their removal may not be in the log yet.
    reached = {job for job in selected_jobs if code[job] in _IN_QUEUE}
    missed = set()
    for job, parents in enumerate(jobs.parents):
        if job in reached or code[job] not in _UNSUBMITTED:
            continue
        if job != state.final and any(parent in reached for parent in parents):
            reached.add(job)
        elif job in selected_jobs:
            missed.add(job)
    return missed
