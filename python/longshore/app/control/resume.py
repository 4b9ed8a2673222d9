"""Takes up runs whose engine died."""

from __future__ import annotations

from dataclasses import dataclass

from longshore.app.report.status import status_run
from longshore.app.runs.open_run import OpenRun, open_run
from longshore.app.submit.hand_over import refuse_if_only_prepared
from longshore.contract.capabilities import Resumable
from longshore.engine.run.service_capabilities import require_capability
from longshore.errors import LongshoreError
from longshore.model.run.state import JobState
from longshore.world.runs.registry import entries


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """What became of a run that was to be taken up.

    Attributes
    ----------
    notes
        What the user should know.
    begun
        Whether another engine was started.
    failed
        Whether it could not be taken up.
    """

    notes: tuple[str, ...]
    begun: bool = False
    failed: bool = False


def resume(opened: OpenRun, *, take_over: bool = False, force: bool = False) -> Resumed:
    """Start another engine for a run.

    The run goes on as it was: what is recorded is a new life of the engine, in the journal, and no new submission.

    Parameters
    ----------
    opened
        The run.
    take_over
        Even from an engine that seems to live: somebody says that it, or its host, is gone for good.
    force
        Even after engine after engine has died without achieving anything.

    Raises
    ------
    SubmissionRefusedError
        Its engine is alive, or may be on another host; or no other could be started, or the last few achieved nothing.
    """
    refuse_if_only_prepared(opened.run, opened.card)
    service = require_capability(opened.service, Resumable, "resume runs")
    submission = service.resume(opened.run, take_over=take_over, force=force)
    if submission is None:
        return Resumed(notes=("nothing to resume: every job of the run is over",))
    return Resumed(notes=submission.notes, begun=True)


def resume_all() -> list[tuple[OpenRun, Resumed]]:
    """Take up every known run that has lost its engine; one that cannot be does not keep the others from it."""
    outcomes = []
    for entry in entries():
        try:
            opened = open_run(entry.path)
            if status_run(opened).state is not JobState.UNKNOWN:
                continue
        except LongshoreError:
            # Gone or unreadable: not a run that can be taken up. `report` names it.
            continue
        try:
            outcomes.append((opened, resume(opened)))
        except LongshoreError as error:
            outcomes.append((opened, Resumed(notes=(error.message,), failed=True)))
    return outcomes
