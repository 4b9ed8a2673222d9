"""The state of a run, now or once it is over, apart from its report because most runs tell it without a replay."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from longshore.contract.service import RunPaths
from longshore.errors import RunNotFoundError
from longshore.model.report import RunReport
from longshore.model.states import JobState
from longshore.reports.state import is_current, is_over, report_of_snapshot
from longshore.rundir.job_table import check_workflow
from longshore.rundir.run_directory import read_snapshot
from longshore.runstate.open_run import OpenRun, is_missing, map_read_errors


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
        from longshore.reports.report import report_run

        return report_run(opened, details=False, summary=summary)
    return report_of_snapshot(opened, snapshot, time.time())


_PAUSE_S: Final = 2.0
"""Twice the time between two snapshots while there is news."""
_REMOVAL_S: Final = 2.0
"""Longest wait for the rest of a run directory to go, once it lacks a file that every run has."""


def wait_for_end(
    opened: OpenRun, show: Callable[[RunReport], None], *, summary: bool = False, ends_at_pause: bool = False
) -> RunReport:
    """Poll a run until it is over, and return its report; `show` receives each report.

    `summary` is as for `report_run`: to make one at each poll takes longer than all else. `ends_at_pause`: a pause ends
    the wait too.

    Raises `RunNotFoundError` if the run directory is gone or cannot be read.
    """
    from longshore.reports.report import report_run
    from longshore.runstate.events import pause_after_poll

    first = time.monotonic()
    pause = PauseWatch()
    try:
        while True:
            began = time.monotonic()
            report = status_run(opened, summary=summary)
            show(report)
            if is_over(opened, report):
                if report.state is JobState.UNKNOWN:
                    # A directory that is being removed may lose its journal first.
                    pause_after_poll(time.monotonic() - began)
                if is_over(opened, report := report_run(opened, details=False)):
                    return report
            if pause.lasts(report) and ends_at_pause:
                return report_run(opened, details=False)
            now = time.monotonic()
            pause_after_poll(now - began, waited_s=now - first)
    except RunNotFoundError:
        if not _is_removed(opened.run):
            raise
        raise RunNotFoundError(
            f"'{opened.run.root}' is gone: the run directory was removed or moved while it was watched",
            hint="If it was moved, name the run by its new path.",
        ) from None


class PauseWatch:
    """Tells a pause from the last look of one that was just ended: the newest snapshot may be older than the order."""

    def __init__(self) -> None:
        self._since: float | None = None

    def lasts(self, report: RunReport) -> bool:
        """Tell whether the run is paused, and was so for longer than an old snapshot is the newest."""
        now = time.monotonic()
        self._since = (self._since or now) if report.state_word == "PAUSED" else None
        return self._since is not None and now - self._since >= _PAUSE_S


def _is_removed(run: RunPaths) -> bool:
    """Tell whether a run directory is gone; one that is being removed loses its files first."""
    from longshore.runstate.events import pause_after_poll

    until = time.monotonic() + _REMOVAL_S
    while not is_missing(run.root):
        is_whole = not is_missing(run.card) and not is_missing(run.workflow)
        if is_whole or time.monotonic() >= until:
            return False
        pause_after_poll(0.0)
    return True
