"""Sends an intervention to a live run: pause, throttle, hold, release or set."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from longshore.app.control.cancel import check_names
from longshore.app.control.interruption import explain_interruption
from longshore.app.inspect.find_jobs import first_of
from longshore.app.report.brief_report import status_run
from longshore.app.runs.open_run import OpenRun
from longshore.contract.capabilities import Steerable
from longshore.contract.intervention import Intervention
from longshore.engine.run.service_capabilities import require_capability
from longshore.errors import SubmissionRefusedError, UsageError
from longshore.model.run.report import RunReport
from longshore.model.run.states import TERMINAL_STATES, JobState
from longshore.model.workflow.request import Request
from longshore.world.runs.owner import Access, require_access

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
    from longshore.engine.policy.change_request import change_request

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
    from longshore.app.configure.layers import root_keys
    from longshore.engine.policy.change_request import is_settable

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
