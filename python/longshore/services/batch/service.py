"""Service of the kit: Longshore's engine with a `BatchExecutor`, or the whole graph as native dependencies."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from longshore.contract.capabilities import (
    AllocationReader,
    Contradiction,
    JobProbe,
    OwnJob,
    PartialJournal,
    Recoverable,
)
from longshore.contract.executor import Executor
from longshore.contract.service import (
    CancelOutcome,
    Context,
    Intervention,
    JobSelection,
    Mark,
    PingReport,
    Problem,
    RenderedFile,
    RestartChanges,
    RunPaths,
    StaleMarkError,
    Unreachable,
)
from longshore.engine.job_wrapper import wrapper_file
from longshore.engine.run.engine_service import EngineService
from longshore.engine.run.processes import engine_command
from longshore.engine.run_settings import read_settings
from longshore.engine.schedule.resource_pool import find_missing_limits
from longshore.engine.staging import check_staging, refuse_transfer
from longshore.errors import ConfigError, RunUnreadableError, SubmissionRefusedError
from longshore.model.event import Event
from longshore.model.json_lines import encode_line
from longshore.model.states import JobState
from longshore.model.submission import Submission
from longshore.model.workflow import Allocation, Job, JobSettings
from longshore.rundir.find_run import hint_reference
from longshore.rundir.liveness import lock_run
from longshore.rundir.run_directory import read_card, read_submitting
from longshore.services.batch.check import (
    batch_of,
    check_job_settings,
    check_native_mode,
    check_requests,
    check_site,
    find_refused_jobs,
    find_unmet_jobs,
    note_run_keys,
    note_small_arrays,
)
from longshore.services.batch.client import BatchClient
from longshore.services.batch.dialect import DependencyDialect, Dialect, Question
from longshore.services.batch.engine_job import TEMPLATE as ENGINE_TEMPLATE
from longshore.services.batch.engine_job import EngineJob, engine_batch, wants_engine_job
from longshore.services.batch.executor.executor import BatchExecutor
from longshore.services.batch.jobs import QueuePhase
from longshore.services.batch.native.native_run import NativeRun
from longshore.services.batch.pilots.setup import check_packing, pilot_allocations, pilots_executor
from longshore.services.batch.ping import ping
from longshore.services.batch.records import BATCH_TEMPLATE
from longshore.services.batch.script_writer import engine_spec, job_spec
from longshore.services.batch.settings import own_map, wants_native
from longshore.sites.requests import Unmet
from longshore.system.host import Clock, host_name, user_name
from longshore.system.sharing import lock_folder

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow


class BatchService(EngineService, Recoverable, PartialJournal, AllocationReader, JobProbe):
    """A workload manager that takes scripts and arrays through programs; a subclass has a dialect.

    The key of its own map is its name, whatever else its traits say.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if name := getattr(cls, "name", ""):
            cls.traits = msgspec.structs.replace(cls.traits, settings_key=name, has_pilots=True)

    dialect: ClassVar[type[Dialect]]
    """Class of the dialect, which is made for a site by the service's own map there."""

    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        """Return problems with settings and requests that every batch system can have; a subclass adds its own."""
        dialect = self.dialect(own_map(self.name, ctx.site.settings))
        problems = list(check_site(ctx, dialect))
        if not any(problem.fatal for problem in problems):
            problems += check_job_settings(workflow, ctx, dialect)
        problems += check_native_mode(workflow, ctx, dialect)
        problems += [*refuse_transfer(ctx, dialect.title), *check_staging(workflow, ctx)]
        problems += find_missing_limits(workflow, ctx.settings)
        problems += check_packing(workflow, ctx, self.name, self.client)
        problems += note_small_arrays(workflow)
        problems += note_run_keys(workflow, ctx, dialect)
        problems += check_requests(workflow, ctx, self._needs, self.name)
        return problems

    def probe_jobs(self, jobs: Iterable[Job], ctx: Context) -> list[Problem]:
        """Return what the cluster does not have for these jobs, by the answer of `ping`."""
        chosen = list(jobs)
        found = find_unmet_jobs(chosen, ctx, self._needs, self.name)
        if ctx.probe is not None and ctx.probe.inventory is not None and not any(each.fatal for each in found):
            found += find_refused_jobs(chosen, ctx, self.client(ctx.settings.get("executor", {})))
        return found

    def ping(self, ctx: Context) -> PingReport:
        """Return what the cluster reports on itself and on the site's settings; submits nothing."""
        settings = ctx.settings.get("executor", {})
        return ping(self.client(settings), settings, tuple(self.pilot_questions(settings)))

    def pilot_questions(self, settings: Mapping[str, Any]) -> Iterable[Question[tuple[Unmet, ...]]]:
        """Return questions for what pilots need and the cluster does not have; by default none."""
        return ()

    def allocations(self, job: JobSettings, settings: Mapping[str, Any]) -> Sequence[Allocation]:
        """Return what each component of a job asks for; of invalid settings, which `check` tells, the request."""
        try:
            dialect = self.dialect(own_map(self.name, settings))
            return dialect.allocations(job_spec(dialect, batch_of(job), settings))
        except ConfigError:
            return (Allocation.of_request(job.request),)

    def _needs(self, job: JobSettings, settings: Mapping[str, Any]) -> Sequence[Allocation]:
        """Return what each component of a job needs at least, to be compared with what a cluster has."""
        try:
            dialect = self.dialect(own_map(self.name, settings))
            return dialect.needs(job_spec(dialect, batch_of(job), settings))
        except ConfigError:
            return (Allocation.of_request(job.request),)

    def own_jobs(self, settings: Mapping[str, Any]) -> Iterator[OwnJob]:
        """Return each pilot, and the job of the engine or the one that collects a run's outcome.

        Of invalid settings, which `check` tells, there is nothing.
        """
        with suppress(ConfigError):
            if (pilots := pilot_allocations(self.dialect, settings)) is not None:
                yield pilots
        with suppress(ConfigError):
            if wants_engine_job(self.name, settings) or wants_native(self.name, settings):
                dialect = self.dialect(own_map(self.name, settings))
                batch = engine_batch(dialect, settings, "longshore-0")
                asked = dialect.allocations(engine_spec(dialect, batch, settings))
                # The script of an engine has one component.
                yield OwnJob(name="the engine", section=f"{self.name}.engineJob", components=asked[:1])

    def contradictions(self, job: JobSettings, settings: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Return the settings of a job that cannot both hold, by the dialect."""
        return self.dialect(own_map(self.name, settings)).contradictions(job.service_settings)

    def executor(self, settings: Mapping[str, Any]) -> Executor:
        """Return the executor; with settings of pilots, it runs jobs in pilots where they want that and fit."""
        if "pilot" not in settings:
            return BatchExecutor(settings, self.client(settings))
        return pilots_executor(settings, self.client)

    def client(self, settings: Mapping[str, Any]) -> BatchClient:
        """Return the client for the settings of an executor: its ``setup`` lines, and ``inherit``."""
        dialect = self.dialect(own_map(self.name, settings))
        return BatchClient(dialect, setup=settings.get("setup") or (), inherit=settings.get("inherit") or "all")

    def render_extra(self, workflow: Workflow, ctx: Context) -> Iterator[RenderedFile]:
        """Return the templates and the wrapper."""
        for path in (BATCH_TEMPLATE, ENGINE_TEMPLATE):
            # A workload manager that cannot run engines has one template.
            if (text := ctx.templates.get(path.name.removesuffix(".j2"))) is not None:
                yield RenderedFile.from_text(path, text)
        yield wrapper_file(ctx)

    # -------------------------------------------------------------------------------------------- an engine as a job

    def start_engine(self, run: RunPaths, by: str) -> str:
        """Start an engine here or as a job, or submit the whole graph, as the site's settings say."""
        settings = read_settings(run).executor
        if by == "submit" and wants_native(self.name, settings):
            return self._native_run(run, settings).submit(engine_command(run))
        # A run that is being cancelled must not wait in a queue for an engine.
        if by == "cancel" or not wants_engine_job(self.name, settings):
            return super().start_engine(run, by)
        return EngineJob(run, self.client(settings)).start(settings, by, engine_command(run))

    def recover(self, run: RunPaths) -> Submission | None:
        """Continue an interrupted submission of a whole graph; ``None`` when there is nothing to continue.

        A run with an engine needs no recovery: the engine reports its own state.
        """
        settings = read_settings(run).executor
        card = read_card(run)
        if card.submissions or not wants_native(self.name, settings):
            return None
        note = self._native_run(run, settings).recover()
        if note is None:
            return None
        return Submission(id=card.id, by="submit", at=time.time(), user=user_name(), host=host_name(), notes=(note,))

    def is_alive(self, run: RunPaths) -> bool | Unreachable:
        """Return whether an engine shows signs of life, or is a job in the queue."""
        if native := self._native(run):
            try:
                return native.phase() is not QueuePhase.OVER
            except FileNotFoundError:
                return False
        found = super().is_alive(run)
        if found:
            return found
        job = self._engine_job(run)
        # UNKNOWN: there is no answer for now, and the job may exist.
        return job is not None and job.phase() in (QueuePhase.WAITING, QueuePhase.RUNNING, QueuePhase.UNKNOWN)

    def cancel(self, run: RunPaths, selection: JobSelection) -> CancelOutcome:
        """Cancel; an engine still queued cannot take the request, and is replaced by one that can."""
        if read_submitting(run) is not None:
            # Jobs of an incomplete submission may be in the queue.
            with lock_folder(run.root):
                self.recover(run)
        if native := self._native(run):
            if not selection.everything:
                raise SubmissionRefusedError(
                    "of a run with 'mode: native' only the whole can be cancelled",
                    hint=f"{native.dialect.programs.cancel} ends single jobs; their ids are in '{run.batches}'.",
                )
            return CancelOutcome(ended=native.cancel(final_too=selection.final_too))
        job = self._engine_job(run)
        if job is not None and not super().is_alive(run) and job.phase() is QueuePhase.WAITING:
            job.end()
        return super().cancel(run, selection)

    def resume(self, run: RunPaths, *, take_over: bool = False, force: bool = False) -> Submission | None:
        """Resume the run; when an engine is taken over from, its job is ended first."""
        if native := self._native(run):
            return self._collect(run, native)
        job = self._engine_job(run)
        if take_over and job is not None:
            job.end()
        return super().resume(run, take_over=take_over, force=force)

    def _collect(self, run: RunPaths, native: NativeRun) -> Submission | None:
        """Do the work of the collector job."""
        if native.collect() is None:
            raise SubmissionRefusedError(
                f"'{run.root}' is RUNNING: {native.dialect.title} has jobs of it",
                hint="Wait for it, or cancel the run first.",
            )
        return None

    def restart(self, run: RunPaths, changes: RestartChanges) -> Submission:
        """Run the jobs that did not succeed again, under an engine: nothing else starts a job twice."""
        if native := self._native(run):
            self._collect(run, native)
        return super().restart(run, changes)

    def why_not_amended(self, run: RunPaths) -> str:
        """Return why a run without an engine cannot have another workflow before its outcome is in the journal."""
        if native := self._native(run):
            return (
                f"{native.dialect.title} keeps what became of its jobs until it is collected: "
                f"longshore resume {hint_reference(run)}"
            )
        return ""

    def why_not_reused(self, ctx: Context) -> str:
        """Return why a run without an engine cannot begin with results: the workload manager gets all of its jobs."""
        settings = ctx.settings.get("executor", {})
        if not wants_native(self.name, settings):
            return ""
        return f"with 'mode: native', {self.dialect(own_map(self.name, settings)).title} gets all jobs of a run"

    def steer(self, run: RunPaths, intervention: Intervention) -> bool:
        """Steer a live run; refused for a run without an engine."""
        if native := self._native(run):
            raise SubmissionRefusedError(
                f"a run with 'mode: native' has no engine that could {intervention.act} anything",
                hint=f"The programs of {native.dialect.title} change what waits in its queue.",
            )
        return super().steer(run, intervention)

    def journal_is_complete(self, run: RunPaths) -> bool:
        """Return whether the journal is complete: an engine writes it, or a run without one was collected."""
        return self._native(run) is None

    def hosts_notices(self, run: RunPaths) -> bool:
        """Return whether an engine drives the run; the batch system itself starts no notifier."""
        return self._native(run) is None

    def events(self, run: RunPaths, mark: Mark = "") -> tuple[Iterator[Event], Mark] | Unreachable:
        """Return the events; for a run without an engine, those derived from answers of the workload manager."""
        native = self._native(run)
        if native is None:
            if mark.startswith(_DERIVED_MARK):
                raise StaleMarkError
            return super().events(run, mark)
        try:
            events = native.events()
        except FileNotFoundError:
            # The collector job has just written the journal.
            return self.events(run, mark)
        if isinstance(events, Unreachable):
            return events
        lines = list(map(encode_line, events))
        number, _, digest = mark.removeprefix(_DERIVED_MARK).partition(":")
        before = int(number or 0)
        if mark and (not mark.startswith(_DERIVED_MARK) or digest != _digest(lines[:before])):
            raise StaleMarkError
        return iter(events[before:]), f"{_DERIVED_MARK}{len(lines)}:{_digest(lines)}"

    def drive(self, run: RunPaths, by: str, *, clock: Clock | None = None) -> JobState:
        """Run the engine; for a run without one, collect the outcome into the journal."""
        native = self._native(run)
        if native is None:
            return super().drive(run, by, clock=clock)
        with lock_run(run):
            return native.collect_last()

    def _native(self, run: RunPaths) -> NativeRun | None:
        """The run's native graph; ``None`` with an engine, or once the journal records the run's end."""
        try:
            settings = read_settings(run).executor
        except RunUnreadableError:
            return None
        native = self._native_run(run, settings) if wants_native(self.name, settings) else None
        return native if native is not None and native.is_open else None

    def _native_run(self, run: RunPaths, settings: Mapping[str, Any]) -> NativeRun:
        client = self.client(settings)
        if not isinstance(client.dialect, DependencyDialect):
            raise SubmissionRefusedError(
                f"{client.dialect.title} cannot keep the dependencies of a run: 'mode: native'"
            )
        return NativeRun(run, client, client.dialect, settings)

    def _engine_job(self, run: RunPaths) -> EngineJob | None:
        try:
            settings = read_settings(run).executor
        except RunUnreadableError:
            return None
        return EngineJob(run, self.client(settings)) if wants_engine_job(self.name, settings) else None


_DERIVED_MARK: Final = "seen:"
"""Prefix of marks that are no positions in a journal."""


def _digest(lines: list[bytes]) -> str:
    return sha256(b"".join(lines)).hexdigest()[:16]
