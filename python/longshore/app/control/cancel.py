"""Ends a run, or some of its jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec

from longshore.app.configure.service_lookup import find_service
from longshore.app.report.report import report_run
from longshore.app.report.status import status_run
from longshore.app.runs.open_run import OpenRun, open_run
from longshore.contract.capabilities import Cancellable, Queryable
from longshore.contract.intervention import CancelOutcome, JobSelection
from longshore.contract.search import RunSearch
from longshore.engine.run.service_capabilities import require_capability
from longshore.errors import LongshoreError, RunNotFoundError
from longshore.model.run.report import RunReport
from longshore.model.run.state import TERMINAL, JobState
from longshore.model.suggestions import NAME_LIKENESS, did_you_mean
from longshore.plan.special_jobs import FINAL_LABEL
from longshore.world.runs.registry import entries

FORCE = "-forcex"
"""Has a workload manager forget jobs that it cannot reach."""
_LOOK_S = 0.1
_SHOWN = 10
"""Names spelled out in a message."""


def cancel(opened: OpenRun, selection: JobSelection, *, wait_s: float, show: Callable[[RunReport], None]) -> RunReport:
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

    Raises
    ------
    RunNotFoundError
        The run has no job or label of a name that is selected.
    """
    service = require_capability(opened.service, Cancellable, "cancel runs")
    if not selection.everything:
        check_names(opened, selection)
    outcome = service.cancel(opened.run, selection)
    deadline = time.monotonic() + wait_s
    report = status_run(opened)
    while selection.everything and _goes_on(report) and time.monotonic() < deadline:
        show(report)
        time.sleep(_LOOK_S)
        report = status_run(opened)
    report = report_run(opened, details=True)
    return msgspec.structs.replace(report, notes=tuple(_notes(report, selection, outcome)))


def cancel_remote(
    found: RunReport, *, pass_thru: str, runs_only: bool, wait_s: float, show: Callable[[RunReport], None]
) -> RunReport:
    """End a run whose directory is on another host.

    Parameters
    ----------
    found
        What is told of it.
    pass_thru
        Words for the manager: ``-forcex``, and what else the run has to meet.
    runs_only
        Whether a job that is no run is left alone.
    wait_s, show
        As for `cancel`.
    """
    service = require_capability(find_service(found.service), Queryable, "cancel runs of other hosts")
    words = pass_thru.split()
    rest = " ".join(word for word in words if word != FORCE)
    search = RunSearch(reference=found.global_id or found.id, pass_thru=rest, runs_only=runs_only, days=1.0)
    outcome = service.cancel_remote(search, forced=FORCE in words)
    deadline = time.monotonic() + wait_s
    report = found
    while time.monotonic() < deadline:
        now = service.query_runs(search_of(search)).reports
        # What has left the queue, and is not to be found in any history either, is gone.
        report = now[0] if now else msgspec.structs.replace(report, state=JobState.DELETED)
        if report.state in TERMINAL:
            return report
        show(report)
        time.sleep(_LOOK_S)
    return msgspec.structs.replace(report, notes=(*report.notes, *outcome.alive))


def search_of(search: RunSearch) -> RunSearch:
    """The same run, whatever else it has to meet: what was ended may not any more."""
    return msgspec.structs.replace(search, pass_thru="")


def runs_of(user: str) -> list[OpenRun]:
    """The runs of a user that are not over, oldest first; what cannot be opened is left out."""
    found = []
    for entry in entries():
        try:
            opened = open_run(entry.path)
            report = status_run(opened)
        except LongshoreError:
            continue
        if report.user == user and report.state not in TERMINAL:
            found.append(opened)
    return found


def _goes_on(report: RunReport) -> bool:
    """Whether anything but the final job still moves."""
    if report.state is not JobState.RUNNING:
        return False
    return any(_moving(counts) for label, counts in report.labels.items() if label != FINAL_LABEL)


def _moving(counts: object) -> bool:
    return isinstance(counts, dict) and any(
        count for state, count in counts.items() if state not in TERMINAL and state is not JobState.UNREADY
    )


def _notes(report: RunReport, selection: JobSelection, outcome: CancelOutcome) -> Iterable[str]:
    yield from report.notes
    yield from outcome.alive
    if not selection.everything:
        return
    alive = [job.name for job in report.jobs or () if job.state is JobState.RUNNING and job.label != FINAL_LABEL]
    if alive:
        more = f" and {len(alive) - _SHOWN} more" if alive[_SHOWN:] else ""
        yield f"still alive: {', '.join(alive[:_SHOWN])}{more}"
    final = next((job for job in report.jobs or () if job.label == FINAL_LABEL), None)
    if final and final.state not in TERMINAL:
        yield f"the final job runs in any case; to skip it: longshore cancel {report.id} --no-final"


def check_names(opened: OpenRun, selection: JobSelection) -> RunReport:
    """Return the report of every job, once each name of a selection is found to be one.

    Raises
    ------
    RunNotFoundError
        The run has no job or label of that name.
    """
    report = report_run(opened, details=True)
    names = {job.name for job in report.jobs or ()}
    for kind, wanted, there in (("job", selection.jobs, names), ("label", selection.labels, set(report.labels))):
        for name in wanted:
            if name not in there:
                hint = (
                    did_you_mean(name, there, likeness=NAME_LIKENESS)
                    or f"'longshore report {opened.card.id}' shows them."
                )
                raise RunNotFoundError(f"run '{opened.card.id}' has no {kind} '{name}'", hint=hint)
    return report
