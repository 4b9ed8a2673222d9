"""Service around a plug-in of BPS: any subclass of ``BaseWmsService`` that ``wmsServiceClass`` names."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import PurePosixPath
from typing import Any, Final

from lsst.ctrl.bps import BaseWmsService, WmsStates

from longshore.config.templates import ATTEMPT_NAME
from longshore.contract.capabilities import Cancellable, LivenessProbe, Recoverable, Restartable, StatusLines
from longshore.contract.service import (
    CancelOutcome,
    Context,
    JobSelection,
    JobStatus,
    PingReport,
    Problem,
    RenderedFile,
    ReportSource,
    RestartChanges,
    RunPaths,
    ServiceTraits,
    StatusReport,
    Unreachable,
    WmsService,
)
from longshore.errors import SubmissionRefusedError, SubmissionUncertainError
from longshore.jobs.commands import full_command, names_attempt
from longshore.keeper.protocol import RUN_VARIABLE, run_token
from longshore.model.states import TERMINAL_STATES, JobState
from longshore.model.submission import Submission
from longshore.model.workflow import Job, Workflow
from longshore.rundir.run_directory import read_card
from longshore.services.bps.process import reports_nothing
from longshore.services.bps.records import (
    LOG,
    RECORD_SCRIPT,
    Phase,
    PluginState,
    end_plugin,
    is_process_alive,
    read_state,
    recorded_jobs,
)
from longshore.services.bps.workflow import FILE, RECORDER, store_workflow
from longshore.system.detached import start_detached
from longshore.system.host import host_name, user_name

_START_S: Final = 600.0
"""Seconds for a plug-in to prepare and submit a run."""
_POLL_S: Final = 0.1
_HISTORY_DAYS: Final = 7.0
"""Days for which a plug-in looks back for a run."""
_PARSL: Final = "lsst.ctrl.bps.parsl."


def adapt_class(plugin: type[Any], name: str) -> WmsService | None:
    """Return the service around a plug-in of BPS; ``None`` for another class."""
    return PluginService(plugin, name) if issubclass(plugin, BaseWmsService) else None


class PluginService(WmsService, ReportSource, Cancellable, Restartable, LivenessProbe, Recoverable, StatusLines):
    """Runs workflows by a plug-in of BPS.

    Parameters
    ----------
    plugin
        The class.
    name
        Its dotted name.
    """

    def __init__(self, plugin: type[Any], name: str) -> None:
        self.name = name  # type: ignore[misc]
        self._plugin = plugin
        self._records = reports_nothing(plugin)
        # A plug-in without reports has no queue: its process is ended.
        self.takes_pass_thru = not self._records
        # What runs the final job is ended.
        self.traits = ServiceTraits(  # type: ignore[misc]
            final_job_survives_cancel=not self._records,
            key_user="bps",
            unused_keys={"subDirTemplate": "the plug-in names logs itself"},
        )

    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        """Name what Parsl's plug-in refuses or ignores; of other plug-ins nothing is known."""
        problems = []
        if not self._records and any(map(_uses_attempt, workflow)):
            message = (
                f"'{self.name}' does not tell a job which of its attempts it is: '{{{ATTEMPT_NAME}}}' has no value"
            )
            problems.append(Problem(message=message, key="runQuantumCommand", hint="Leave it out of commands."))
        if not self.name.startswith(_PARSL):
            return problems
        if workflow.orderings:
            message = f"'{self.name}' cannot run groups of jobs one after another"
            problems.append(Problem(message=message, key="ordering", hint="Leave 'ordering' out."))
        if any(job.settings.environment or job.environment for job in workflow):
            message = f"'{self.name}' gives jobs no variables: 'environment' has no effect"
            problems.append(Problem(message=message, key="environment", fatal=False))
        if any(job.settings.number_of_retries for job in workflow):
            message = f"'{self.name}' retries by the site's key 'retries': 'numberOfRetries' has no effect"
            problems.append(Problem(message=message, key="numberOfRetries", fatal=False))
        return problems

    def render(self, workflow: Workflow, ctx: Context) -> Iterable[RenderedFile]:
        """Return the workflow for the plug-in, and the program that records jobs where the plug-in reports none."""
        root, env = ctx.paths.root, dict(os.environ)
        yield RenderedFile(path=PurePosixPath(FILE), chunks=lambda: store_workflow(workflow, root, env))
        if self._records:
            yield RenderedFile.from_text(PurePosixPath(RECORDER), RECORD_SCRIPT, mode=0o755)

    def submit(self, run: RunPaths) -> Submission:
        """Let the plug-in prepare and submit the run, in a process of its own."""
        return self._call(run, "submit", os.getcwd())  # noqa: PTH109 - the path, however long

    def restart(self, run: RunPaths, changes: RestartChanges) -> Submission:
        """Let the plug-in restart the run, as it was prepared."""
        if changes.set or changes.from_labels or not changes.selection.everything:
            raise SubmissionRefusedError(
                f"'{self.name}' restarts a run as it was, and cannot choose or change jobs",
                hint="Leave '--set', '--from' and names of jobs out.",
            )
        if not self._has("restart"):
            raise SubmissionRefusedError(f"'{self.name}' cannot restart runs", hint="Submit a new run.")
        return self._call(run, "restart", read_card(run).submitted_from or str(run.root))

    def recover(self, run: RunPaths) -> Submission | None:
        """Return a submission that the plug-in's process recorded after the submitting command was killed."""
        state, card = read_state(run), read_card(run)
        if state is None or state.phase in (Phase.STARTING, Phase.REFUSED) or state.number <= len(card.submissions):
            return None
        return self._submission(run, state, "submit" if state.number == 1 else "restart")

    def cancel(self, run: RunPaths, selection: JobSelection) -> CancelOutcome:
        """Let the plug-in cancel the run; one that runs jobs in its process is ended with them."""
        if not selection.everything:
            raise SubmissionRefusedError(f"'{self.name}' cancels whole runs, not single jobs")
        state = read_state(run)
        if state is None:
            return CancelOutcome(ended=0)
        if self._records:
            return end_plugin(run, state, self.name)
        if self.report_state(run, state) in TERMINAL_STATES:
            return CancelOutcome(ended=0)
        if not self._has("cancel"):
            raise SubmissionRefusedError(f"'{self.name}' cannot cancel runs")
        done, message = self._ask("cancel", state.id, selection.pass_thru or None)
        if not done:
            raise SubmissionRefusedError(f"'{self.name}' did not cancel the run: {message or 'it gives no reason'}")
        return CancelOutcome(ended=1, alive=(message,) if message else ())

    def is_alive(self, run: RunPaths) -> bool | Unreachable:
        """Return whether the plug-in's process runs, or its workload manager has the run."""
        if is_process_alive(run):
            return True
        if self._records or (state := read_state(run)) is None:
            return False
        found = self.report_state(run, state)
        if found in (JobState.UNKNOWN, JobState.MISFIT):
            return Unreachable(why=f"'{self.name}' does not know the state of '{state.id}'")
        return found not in TERMINAL_STATES

    def report(self, run: RunPaths) -> StatusReport | Unreachable:
        """Return what the plug-in reports, or the records of jobs where it reports nothing."""
        state = read_state(run)
        if state is None:
            return Unreachable(why=f"there is no record of the submission to '{self.name}'")
        if self._records:
            return self._recorded_report(run, state)
        try:
            reports, message = self._ask("report", wms_workflow_id=state.id, hist=_HISTORY_DAYS, return_exit_codes=True)
        except Exception as error:  # noqa: BLE001 - of any plug-in
            return Unreachable(why=f"'{self.name}' does not report: {error}")
        if not reports:
            return Unreachable(why=f"'{self.name}' does not report '{state.id}': {message or 'no such run'}")
        report = reports[0]
        jobs = tuple(
            JobStatus(name=job.name, state=_to_state(job.state), wms_id=str(job.wms_id or ""))
            for job in report.jobs or ()
        )
        known = {job.label for job in report.jobs or ()}
        counts = {
            label: {_to_state(each): count for each, count in states.items() if count}
            for label, states in (report.job_summary or {}).items()
            if label not in known
        }
        return StatusReport(state=_to_state(report.state), jobs=jobs, counts=counts)

    def status_lines(self, run: RunPaths) -> tuple[str, ...]:
        """Return what the plug-in's process does, and why it failed."""
        state = read_state(run)
        if state is None:
            return ()
        lines = [f"Plug-in: {state.phase}, log {run.root / LOG}"]
        if self._records and is_process_alive(run):
            lines = [f"Plug-in: process {state.pid} on '{state.host}', log {run.root / LOG}"]
        return (*lines, f"Plug-in failed: {state.message}") if state.message else tuple(lines)

    def ping(self, ctx: Context) -> PingReport:
        """Ask the plug-in, if it can be asked."""
        try:
            status, message = self._ask("ping", None)
        except NotImplementedError:
            return PingReport(service=self.name, ok=True, message="the plug-in of BPS cannot be asked")
        except Exception as error:  # noqa: BLE001 - of any plug-in
            return PingReport(service=self.name, ok=False, message=str(error))
        return PingReport(service=self.name, ok=status == 0, message=message or f"the plug-in answers {status}")

    def report_state(self, run: RunPaths, state: PluginState) -> JobState:
        """Return the state of the run alone."""
        if self._records:
            return self._recorded_report(run, state).state
        report = self.report(run)
        return JobState.UNKNOWN if isinstance(report, Unreachable) else report.state

    def _recorded_report(self, run: RunPaths, state: PluginState) -> StatusReport:
        jobs = tuple(recorded_jobs(run))
        if is_process_alive(run):
            return StatusReport(state=JobState.RUNNING, jobs=jobs)
        if state.phase is Phase.CANCELLED:
            return StatusReport(state=JobState.DELETED, jobs=jobs)
        succeeded = sum(job.state is JobState.SUCCEEDED for job in jobs)
        # A refused restart leaves the jobs as they were.
        is_over = state.phase in {Phase.ENDED, Phase.REFUSED}
        whole = is_over and succeeded == read_card(run).expected
        return StatusReport(state=JobState.SUCCEEDED if whole else JobState.FAILED, jobs=jobs)

    def _call(self, run: RunPaths, action: str, folder: str) -> Submission:
        """Start the plug-in's process, and wait until it has submitted the run, or begun to run its jobs."""
        before = read_state(run)
        number = len(read_card(run).submissions) + 1
        words = [str(run.root), action, folder, str(number), *([before.id] if before and before.id else ())]
        process, method = start_detached(
            [sys.executable, "-P", "-m", "longshore.services.bps.process", *words],
            log=run.root / LOG,
            variables={RUN_VARIABLE: run_token(run)},
        )
        latest = time.monotonic() + _START_S
        while time.monotonic() < latest:
            # Asked first: what the process wrote before its end is read below.
            status = process.poll()
            state = read_state(run)
            # A call that was refused has left its state, with the same number.
            is_new = state is not None and state != before and state.number == number
            if state is not None and is_new and state.phase is not Phase.STARTING:
                return self._submission(run, state, action, f"the plug-in's process runs {method.description}")
            if status is not None:
                raise SubmissionRefusedError(
                    f"the process of '{self.name}' ended with status {status}",
                    hint=f"What it printed: {run.root / LOG}",
                )
            time.sleep(_POLL_S)
        raise SubmissionUncertainError(
            f"'{self.name}' has not submitted the run within {_START_S:.0f} s", hint=f"See '{run.root / LOG}'."
        )

    def _submission(self, run: RunPaths, state: PluginState, by: str, note: str = "") -> Submission:
        if state.phase is Phase.REFUSED:
            raise SubmissionRefusedError(f"'{self.name}' refused the run: {state.message}")
        notes = []
        if self._records:
            notes = [note] if note else []
            notes.append(f"'{self.name}' has no reports: jobs record their starts and ends themselves")
        return Submission(
            id=state.id or read_card(run).id,
            by=by,
            at=time.time(),
            user=user_name(),
            host=host_name(),
            notes=tuple(notes),
        )

    def _has(self, method: str) -> bool:
        return getattr(self._plugin, method) is not getattr(BaseWmsService, method)

    def _ask(self, method: str, *args: Any, **named: Any) -> Any:
        # Clients print to the output of our commands, which programs read.
        with redirect_stdout(sys.stderr):
            return getattr(self._plugin({}), method)(*args, **named)


def _to_state(state: WmsStates | None) -> JobState:
    return JobState.UNKNOWN if state is None else JobState(state.name)


def _uses_attempt(job: Job) -> bool:
    texts = (*job.settings.environment.values(), *job.environment.values())
    return any(map(names_attempt, (full_command(job.command, job.settings), *texts)))
