"""Longshore as a workload manager of BPS: the class that ``wmsServiceClass`` names."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from lsst.ctrl.bps import (
    BaseWmsService,
    BaseWmsWorkflow,
    BpsConfig,
    GenericWorkflow,
    WmsJobReport,
    WmsRunReport,
    WmsSpecificInfo,
    WmsStates,
)

from longshore.bps.prepare_run import BpsLogProgress, prepare_run, refuse_unusable
from longshore.contract.service import JobSelection, RestartChanges
from longshore.control.interventions import cancel, live_runs_of
from longshore.control.restart import plan_restart, restart
from longshore.errors import LongshoreError, RunNotFoundError
from longshore.model.report import JobReport, RunReport
from longshore.model.states import TERMINAL_STATES, JobState
from longshore.plan.ping import ping
from longshore.plan.stages import advance_run
from longshore.plan.submit_once import PreparedRun, SubmittedRun
from longshore.progress import RecordingProgress
from longshore.reports.remote_runs import open_or_query
from longshore.reports.report import report_run
from longshore.reports.run_list import RunQuery, list_runs
from longshore.reports.status import status_run
from longshore.rundir.find_run import run_reference
from longshore.runstate.open_run import OpenRun, open_run

# Reports of Longshore, as those of BPS.


_SIGNAL_BASE: Final = 128


def to_state(state: JobState) -> WmsStates:
    """Return BPS's state of the same name."""
    return WmsStates[state.value]


def to_run_report(report: RunReport) -> WmsRunReport:
    """Return the report of a run with its jobs, as far as they are in it, and its counts."""
    labels = report.expected_labels or {label: sum(counts.values()) for label, counts in report.labels.items()}
    return WmsRunReport(
        wms_id=report.id,
        global_wms_id=report.global_id or report.id,
        path=report.path,
        label=report.name,
        run=report.name,
        project=report.project,
        campaign=report.campaign,
        payload=report.payload,
        operator=report.operator,
        run_summary=";".join(f"{label}:{count}" for label, count in labels.items()),
        state=to_state(report.state),
        jobs=[_to_job_report(report, job) for job in report.jobs] if report.jobs is not None else None,
        total_number_jobs=report.expected,
        job_state_counts=_all_states(report.counts),
        job_summary={label: _all_states(counts) for label, counts in report.labels.items()},
        exit_code_summary=exit_codes(report),
        specific_info=_specific_info(report),
    )


def exit_codes(report: RunReport) -> dict[str, list[int]]:
    """Return the exit codes of failed jobs, per label; a signal counts as 128 and its number, as in a shell."""
    codes: dict[str, list[int]] = {label: [] for label in report.labels}
    for job in report.jobs or ():
        if job.state in (JobState.FAILED, JobState.HELD):
            code = job.exit_code if job.signal is None else _SIGNAL_BASE + job.signal
            if code:
                codes.setdefault(job.label, []).append(code)
    return codes


def _to_job_report(report: RunReport, job: JobReport) -> WmsJobReport:
    return WmsJobReport(wms_id=f"{report.id}/{job.name}", name=job.name, label=job.label, state=to_state(job.state))


def _all_states(counts: Mapping[JobState, int]) -> dict[WmsStates, int]:
    """Return a count for each state of BPS, as its tables want them."""
    found = Counter({to_state(state): count for state, count in counts.items()})
    return {state: found[state] for state in WmsStates}


def _specific_info(report: RunReport) -> WmsSpecificInfo | None:
    """Return what BPS has no field for: lines of the service, notes, and the largest failures."""
    lines = [*report.specifics, *report.notes]
    for failure in report.summary.failures if report.summary else ():
        what = failure.message or failure.reason or (failure.cause.value if failure.cause else "unknown cause")
        lines.append(f"{failure.count} failed of {failure.label}: {what}")
    if not lines:
        return None
    info = WmsSpecificInfo()
    for number, line in enumerate(lines):
        info.add_message(f"{{line{number}}}", {f"line{number}": line})
    return info


_LOG: Final = logging.getLogger(__name__)
_UNREACHED: Final = 1
_Result = TypeVar("_Result")


class LongshoreWorkflow(BaseWmsWorkflow):  # type: ignore[misc]
    """A prepared run in the submit directory of BPS.

    Parameters
    ----------
    name
        Name of the run.
    config
        Configuration of BPS.
    """

    def __init__(self, name: str, config: BpsConfig | None = None) -> None:
        super().__init__(name, config)
        self.prepared: PreparedRun | None = None

    @classmethod
    def from_generic_workflow(
        cls, config: BpsConfig, generic_workflow: GenericWorkflow, out_prefix: str, service_class: str
    ) -> Self:
        """Write the run directory around what BPS wrote to its submit directory."""
        workflow = cls(generic_workflow.name, config)
        folder = Path(out_prefix or config["submitPath"]).absolute()
        workflow.prepared = prepare_run(config, generic_workflow, folder)
        workflow.service_class = service_class
        workflow.submit_path = str(folder)
        return workflow

    def write(self, out_prefix: str) -> None:
        """Do nothing: the run directory is written as a whole, or not at all."""


class LongshoreService(BaseWmsService):  # type: ignore[misc]
    """Runs workflows of BPS on the service of their site, which is that of this machine by default."""

    def prepare(
        self, config: BpsConfig, generic_workflow: GenericWorkflow, out_prefix: str | None = None
    ) -> LongshoreWorkflow:
        """Write the run directory.

        Raises
        ------
        LongshoreError
            The run cannot be prepared.
        """
        name = f"{type(self).__module__}.{type(self).__name__}"
        return LongshoreWorkflow.from_generic_workflow(config, generic_workflow, out_prefix or "", name)

    def submit(self, workflow: LongshoreWorkflow, **kwargs: Any) -> LongshoreWorkflow:
        """Submit a prepared run, and set its id.

        Raises
        ------
        LongshoreError
            It is not taken; it stays prepared.
        """
        if workflow.prepared is None:
            raise RunNotFoundError("the workflow was not prepared by Longshore")
        submitted = advance_run(workflow.prepared, SubmittedRun, RecordingProgress(BpsLogProgress()))
        workflow.run_id = submitted.card.shown_id
        return workflow

    def restart(self, wms_workflow_id: str) -> tuple[str | None, str | None, str]:
        """Run the jobs of a run that did not succeed, as they were."""

        def act() -> tuple[str | None, str | None, str]:
            opened = open_run(str(wms_workflow_id), acts=True)
            card, notes = restart(opened, plan_restart(opened, RestartChanges()).changes)
            for note in notes:
                _LOG.info("%s", note)
            return card.shown_id, card.name, ""

        return _told(act, lambda message: (None, None, message))

    def list_submitted_jobs(
        self,
        wms_id: str | None = None,
        user: str | None = None,
        require_bps: bool = True,  # noqa: FBT001, FBT002
        pass_thru: str | None = None,
        is_global: bool = False,  # noqa: FBT001, FBT002
    ) -> list[str]:
        """List the ids of runs that are not over: one run, or those of a user."""
        runs: list[OpenRun | RunReport]
        if wms_id is not None:
            try:
                runs = [open_or_query(str(wms_id), everywhere=is_global, runs_only=require_bps, acts=True)]
            except LongshoreError as error:
                _LOG.warning("%s", _sentence(error))
                return []
        elif user is not None:
            runs, notes = live_runs_of(user, everywhere=is_global)
            for note in notes:
                _LOG.warning("%s", note)
        else:
            return [report.id for report in self._list_runs(user, 0.0, pass_thru, is_global=is_global)[0]]
        reports = ((run, run if isinstance(run, RunReport) else status_run(run, check=True)) for run in runs)
        return [
            report.id if isinstance(run, RunReport) else run_reference(run.run, run.card)
            for run, report in reports
            if report.state not in TERMINAL_STATES
        ]

    def report(  # noqa: PLR0917
        self,
        wms_workflow_id: str | None = None,
        user: str | None = None,
        hist: float = 0,
        pass_thru: str | None = None,
        is_global: bool = False,  # noqa: FBT001, FBT002
        return_exit_codes: bool = False,  # noqa: FBT001, FBT002
    ) -> tuple[list[WmsRunReport], str]:
        """Report one run with its jobs, or the runs of a user."""
        if wms_workflow_id is None:
            reports, message = self._list_runs(user, hist, pass_thru, is_global=is_global)
            return [to_run_report(report) for report in reports], message

        def act() -> tuple[list[WmsRunReport], str]:
            found = open_or_query(str(wms_workflow_id), everywhere=is_global, days=hist)
            report = found if isinstance(found, RunReport) else report_run(found, details=True)
            return [to_run_report(report)], ""

        return _told(act, lambda message: ([], message))

    def get_status(
        self,
        wms_workflow_id: str | None = None,
        hist: float = 1,
        is_global: bool = False,  # noqa: FBT001, FBT002
    ) -> tuple[WmsStates, str]:
        """Return the state of a run, and why it is UNKNOWN."""

        def act() -> tuple[WmsStates, str]:
            found = open_or_query(str(wms_workflow_id), everywhere=is_global, days=hist)
            report = found if isinstance(found, RunReport) else status_run(found, check=True)
            return to_state(report.state), "; ".join(report.notes)

        return _told(act, lambda message: (WmsStates.UNKNOWN, message))

    def cancel(self, wms_id: str, pass_thru: str | None = None) -> tuple[bool, str]:
        """Cancel a run, and wait a minute for its end."""

        def act() -> tuple[bool, str]:
            run = open_or_query(str(wms_id), acts=True)
            selection = JobSelection(pass_thru=pass_thru or "")
            report = cancel(run, selection, tell=lambda note: _LOG.info("%s", note))
            return True, "; ".join(report.notes)

        return _told(act, lambda message: (False, message))

    def run_submission_checks(self) -> None:
        """Check the configuration, and ask the workload manager of its site, before the quantum graph is made.

        Raises
        ------
        LongshoreError
            The configuration is wrong, or the workload manager does not take runs.
        """
        refuse_unusable(self.config)

    def ping(self, pass_thru: str | None = None) -> tuple[int, str]:
        """Ask the default workload manager, or the one that `pass_thru` names; 0 if it can be used."""

        def act() -> tuple[int, str]:
            report = ping(pass_thru or None)
            return 0 if report.ok else _UNREACHED, report.message

        return _told(act, lambda message: (_UNREACHED, message))

    def _list_runs(
        self, user: str | None, hist: float, pass_thru: str | None, *, is_global: bool
    ) -> tuple[list[RunReport], str]:
        query = RunQuery(user=user, days=float(hist or 0), everywhere=is_global, pass_thru=pass_thru or "")
        try:
            found = list_runs(query, now=time.time())
        except LongshoreError as error:
            return [], _sentence(error)
        return list(found.reports), "\n".join(found.notes)


def _told(act: Callable[[], _Result], on_error: Callable[[str], _Result]) -> _Result:
    """Return the result of a call, or what stands for it with the message of its error: BPS prints that."""
    try:
        return act()
    except LongshoreError as error:
        return on_error(_sentence(error))


def _sentence(error: LongshoreError) -> str:
    place = f"{error.origin}: " if error.origin else ""
    return f"{place}{error.message}" + (f". {error.hint}" if error.hint else "")
