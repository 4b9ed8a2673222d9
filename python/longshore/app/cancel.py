"""Ends a run, or some of its jobs."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from longshore.app.report import report_run, status_run
from longshore.app.runs import OpenRun
from longshore.contract.executor import CancelOutcome
from longshore.contract.service import Selection
from longshore.model.report import RunReport
from longshore.model.state import JobState

_LOOK_S = 0.1


def cancel(opened: OpenRun, selection: Selection, *, wait_s: float, show: Callable[[RunReport], None]) -> RunReport:
    """Order the end of a run's jobs, and see whether it comes.

    Parameters
    ----------
    opened
        The run.
    selection
        Which jobs.
    wait_s
        How long to look, in seconds.
    show
        Called with the newest report at every look.

    Returns
    -------
    RunReport
        How the run stands: of what is still alive then, `RunReport.notes` tells.
    """
    outcome: CancelOutcome = opened.service.cancel(opened.run, selection)
    deadline = time.monotonic() + wait_s
    report = status_run(opened)
    while selection.everything and report.state is JobState.RUNNING and time.monotonic() < deadline:
        show(report)
        time.sleep(_LOOK_S)
        report = status_run(opened)
    report = report_run(opened, details=True)
    alive = [job.name for job in report.jobs or () if job.state is JobState.RUNNING]
    notes = [*report.notes, *outcome.alive]
    if selection.everything and alive:
        notes.append(f"still alive: {', '.join(alive[:10])}" + (f" and {len(alive) - 10} more" if alive[10:] else ""))
    return msgspec.structs.replace(report, notes=tuple(notes))
