"""Follows a run to its end."""

from __future__ import annotations

import time
from collections.abc import Callable

from longshore.app.report.report import report_run
from longshore.app.report.status import status_run
from longshore.app.runs.open_run import OpenRun, is_gone
from longshore.contract.capabilities import HoldRules
from longshore.contract.context import Unreachable
from longshore.errors import RunNotFoundError
from longshore.model.run.report import RunReport
from longshore.model.run.state import JobState

_LOOK_S = 0.2


def wait_for(opened: OpenRun, show: Callable[[RunReport], None]) -> RunReport:
    """Look at a run until it moves no more, and return its report.

    Parameters
    ----------
    opened
        The run.
    show
        Called with the newest report at every look.

    Raises
    ------
    RunNotFoundError
        Its directory is gone, or cannot be read.
    """
    try:
        while True:
            began = time.monotonic()
            report = status_run(opened)
            show(report)
            if is_over(opened, report) and is_over(opened, report := report_run(opened, details=False)):
                return report
            # Where a look takes long, as one at a large run without an engine does, most of the time goes to others.
            time.sleep(max(_LOOK_S, 4.0 * (time.monotonic() - began)))
    except RunNotFoundError:
        if not is_gone(opened.run.root):
            raise
        raise RunNotFoundError(
            f"'{opened.run.root}' is gone: the run directory was removed or moved while it was watched",
            hint="If it was moved, name the run by its new path.",
        ) from None


def is_over(opened: OpenRun, report: RunReport) -> bool:
    """Whether nothing moves any more, as far as one look can tell; whoever wants to be sure looks twice.

    What is held for want of memory, say, goes on with more of it by itself. And nothing follows from the silence of a
    workload manager: the run may go on, and once it answers again, that is known.

    Parameters
    ----------
    opened
        The run.
    report
        What was seen of it.
    """
    if report.state is JobState.HELD:
        return not (isinstance(opened.service, HoldRules) and opened.service.releases_holds(opened.run))
    if report.state is JobState.UNKNOWN:
        return not isinstance(opened.is_alive(), Unreachable)
    return report.state is not JobState.RUNNING
