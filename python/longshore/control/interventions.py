"""Interventions in a run: cancels it or some of its jobs, pauses, throttles, holds, releases, or sets requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

import msgspec

from longshore.config.service_lookup import find_service
from longshore.contract.capabilities import Cancellable, Queryable, Steerable, require_capability
from longshore.contract.service import CancelOutcome, Intervention, JobSelection, RunSearch
from longshore.errors import RunNotFoundError, SubmissionRefusedError, UsageError
from longshore.model.report import FINAL_LABEL, RunReport
from longshore.model.states import TERMINAL_STATES, JobState
from longshore.model.wording import NAME_LIKENESS, did_you_mean, first_of
from longshore.model.workflow import Request
from longshore.reports.remote_runs import query_runs
from longshore.reports.report import report_run
from longshore.reports.status import status_run
from longshore.rundir.job_table import JobTable
from longshore.rundir.registry import read_entries
from longshore.rundir.run_directory import Access, may_access, require_access
from longshore.runstate.open_run import READ_ERRORS, OpenRun, open_run

_WAIT_S = 60.0
"""Seconds for which a cancelled run is watched by default."""


# Interruptions of commands that change a run: what was begun may go on, and the user learns how to see it.


@contextmanager
def explain_interruption(opened: OpenRun, left: str) -> Iterator[None]:
    """Let an interruption of the body say what it left, unless it says more by itself."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        text = str(interrupt) or f"{left}. To see it: longshore report {opened.reference}"
        raise KeyboardInterrupt(text) from None


# Cancels a run or some of its jobs, here or on another host, and waits for the end.


_POLL_S = 0.1
_MOST_SHOWN = 10
"""Names listed in a message."""


def cancel(
    run: OpenRun | RunReport,
    selection: JobSelection,
    *,
    runs_only: bool = True,
    wait_s: float = _WAIT_S,
    show: Callable[[RunReport], None] = lambda _report: None,
    tell: Callable[[str], None] = lambda _note: None,
) -> RunReport:
    """Cancel a run or some of its jobs, and watch for up to `wait_s` seconds until they end.

    `show` receives the newest report at every poll, `tell` a note before the jobs are cancelled. The notes of the
    returned report name what is still alive. `runs_only` spares a job that is no run, if its directory is on another
    host. Raises `RunNotFoundError` if a selected job or label does not exist, `UsageError` if single jobs are selected
    in a run whose directory is on another host.
    """
    if not isinstance(run, RunReport):
        return _cancel_here(run, selection, wait_s=wait_s, show=show, tell=tell)
    if not selection.everything or selection.final_too:
        raise UsageError(f"only the whole of '{run.id}' can be cancelled: its directory is not here")
    if run.state in TERMINAL_STATES:
        return run
    return _cancel_remote(run, pass_thru=selection.pass_thru, runs_only=runs_only, wait_s=wait_s, show=show)


def _cancel_here(
    opened: OpenRun,
    selection: JobSelection,
    *,
    wait_s: float,
    show: Callable[[RunReport], None],
    tell: Callable[[str], None],
) -> RunReport:
    require_access(opened.run, Access.ORDER)
    service = require_capability(opened.service, Cancellable, "cancel runs")
    if not selection.everything:
        check_names(opened, selection)
    if note := _final_job_note(opened, selection):
        tell(note)
    if selection.pass_thru and not service.takes_pass_thru:
        tell(f"'--pass-thru' has no effect: the service '{opened.service.name}' takes no options for a cancellation")
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


def _cancel_remote(
    found: RunReport, *, pass_thru: str, runs_only: bool, wait_s: float, show: Callable[[RunReport], None]
) -> RunReport:
    """Cancel a run whose directory is on another host; `found` is the run as its workload manager reports it."""
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


def live_runs_of(
    user: str, *, service: str | None = None, everywhere: bool = False
) -> tuple[list[OpenRun | RunReport], tuple[str, ...]]:
    """Find the live runs of a user, with notes on workload managers that did not answer.

    `service` is queried for runs of other hosts; by default only registered runs are found. `everywhere` searches all
    queues of the workload manager.
    """
    known = _unfinished_runs_of(user)
    found = query_runs(service, RunSearch(user=user, everywhere=everywhere), required=everywhere)
    if found is None:
        return [*known], ()
    there = {str(opened.run.root) for opened in known}
    return [*known, *(report for report in found.reports if report.path not in there)], found.notes


def _unfinished_runs_of(user: str) -> list[OpenRun]:
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
        yield f"still alive: {first_of(alive, _MOST_SHOWN)}"


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


# Sends an intervention to a live run: pause, throttle, hold, release or set.


_MAX_NAMES = 3
_PAUSES = ("pause", "unpause")


def steer(opened: OpenRun, intervention: Intervention) -> RunReport:
    """Send an intervention to a run and wait until the engine applies it.

    The notes of the returned report are for the user. Raises `RunNotFoundError` if a selected job or label does not
    exist, `SubmissionRefusedError` if the selected jobs or the run are over.
    """
    require_access(opened.run, Access.ORDER)
    if not intervention.selection.everything:
        _refuse_if_over(opened, intervention)
    service = require_capability(opened.service, Steerable, f"{intervention.act} runs")
    with explain_interruption(opened, f"the run may still take the order '{intervention.act}'"):
        taken = service.steer(opened.run, intervention)
    report = status_run(opened)
    if taken and intervention.act in _PAUSES:
        report = _with_pause(report, intervention)
    if taken and intervention.act == "throttle":
        # Those of the newest snapshot may be older than this order.
        notes = tuple(note for note in report.notes if not note.startswith("throttled: "))
        report = msgspec.structs.replace(report, notes=notes)
    if taken:
        return msgspec.structs.replace(
            report, notes=(*report.notes, *service.unreached_notes(opened.run, intervention))
        )
    later = "the order is taken when the run's engine looks again"
    if opened.is_alive() is not True:
        later = f"no engine runs: the next one takes the order, as in 'longshore resume {opened.reference}'"
    return msgspec.structs.replace(report, notes=(*report.notes, later))


def _with_pause(report: RunReport, intervention: Intervention) -> RunReport:
    """Return the report after a pause or its end, which the newest snapshot may not have yet."""
    paused = intervention.act == "pause" and report.state is JobState.RUNNING
    if paused == report.paused:
        return report
    notes = tuple(note for note in report.notes if paused or not note.startswith("PAUSED: "))
    return msgspec.structs.replace(report, paused=paused, notes=notes)


def parse_changes(pairs: tuple[str, ...]) -> Mapping[str, str]:
    """Parse ``KEY=VALUE`` pairs of ``set``.

    Raises `UsageError` if a pair is malformed or its key cannot be set, `ConfigError` if the value does not fit the
    key.
    """
    from longshore.runstate.change_request import change_request

    values: dict[str, str] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"'{pair}' is no KEY=VALUE", hint="As in: longshore set @last requestMemory=8G")
        values[key.strip()] = text.strip()
    change_request(Request(), values)
    return values


def split_sets(pairs: tuple[str, ...], own_keys: Collection[str] = ()) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split ``KEY=VALUE`` pairs into those of requests, and those of other keys of the configuration.

    `own_keys` are those that the user added to it. A key of neither is among the first, so that `parse_changes`
    refuses it.
    """
    from longshore.config.layers import root_keys
    from longshore.runstate.change_request import is_settable

    known = {*root_keys(), *own_keys}

    def is_configuration(pair: str) -> bool:
        key = pair.partition("=")[0].strip()
        return not is_settable(key) and key.partition(".")[0] in known

    return tuple(each for each in pairs if not is_configuration(each)), tuple(filter(is_configuration, pairs))


def _refuse_if_over(opened: OpenRun, intervention: Intervention) -> None:
    report = check_names(opened, intervention.selection)
    if intervention.act == "throttle":
        return
    jobs, labels = intervention.selection.jobs, intervention.selection.labels
    selected = [job for job in report.jobs or () if job.name in jobs or job.label in labels]
    if selected and all(job.state in TERMINAL_STATES for job in selected):
        named = first_of([f"'{job.name}' is {job.state}" for job in selected], _MAX_NAMES)
        raise SubmissionRefusedError(
            f"nothing to {intervention.act}: {named}", hint="Only 'longshore restart' runs finished jobs again."
        )
