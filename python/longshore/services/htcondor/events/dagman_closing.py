"""Explains, from the end of DAGMan and its messages, failures of jobs that no log records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from longshore.contract.context import RunPaths
from longshore.engine.rundir.job_table import JobTable
from longshore.services.htcondor.events.dagman_end import End
from longshore.services.htcondor.events.dagman_out import gate_failures, refusal, submit_failures
from longshore.services.htcondor.events.job_phases import Phase, Standing


def never_submitted(run: RunPaths, said: Path, end: End, standing: Standing, *, any_log: bool) -> dict[int, str]:
    """Reasons for the failure of jobs that DAGMan never submitted.

    `said` is the path of DAGMan's messages, which may be missing. `standing` has the jobs' phases at the end. `any_log`
    says whether DAGMan submitted anything.
    """
    failures = submit_failures(said, len(standing.phase))
    if end.removed:
        return failures
    wrong = refusal(said)
    if wrong and not any_log:
        return failures | dict.fromkeys(_ready(run, standing), f"DAGMan refuses to run the graph: {wrong[0]}")
    if end.exit and not (failures or standing.failed or standing.cancelled):
        # No job failed: the error is DAGMan's own.
        why = [*gate_failures(said), *reversed(wrong)][:1]
        words = ": ".join([f"DAGMan ended with exit code {end.exit}", *why])
        return dict.fromkeys(_ready(run, standing), words)
    return failures


def _ready(run: RunPaths, standing: Standing) -> Iterator[int]:
    """Jobs that have not started although all their parents and barriers are over."""
    phase = standing.phase
    jobs = JobTable(run, "parents")
    behind = {
        job
        for barrier in jobs.barriers
        if any(phase[before] != Phase.OVER for before in barrier.after)
        for job in barrier.before
    }
    # The final job waits for all others.
    first = jobs.parents[:-1] if jobs.header.final else jobs.parents
    for job, parents in enumerate(first):
        if phase[job] == Phase.IDLE and job not in behind and all(phase[parent] == Phase.OVER for parent in parents):
            yield job
