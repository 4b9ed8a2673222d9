"""Reports the state of one run: from its engine's newest snapshot, where that will do, or from its events."""

from __future__ import annotations

import time

from longshore.app.report.from_snapshot import is_current, report_from
from longshore.app.runs.open_run import OpenRun, readable
from longshore.model.run.report import RunReport
from longshore.world.runs.run_directory import read_snapshot


def status_run(opened: OpenRun) -> RunReport:
    """The state of one run, from its newest snapshot where that is as good as the whole history.

    Raises
    ------
    RunUnreadableError
        Its directory is torn, or may not be read.
    RunNotFoundError
        It went away while it was read.
    """
    with readable(opened.run):
        snapshot = read_snapshot(opened.run)
        is_enough = snapshot is not None and is_current(opened, snapshot)
    if snapshot is None or not is_enough:
        # Imported here: most commands that ask for the state of a run need not know how to replay one.
        from longshore.app.report.report import report_run

        return report_run(opened, details=False)
    return report_from(opened, snapshot, time.time())
