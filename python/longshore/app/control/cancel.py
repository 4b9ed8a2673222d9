"""Cancels a run or some of its jobs, here or on another host, and waits for the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec

from longshore.app.configure.service_lookup import find_service
from longshore.app.control.interruption import explain_interruption
from longshore.app.inspect.find_jobs import first_of
from longshore.app.report.brief_report import status_run
from longshore.app.report.report import report_run
from longshore.app.runs.open_run import READ_ERRORS, OpenRun, open_run
from longshore.contract.capabilities import Cancellable, Queryable
from longshore.contract.intervention import CancelOutcome, JobSelection
from longshore.contract.search import RunSearch
from longshore.engine.run.service_capabilities import require_capability
from longshore.engine.rundir.job_table import JobTable
from longshore.errors import RunNotFoundError
from longshore.model.run.report import RunReport
from longshore.model.run.states import TERMINAL_STATES, JobState
from longshore.model.suggestions import NAME_LIKENESS, did_you_mean
from longshore.model.workflow.final_label import FINAL_LABEL
from longshore.world.runs.owner import Access, may_access, require_access
from longshore.world.runs.registry import read_entries

_POLL_S = 0.1
_MAX_NAMES = 10
"""Names listed in a message."""


def cancel(
    opened: OpenRun,
    selection: JobSelection,
    *,
    wait_s: float,
    show: Callable[[RunReport], None],
    tell: Callable[[str], None],
) -> RunReport:
    """Cancel a run's jobs, and watch for up to `wait_s` seconds until they end.

    `show` receives the newest report at every poll, `tell` a note before the jobs are cancelled. The notes of the
    returned report name what is still alive. Raises `RunNotFoundError` if a selected job or label does not exist.
    """
    require_access(opened.run, Access.ORDER)
    service = require_capability(opened.service, Cancellable, "cancel runs")
    if not selection.everything:
        check_names(opened, selection)
    if note := _final_job_note(opened, selection):
        tell(note)
    with explain_interruption(opened, "the cancellation may go on"):
        outcome = service.cancel(opened.run, selection)
    deadline = time.monotonic() + wait_s
    try:
        report = status_run(opened)
        while selection.everything and _has_active_jobs(report) and time.monotonic() < deadline:
            show(report)
            time.sleep(_POLL_S)
            report = status_run(opened)
        report = report_run(opened, details=True)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"no longer watching; the cancellation goes on. To see it: longshore report {opened.reference}"
        ) from None
    return msgspec.structs.replace(report, notes=tuple(_notes(report, selection, outcome, note)))


def _final_job_note(opened: OpenRun, selection: JobSelection) -> str:
    """Return the note that the final job runs in spite of a cancellation; empty if it does not, or is over."""
    survives = opened.service.traits.final_job_survives_cancel
    if not selection.everything or selection.final_too or not survives or JobTable(opened.run).final is None:
        return ""
    report = status_run(opened)
    counts = report.labels.get(FINAL_LABEL, {})
    if report.state in TERMINAL_STATES or any(counts.get(state) for state in TERMINAL_STATES):
        return ""
    return f"the final job runs in any case; to skip it: longshore cancel {opened.reference} --no-final"


def cancel_remote(
    found: RunReport, *, pass_thru: str, runs_only: bool, wait_s: float, show: Callable[[RunReport], None]
) -> RunReport:
    """Cancel a run whose directory is on another host.

    `found` is the run as its workload manager reports it, `pass_thru` words for it. `runs_only` spares jobs that are no
    runs. `wait_s` and `show` are those of `cancel`.
    """
    service = require_capability(find_service(found.service), Queryable, "cancel runs of other hosts")
    search = RunSearch(reference=found.global_id or found.id, pass_thru=pass_thru, runs_only=runs_only, days=1.0)
    outcome = service.cancel_remote(search)
    deadline = time.monotonic() + wait_s
    report = found
    while time.monotonic() < deadline:
        # Without the constraints, which an ended run may no longer meet.
        found_now = service.query_runs(msgspec.structs.replace(search, pass_thru="")).reports
        # A run in neither queue nor history was removed.
        report = found_now[0] if found_now else msgspec.structs.replace(report, state=JobState.DELETED)
        if report.state in TERMINAL_STATES:
            return report
        show(report)
        time.sleep(_POLL_S)
    return msgspec.structs.replace(report, notes=(*report.notes, *outcome.alive))


def unfinished_runs_of(user: str) -> list[OpenRun]:
    """Return a user's unfinished runs, oldest first; runs that cannot be opened or ordered are left out."""
    found = []
    for entry in read_entries():
        try:
            opened = open_run(entry.path)
            report = status_run(opened)
        except READ_ERRORS:
            continue
        if report.user != user or report.state in TERMINAL_STATES:
            continue
        if may_access(opened.run, Access.ORDER):
            found.append(opened)
    return found


def _has_active_jobs(report: RunReport) -> bool:
    """Tell whether any job but the final one may still change."""
    return report.state is JobState.RUNNING and any(
        count and state not in TERMINAL_STATES and state is not JobState.UNREADY
        for label, counts in report.labels.items()
        if label != FINAL_LABEL
        for state, count in counts.items()
    )


def _notes(report: RunReport, selection: JobSelection, outcome: CancelOutcome, note: str) -> Iterable[str]:
    if note:
        yield note
    yield from report.notes
    yield from outcome.alive
    if not selection.everything:
        return
    alive = [job.name for job in report.jobs or () if job.state is JobState.RUNNING and job.label != FINAL_LABEL]
    if alive:
        yield f"still alive: {first_of(alive, _MAX_NAMES)}"


def check_names(opened: OpenRun, selection: JobSelection) -> RunReport:
    """Return a report with every job, after a check that all selected names exist.

    Raises `RunNotFoundError` for an unknown job or label.
    """
    report = report_run(opened, details=True)
    names = {job.name for job in report.jobs or ()}
    run = opened.card.id
    for kind, selected, known in (("job", selection.jobs, names), ("label", selection.labels, set(report.labels))):
        for name in selected:
            if name not in known:
                hint = did_you_mean(name, known, likeness=NAME_LIKENESS) or f"'longshore report {run}' shows them."
                raise RunNotFoundError(f"run '{run}' has no {kind} '{name}'", hint=hint)
    return report
