"""Engine service: makes a whole service of an executor, with a detached engine that drives each run.

Methods import what only they need: a report of a run needs little of it.
"""

from __future__ import annotations

import os
import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from longshore.contract.capabilities import (
    AllocationReader,
    Amendable,
    Cancellable,
    LivenessProbe,
    LogLocating,
    LogLocator,
    NoticeHost,
    Restartable,
    Resumable,
    Steerable,
)
from longshore.contract.executor import Executor, ExecutorOwner, HostBound, probe_resources
from longshore.contract.service import (
    CancelOutcome,
    Context,
    EventSource,
    Intervention,
    JobSelection,
    Mark,
    PingReport,
    Problem,
    RenderedFile,
    RestartChanges,
    RunPaths,
    Unreachable,
    WmsService,
)
from longshore.engine.run_settings import read_settings
from longshore.errors import RequestError, SubmissionRefusedError
from longshore.model.event import Event, Finished, Life
from longshore.model.states import JobState
from longshore.model.submission import Submission
from longshore.model.workflow import JobSettings, Request, total_request
from longshore.rundir.find_run import hint_reference, run_of_this_job
from longshore.rundir.interventions import (
    InterventionKind,
    InterventionRecord,
    discard_interventions,
    is_refused,
    write_intervention,
)
from longshore.rundir.journal import count_fruitless_lives, lives, read_events, read_since
from longshore.rundir.journal_damage import refuse_if_lives_lost, refuse_lost_manifest
from longshore.rundir.liveness import has_local_engine, has_remote_heartbeat, kill_local_engine, last_log_line, lock_run
from longshore.rundir.run_directory import Access, read_card, read_snapshot, require_access
from longshore.rundir.submissions import refuse_changed_files
from longshore.system.atomic import sync_file
from longshore.system.folder import remove_file, sync_folder
from longshore.system.host import Clock, SystemClock, host_name, timestamp, user_name
from longshore.system.room import bounded_umask

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

MOST_FRUITLESS: Final = 3
"""Lives that may die in a row without achieving anything."""


class EngineService(
    WmsService,
    EventSource,
    LivenessProbe,
    Cancellable,
    Restartable,
    Amendable,
    Resumable,
    Steerable,
    LogLocating,
    NoticeHost,
    ExecutorOwner,
):
    """A service for a workload manager that knows only single jobs; a subclass has a name and an executor.

    The jobs of a run are submitted by an engine, a process of its own that drives the executor.
    """

    @abstractmethod
    def executor(self, settings: Mapping[str, Any]) -> Executor:
        """Return a new executor, not yet opened.

        Parameters
        ----------
        settings
            ``Context.settings["executor"]`` as it was when the run was prepared, decoded from JSON.
        """

    def render_extra(self, workflow: Workflow, ctx: Context) -> Iterator[RenderedFile]:
        """Return files beside the engine's settings, such as templates and programs. Pure; none by default."""
        return iter(())

    def request_problems(self, request: Request, source: str, settings: Mapping[str, Any]) -> Iterator[Problem]:
        """Return problems with a request that can never be granted. None by default.

        Parameters
        ----------
        request
            The request.
        source
            Origin of the request, for messages, such as ``requestMemory=8G``.
        settings
            Those of `executor`.
        """
        return iter(())

    def render(self, workflow: Workflow, ctx: Context) -> Iterable[RenderedFile]:
        """Return the engine's settings, the program that stages files if jobs need it, and `render_extra`."""
        from longshore.engine.settings import render_settings
        from longshore.engine.staging import stage_files

        yield render_settings(ctx)
        yield from stage_files(workflow, ctx)
        yield from self.render_extra(workflow, ctx)

    def submit(self, run: RunPaths) -> Submission:
        """Start the run's first engine."""
        return self._start_submission(run, "submit")

    def resume(self, run: RunPaths, *, take_over: bool = False, force: bool = False) -> Submission | None:
        """Start another engine for a run whose engine died, or, with `take_over`, seems to live."""
        from longshore.engine.run.processes import refuse_if_alive

        if take_over:
            kill_local_engine(run)
        else:
            refuse_if_alive(run, self.is_alive)
        refuse_if_lives_lost(run)
        if self._finished(run):
            return None
        if not force:
            _refuse_if_fruitless(run)
        return self._start_submission(run, "take-over" if take_over else "resume")

    def restart(self, run: RunPaths, changes: RestartChanges) -> Submission:
        """Start an engine that runs the jobs again that did not succeed."""
        from longshore.engine.run.processes import refuse_if_alive

        refuse_if_alive(run, self.is_alive)
        refuse_if_lives_lost(run)
        end = self._finished(run)
        anyway = changes.from_labels or changes.has_new_workflow
        if end and end.state == JobState.SUCCEEDED and not anyway:
            raise SubmissionRefusedError(f"'{run.root}' has nothing to run again: every job succeeded")
        self._refuse_if_elsewhere(run)
        if changes.set:
            self._refuse_impossible_request(run, changes.set, changes.selection)
        # Earlier interventions were meant for the submission that is over.
        discard_interventions(run)
        selection = changes.selection
        record = InterventionRecord(
            who=user_name(),
            act="restart",
            jobs=selection.jobs,
            labels=selection.labels,
            set=changes.set,
            from_labels=changes.from_labels,
        )
        path = write_intervention(run, record)
        try:
            return self._start_submission(run, "restart")
        except SubmissionRefusedError:
            # It was refused, and must not happen later without the user's knowledge.
            remove_file(path, below=run.root)
            raise

    def why_not_amended(self, run: RunPaths) -> str:
        """Return no reason: each engine reads the workflow of the newest submission."""
        return ""

    def cancel(self, run: RunPaths, selection: JobSelection) -> CancelOutcome:
        """Write a cancel intervention, and ensure that an engine takes it."""
        active = self._count_active(run)
        if self._finished(run):
            return CancelOutcome(ended=0)
        if not self.is_alive(run):
            # An engine would begin as this user.
            require_access(run, Access.ACT)
            # An order left behind would be carried out by the next process that takes the run over.
            self._refuse_if_elsewhere(run)
        record = InterventionRecord(
            who=user_name(),
            act="cancel",
            jobs=selection.jobs,
            labels=selection.labels,
            set={"final": "no"} if selection.final_too else {},
        )
        path = write_intervention(run, record)
        started = 0
        while path.exists():
            if self.is_alive(run):
                time.sleep(_POLL_S)
            elif self._finished(run):
                # The run ended by itself before the intervention was taken.
                discard_interventions(run)
            elif started == MOST_FRUITLESS:
                _refuse_if_fruitless(run)
            else:
                started += 1
                self._start_submission(run, "cancel")
        _refuse_if_set_aside(run, path)
        return CancelOutcome(ended=active)

    def steer(self, run: RunPaths, intervention: Intervention) -> bool:
        """Write an intervention, and wait until a live engine has taken it; without one, the next engine will."""
        if end := self._finished(run):
            raise SubmissionRefusedError(
                f"there is nothing to {intervention.act}: '{run.root}' is {end.state}", hint="'restart' runs it again."
            )
        if intervention.act == "set":
            self._refuse_impossible_request(run, intervention.set, intervention.selection)
        path = write_intervention(
            run,
            InterventionRecord(
                who=user_name(),
                act=msgspec.convert(intervention.act, InterventionKind),
                jobs=intervention.selection.jobs,
                labels=intervention.selection.labels,
                set=intervention.set,
            ),
        )
        deadline = time.monotonic() + _TAKE_TIMEOUT_S
        while path.exists():
            if self.is_alive(run) is not True or time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        _refuse_if_set_aside(run, path)
        return True

    def events(self, run: RunPaths, mark: Mark = "") -> tuple[Iterator[Event], Mark] | Unreachable:
        """Return the journal's events; the mark is the life and the byte up to which they were seen."""
        return read_since(run.journal, mark)

    def is_alive(self, run: RunPaths) -> bool | Unreachable:
        """Return whether an engine holds the run's lock, or another host's engine wrote a snapshot a moment ago."""
        return has_local_engine(run) or has_remote_heartbeat(run)

    def log_locator(self, run: RunPaths) -> LogLocator | None:
        """Return the locator of logs, if the user chose their directories."""
        from longshore.engine.log_locator import make_log_locator

        return make_log_locator(run)

    def hosts_notices(self, run: RunPaths) -> bool:
        """Return that each engine starts a notifier."""
        return True

    def ping(self, ctx: Context) -> PingReport:
        """Return the report of the executor's probe. A service whose executor has none should implement this method."""
        report = probe_resources(self.executor(ctx.settings.get("executor", {})))
        return msgspec.structs.replace(report, service=self.name)

    def drive(self, run: RunPaths, by: str, *, clock: Clock | None = None) -> JobState:
        """Run the engine in the foreground until nothing of the run can move any more."""
        # Only the engine's own process imports the engine; a command that asks for a status does not.
        from longshore.engine.run.loop import Engine, Superseded
        from longshore.engine.run.processes import start_first_report
        from longshore.rundir.notices import start_notifier, wait_for_notifier

        require_access(run, Access.ACT)
        with lock_run(run, anew=by == "take-over"):
            # The engine compares the workflow while it reads it.
            refuse_changed_files(run, with_workflow=False)
            refuse_lost_manifest(run)
            settings = read_settings(run)
            if settings.umask is not None:
                # Of this process, and so of its keepers and their jobs.
                os.umask(bounded_umask(settings.umask))
            engine = Engine(
                run,
                self.executor(settings.executor),
                settings,
                clock=clock or SystemClock(),
                by=by,
                log_line=_make_log_line(clock or SystemClock()),
            )
            if by == "restart":
                engine.restart()
            if why := start_notifier(run):
                _make_log_line(clock or SystemClock())(why)
            try:
                state = engine.run()
            except Superseded as reason:
                _make_log_line(clock or SystemClock())(f"this engine stops: {reason}")
                return JobState.UNKNOWN
        # Without the lock: a restart or another command meanwhile finds no engine, and this one gives way.
        engine.collect_late_facts()
        start_first_report(run)
        wait_for_notifier(run)
        return state

    def _start_submission(self, run: RunPaths, by: str) -> Submission:
        if by not in {"submit", "take-over"}:
            self._refuse_if_elsewhere(run)
        where = self.start_engine(run, by)
        _sync_newest_life(run)
        card = read_card(run)
        return Submission(
            id=card.id,
            by=by,
            at=time.time(),
            user=user_name(),
            host=host_name(),
            notes=(where,),
        )

    def start_engine(self, run: RunPaths, by: str) -> str:
        """Start an engine, and return where it runs.

        Raises
        ------
        SubmissionRefusedError
            It did not begin; nothing is left of it.
        """
        from longshore.engine.outer_job import enter_outer_job
        from longshore.engine.run.processes import engine_command, start_life

        require_access(run, Access.ACT)
        enter_outer_job(run_of_this_job() if by == "submit" else read_card(run).submitted_in)
        return start_life(run, [*engine_command(run), "--by", by])

    def import_engine(self) -> None:
        """Import what `drive` imports; an engine on standby does so before there is a run."""
        import longshore.engine.run.loop
        import longshore.engine.run.processes
        import longshore.jobs.commands
        import longshore.rundir.job_table
        import longshore.rundir.notices  # noqa: F401

        self.executor({})

    def _refuse_if_elsewhere(self, run: RunPaths) -> None:
        executor = self.executor(read_settings(run).executor)
        if isinstance(executor, HostBound) and (left := executor.unseen_processes(run)):
            raise SubmissionRefusedError(
                f"'{run.root}' may still have {left}, which cannot be seen from '{host_name()}'",
                hint=f"Continue there. If that host is gone for good: longshore resume {hint_reference(run)} "
                "--take-over",
            )

    def _refuse_impossible_request(self, run: RunPaths, values: Mapping[str, str], selection: JobSelection) -> None:
        """Refuse requests of jobs that can never be granted."""
        from longshore.runstate.change_request import change_request
        from longshore.sites.limits import exceeded_ceilings

        source = " ".join(f"{key}={value}" for key, value in values.items())
        settings, request = read_settings(run).executor, change_request(Request(), values)
        ceilings: Mapping[str, float] = settings.get("ceilings") or {}
        for words in exceeded_ceilings(request, ceilings):
            raise RequestError(f"'{source}' asks for {words}", hint="Ask for less.")
        if ceilings and isinstance(self, AllocationReader):
            for job in _selected_settings(run, selection):
                changed = msgspec.structs.replace(job, request=change_request(job.request, values))
                before, after = (total_request(self.allocations(each, settings)) for each in (job, changed))
                known = set(exceeded_ceilings(before, ceilings))
                for words in exceeded_ceilings(after, ceilings):
                    if words not in known:
                        raise RequestError(
                            f"with '{source}', jobs of '{job.label}' ask for {words}", hint="Ask for less."
                        )
        snapshot = read_snapshot(run)
        if snapshot is not None and snapshot.host != host_name():
            # The resources elsewhere are not known here.
            return
        for problem in self.request_problems(request, source, settings):
            raise RequestError(problem.message, hint=problem.hint)

    def _finished(self, run: RunPaths) -> Finished | None:
        last: Finished | None = None
        for event in read_events(run.journal):
            if isinstance(event, Finished):
                last = event
            elif isinstance(event, Life):
                last = None
        return last

    def _count_active(self, run: RunPaths) -> int:
        snapshot = read_snapshot(run)
        if snapshot is None:
            return 0
        return snapshot.counts.get(JobState.RUNNING, 0) + snapshot.counts.get(JobState.PENDING, 0)


def _selected_settings(run: RunPaths, selection: JobSelection) -> list[JobSettings]:
    """Return the settings of the selected jobs of a run, each once."""
    from longshore.rundir.job_table import JobTable

    table = JobTable(run)
    every = range(len(table)) if selection.everything else table.select(names=selection.jobs, labels=selection.labels)
    found = {id(settings): settings for settings in map(table.settings, every)}
    return list(found.values())


_POLL_S: Final = 0.02
_TAKE_TIMEOUT_S: Final = 10.0
"""Longest wait for an intervention to be taken; an engine elsewhere, or with a full disk, takes it later."""


def _refuse_if_set_aside(run: RunPaths, path: Path) -> None:
    """Report an intervention that the engine refused, such as that of a user who is no member on its host."""
    if is_refused(path):
        raise SubmissionRefusedError(
            f"the engine of '{run.root}' did not take the order", hint=f"'{run.engine_log}' has the reason."
        )


def _refuse_if_fruitless(run: RunPaths) -> None:
    """Refuse to begin another engine after several that died at once."""
    number = count_fruitless_lives(run.journal)
    if number >= MOST_FRUITLESS:
        words = last_log_line(run)
        raise SubmissionRefusedError(
            f"the last {number} engines of '{run.root}' died without achieving anything"
            + (f": {words}" if words else ""),
            hint=f"See '{run.engine_log}'. To try once more all the same: longshore resume {hint_reference(run)} "
            "--force",
        )


def _make_log_line(clock: Clock) -> Callable[[str], None]:
    def say(line: str) -> None:
        # Standard error is the engine's log; see `start_detached`.
        # The engine must not die of a failed log write: its log may be on the full disk.
        with suppress(OSError):
            sys.stderr.write(f"{timestamp(clock.now())} {line}\n")
            sys.stderr.flush()

    return say


def _sync_newest_life(run: RunPaths) -> None:
    """Synchronize the life that has just begun: the card, which names the submission, must not survive it."""
    # An engine that is a job of a queue may begin later.
    for _, path in lives(run.journal)[-1:]:
        sync_file(path)
        sync_folder(run.journal)
