"""Report without job details: from the newest snapshot if complete, else from events."""

from __future__ import annotations

import time

from longshore.app.report.from_snapshot import is_current, report_of_snapshot
from longshore.app.runs.open_run import OpenRun, map_read_errors
from longshore.engine.rundir.job_table import check_workflow
from longshore.model.run.report import RunReport
from longshore.world.runs.run_directory import read_snapshot


def status_run(opened: OpenRun, *, check: bool = False, summary: bool = True) -> RunReport:
    """Return the state of a run, from its newest snapshot if that is as good as the events.

    The lengths of the journal's files are always compared; `check` also checks every line of a run that is over, and
    its workflow.
    `summary` is as for `report_run`.
    Raises `RunUnreadableError` if the directory is damaged or not readable, `RunNotFoundError` if it disappeared
    meanwhile.
    """
    with map_read_errors(opened.run):
        snapshot = read_snapshot(opened.run)
        is_enough = snapshot is not None and is_current(opened, snapshot)
        if is_enough and check and snapshot is not None and snapshot.finished:
            check_workflow(opened.run)
            is_enough = not opened.survey.damages
    if snapshot is None or not is_enough:
        # Imported late: most status commands need no replay.
        from longshore.app.report.report import report_run

        return report_run(opened, details=False, summary=summary)
    return report_of_snapshot(opened, snapshot, time.time())
