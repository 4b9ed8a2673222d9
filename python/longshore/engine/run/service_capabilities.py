"""Calls optional capabilities of a service, with a default for each, and names the one that a command lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from longshore.contract.capabilities import (
    BackendOptions,
    LauncherLine,
    LivenessProbe,
    LogDirectories,
    LogLocating,
    LogLocator,
    PartialJournal,
    Recoverable,
    StatusLines,
)
from longshore.contract.service import EventSource, ReportSource, RunPaths, Unreachable, WmsService
from longshore.errors import SubmissionRefusedError
from longshore.model.event import Finished, Life
from longshore.model.submission import Submission
from longshore.rundir.run_directory import read_card

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

Capability = TypeVar("Capability")


def require_capability(service: WmsService, capability: type[Capability], what: str) -> Capability:
    """Return the service as a capability; `what` is its use for the error message, such as ``restart runs``.

    Raises
    ------
    SubmissionRefusedError
        The service lacks the capability.
    """
    if isinstance(service, capability):
        return service
    raise SubmissionRefusedError(f"the service '{service.name}' cannot {what}")


def event_source(service: WmsService) -> EventSource:
    """Return the event source of a service's runs: the service, or one that derives events from its reports."""
    if isinstance(service, EventSource):
        return service
    # Imported here: few services need it.
    from longshore.engine.run.report_events import ReportedEvents

    assert isinstance(service, ReportSource)  # held by `find_service`
    return ReportedEvents(service, service.name)


def is_alive(service: WmsService, run: RunPaths) -> bool | Unreachable:
    """Return whether a run is live: by the service's probe, else by its report or its events."""
    if isinstance(service, LivenessProbe):
        return service.is_alive(run)
    if not read_card(run).submissions:
        if run.submitting.exists():
            return Unreachable(why=f"the service '{service.name}' cannot tell whether it arrived")
        return False
    if isinstance(service, ReportSource):
        report = service.report(run)
        return report if isinstance(report, Unreachable) else not report.is_over
    answer = event_source(service).events(run)
    if isinstance(answer, Unreachable):
        return answer
    over = False
    for event in answer[0]:
        if isinstance(event, Finished | Life):
            over = isinstance(event, Finished)
    return not over


def recovered_submission(service: WmsService, run: RunPaths) -> Submission | None:
    """Return a submission that arrived and was not recorded; see `Recoverable.recover`."""
    return service.recover(run) if isinstance(service, Recoverable) else None


def journal_is_complete(service: WmsService, run: RunPaths) -> bool:
    """Return whether readers may read the journal instead of asking the service for events."""
    return service.journal_is_complete(run) if isinstance(service, PartialJournal) else True


def log_locator(service: WmsService, run: RunPaths) -> LogLocator | None:
    """Return the locator of a run's logs; ``None`` if they are at `RunPaths.log_of`."""
    return service.log_locator(run) if isinstance(service, LogLocating) else None


def log_directories(service: WmsService, workflow: Workflow) -> Iterable[str]:
    """Return directories that must exist before jobs write to them."""
    return service.log_directories(workflow) if isinstance(service, LogDirectories) else ()


def status_lines(service: WmsService, run: RunPaths) -> tuple[str, ...]:
    """Return facts on the controller of a run, a line each."""
    return service.status_lines(run) if isinstance(service, StatusLines) else ()


def launcher_line(service: WmsService, settings: Mapping[str, Any]) -> str:
    """Return the launcher that the service puts before the command of a job; empty for none."""
    return service.launcher_line(settings) if isinstance(service, LauncherLine) else ""


def backend_options(service: WmsService, text: str) -> Mapping[str, Any]:
    """Return keys and values that options of the workload manager stand for; empty where the service takes none."""
    return service.backend_options(text) if isinstance(service, BackendOptions) else {}
