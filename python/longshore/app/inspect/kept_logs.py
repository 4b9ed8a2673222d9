"""Finds the log of a result that was kept, in the run that made it."""

from __future__ import annotations

from typing import Final

from longshore.app.report.attempts import attempts_of
from longshore.app.runs.event_source import event_blocks
from longshore.app.runs.job_events import events_of_jobs
from longshore.app.runs.open_run import READ_ERRORS, open_run
from longshore.engine.rundir.job_table import JobTable
from longshore.model.run.input_files import REUSED_FROM

_MAX_RUNS: Final = 20
"""Runs in a row that kept a result from the one before."""


def find_kept_log(run_id: str, job: str) -> str | None:
    """Return the path of the log of a job's newest attempt; that run may have kept the result from another.

    ``None`` if a run on the way is gone or cannot be read.
    """
    for _ in range(_MAX_RUNS):
        try:
            opened = open_run(run_id)
            table = JobTable(opened.run, "names")
            index = table.names.index(job)
            attempts = attempts_of(table, {index}, events_of_jobs(event_blocks(opened), {index})).of(index)
            newest = attempts[-1]
            if earlier := newest.extra.get(REUSED_FROM):
                run_id = earlier
                continue
            return str(opened.run.root / opened.log_of(index, job, table.label(index), newest.number))
        except (*READ_ERRORS, ValueError):
            return None
    return None
