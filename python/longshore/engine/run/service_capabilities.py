"""Events and liveness of a run, by what its service can do; apart because the adapter for reports is rarely loaded."""

from __future__ import annotations

from longshore.contract.capabilities import LivenessProbe
from longshore.contract.service import EventSource, ReportSource, RunPaths, Unreachable, WmsService
from longshore.model.event import Finished, Life
from longshore.rundir.run_directory import read_card


def event_source(service: WmsService) -> EventSource:
    """Return the event source of a service's runs: the service, or one that derives events from its reports."""
    if isinstance(service, EventSource):
        return service
    # Imported here: few services need it.
    from longshore.runs.report_events import ReportedEvents

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
