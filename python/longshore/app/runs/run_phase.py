"""Tells whether anything drives a run, and whether it is over."""

from __future__ import annotations

from longshore.app.runs.open_run import OpenRun
from longshore.contract.capabilities import HoldRules
from longshore.contract.context import Unreachable
from longshore.engine.journal.chain import lives
from longshore.engine.policy.due_notices import RunPhase
from longshore.model.run.report import RunReport
from longshore.model.run.states import JobState
from longshore.world.runs.run_directory import read_card


def is_over(opened: OpenRun, report: RunReport) -> bool:
    """Tell whether the report looks final; confirm with a second look.

    Some holds end by themselves, such as one for lack of memory after which the job gets more. A workload manager
    that does not answer proves nothing: the run may go on, and its answer will tell.
    """
    if report.state is JobState.HELD:
        return not (isinstance(opened.service, HoldRules) and opened.service.releases_holds(opened.run))
    if report.state is JobState.UNKNOWN:
        return not isinstance(opened.is_alive(), Unreachable)
    return report.state is not JobState.RUNNING


def find_phase(opened: OpenRun, report: RunReport, *, alive: bool | Unreachable) -> RunPhase:
    """Return the phase of a run that is alive or not, by a report that was made later."""
    if alive is not False:
        return RunPhase.LIVE
    if report.state is JobState.UNKNOWN or not is_over(opened, report):
        return RunPhase.STOPPED
    return RunPhase.OVER


def find_life(opened: OpenRun) -> int:
    """Return the number of what drives a run: of its engine, or of its submission where it has none."""
    known = lives(opened.run.journal)
    return known[-1][0] if known else len(read_card(opened.run).submissions)
