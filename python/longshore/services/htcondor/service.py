"""The HTCondor service: DAGMan runs the workflow, its logs give the events, the schedd takes interventions."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from longshore.contract.capabilities import (
    AllocationReader,
    Amendable,
    BriefEvents,
    Cancellable,
    Contradiction,
    HoldRules,
    JobProbe,
    LivenessProbe,
    LoadReporter,
    LogDirectories,
    LogLocating,
    LogLocator,
    NoticeHost,
    Queryable,
    Recoverable,
    Restartable,
    Resumable,
    RunMirroring,
    StatusLines,
    Steerable,
)
from longshore.contract.service import (
    CancelOutcome,
    Context,
    EventSource,
    Intervention,
    JobSelection,
    Mark,
    PingReport,
    Problem,
    RemoteRuns,
    RenderedFile,
    RestartChanges,
    RunPaths,
    RunSearch,
    ServiceTraits,
    Unreachable,
    WmsService,
)
from longshore.errors import LongshoreError, ServiceError, SubmissionRefusedError, UnreachableError
from longshore.model.event import BriefEvent, Event, Finished
from longshore.model.states import JobState
from longshore.model.submission import Submission
from longshore.model.workflow import Allocation, Job, JobSettings
from longshore.rundir.run_directory import read_card
from longshore.services.htcondor.codes import BY_HAND, USER_HOLD, JobStatusCode
from longshore.services.htcondor.events.dagman_end import DagmanEnd, DagmanHistory, read_dagman_end
from longshore.services.htcondor.render.settings import (
    JOB_KEYS,
    JOB_MAPS,
    RUN_KEYS,
    SETTINGS_KEY,
    UNUSED_KEYS,
    run_value,
)
from longshore.services.htcondor.schedd import client
from longshore.services.htcondor.schedd.client import NAME, WHERE, Ad, CondorClient, ScheddAddress, client_of, quoted
from longshore.services.htcondor.submission_record import DagSubmission, SubmissionRecord, dagman_log, read_submissions
from longshore.system.host import host_name, user_name
from longshore.system.sharing import lock_folder

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow
    from longshore.services.htcondor.events.event_source import LogEventSource
    from longshore.services.htcondor.events.job_phases import JobPhases

# A method imports what only it needs: a query of a state needs few of the modules of this service.

_OLD_S: Final = 3.0
_SILENT_S: Final = 10.0


class HTCondorService(
    WmsService,
    EventSource,
    BriefEvents,
    LivenessProbe,
    LoadReporter,
    Cancellable,
    Restartable,
    Amendable,
    Resumable,
    Recoverable,
    Steerable,
    Queryable,
    RunMirroring,
    LogDirectories,
    LogLocating,
    StatusLines,
    HoldRules,
    AllocationReader,
    JobProbe,
    NoticeHost,
):
    """HTCondor as a workload manager: pool, schedd and DAGMan."""

    name: ClassVar[str] = NAME
    takes_pass_thru = True
    traits: ClassVar[ServiceTraits] = ServiceTraits(
        transfers_files=True,
        settings_key=SETTINGS_KEY,
        job_keys=JOB_KEYS,
        job_maps=JOB_MAPS,
        run_keys=RUN_KEYS,
        unused_keys=UNUSED_KEYS,
        user_hold_codes=frozenset({USER_HOLD}),
    )

    def __init__(self) -> None:
        self._seen_at: dict[tuple[str, int], float] = {}
        """Monotonic time at which a submission was last seen in the queue."""
        self._silent_since: dict[str, tuple[float, Unreachable]] = {}
        """Per run, when its schedd last failed to answer, and why."""
        self._last_brief: tuple[str, Mark, LogEventSource] | None = None
        """The last run read as brief events: its directory, the mark reached, and its reader."""
        self._history = DagmanHistory()

    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        """Return what HTCondor cannot do for a workflow."""
        from longshore.services.htcondor.check import check

        return check(workflow, ctx)

    def probe_jobs(self, jobs: Iterable[Job], ctx: Context) -> list[Problem]:
        """Return the jobs whose requirements no slot of the pool meets."""
        from longshore.services.htcondor.check import note_unmatched_requirements

        where = _where(ctx)
        kinds = {id(job.settings): job for job in jobs}
        try:
            return list(note_unmatched_requirements(kinds.values(), CondorClient(schedd=where.schedd, pool=where.pool)))
        except (ServiceError, UnreachableError):
            return []

    def allocations(self, job: JobSettings, settings: Mapping[str, Any]) -> Sequence[Allocation]:
        """Return what a job asks for, with commands of its own such as `request_cpus`."""
        from longshore.services.htcondor.check import allocation

        return (allocation(job),)

    def contradictions(self, job: JobSettings, settings: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Return the commands that `attrs`, `profile.condor` and raw lines give different values."""
        from longshore.services.htcondor.check import contradictions

        return contradictions(job.service_settings)

    def render(self, workflow: Workflow, ctx: Context) -> Iterable[RenderedFile]:
        """Return the DAG and the files beside it."""
        from longshore.services.htcondor.render.dag import render

        yield from render(workflow, ctx)
        text = msgspec.json.encode(_where(ctx)).decode() + "\n"
        yield RenderedFile.from_text(WHERE, text)

    def log_directories(self, workflow: Workflow) -> Iterable[str]:
        """Return the directories of the jobs' logs."""
        from longshore.services.htcondor.render.dag import folders

        return folders(workflow)

    # ----------------------------------------------------------------------------------------------------------- submit

    def hosts_notices(self, run: RunPaths) -> bool:
        """Return that a node of the DAG is the notifier."""
        return True

    def submit(self, run: RunPaths) -> Submission:
        """Submit the DAG to DAGMan, for the first time."""
        from longshore.services.htcondor.submission.submit_dag import submit_run

        if read_submissions(run).last_submission is not None:
            raise SubmissionRefusedError(f"'{run.root}' was submitted before", hint="'restart' runs it again.")
        return self._make_submission(run, submit_run(run, client_of(run), by="submit").cluster, "submit")

    def restart(self, run: RunPaths, changes: RestartChanges) -> Submission:
        """Submit the DAG again with the jobs that did not succeed, and those that the changes name."""
        from longshore.services.htcondor.bps.mirror import restart_directory
        from longshore.services.htcondor.control import restart
        from longshore.services.htcondor.submission.submit_dag import submit_run

        self._refuse_if_alive(run)
        last = read_submissions(run).last_submission
        if last is not None and last.dag:
            return self._make_submission(run, restart_directory(run, client_of(run), last, changes), "restart")
        reading = self._event_source(run)
        plan = restart.plan_restart(run, list(reading.events()[0]), changes, reading.job_phases(), last)
        return self._make_submission(run, submit_run(run, client_of(run), by="restart", plan=plan).cluster, "restart")

    def why_not_amended(self, run: RunPaths) -> str:
        """Return no reason, except for a run of BPS: a changed workflow has a DAG of its own."""
        last = read_submissions(run).last_submission
        return "BPS submitted it" if last is not None and last.dag else ""

    def recover(self, run: RunPaths) -> Submission | None:
        """Find a submission that was interrupted before its result was recorded; ``None`` if there is nothing new."""
        from longshore.services.htcondor.submission.submit_dag import resolve_submission

        record = read_submissions(run)
        if record.pending is not None:
            record = resolve_submission(run, client_of(run), record)
        last = record.last_submission
        known_ids = {submission.id for submission in read_card(run).submissions[-1:]}
        if last is None or client.format_id(last.cluster) in known_ids:
            return None
        submission = self._make_submission(run, last.cluster, last.life.by)
        return msgspec.structs.replace(submission, at=last.life.t, host=last.life.host)

    def resume(self, run: RunPaths, *, take_over: bool = False, force: bool = False) -> Submission | None:
        """Release DAGMan's job from a hold; ``None`` if it is not in the queue.

        DAGMan lives in the queue: unlike the engine, it needs no new process.
        """
        record = self._resolved_record(run)
        last = record.last_submission
        if last is None:
            raise SubmissionRefusedError(f"'{run.root}' was never submitted")
        found = client_of(run).query_jobs(_dagman(run, last), ("JobStatus",))
        if isinstance(found, Unreachable):
            raise UnreachableError(f"whether '{run.root}' is still in the queue is not known: {found.why}")
        if not found:
            return None
        if found[0].get("JobStatus") != JobStatusCode.HELD:
            raise SubmissionRefusedError(f"'{run.root}' is RUNNING: DAGMan is job {last.cluster}.0 of '{last.schedd}'")
        client_of(run).apply_action("Release", _dagman(run, last), "longshore resume")
        return self._make_submission(run, last.cluster, "resume")

    def _resolved_record(self, run: RunPaths) -> SubmissionRecord:
        """The record of submissions, after an interrupted one is resolved."""
        from longshore.services.htcondor.submission.submit_dag import resolve_submission

        record = read_submissions(run)
        if record.pending is None:
            return record
        with lock_folder(run.root):
            return resolve_submission(run, client_of(run), read_submissions(run))

    def _make_submission(self, run: RunPaths, cluster: int, by: str) -> Submission:
        record = read_submissions(run)
        last = record.last_submission
        schedd = last.schedd if last else ""
        return Submission(
            id=client.format_id(cluster),
            by=by,
            at=time.time(),
            user=user_name(),
            host=host_name(),
            global_id=last.global_id if last else "",
            notes=(f"DAGMan is job {client.format_id(cluster)} of the schedd '{schedd}'",),
        )

    def _refuse_if_alive(self, run: RunPaths) -> None:
        alive = self._is_in_queue(run, fresh=True)
        if isinstance(alive, Unreachable):
            raise UnreachableError(f"whether '{run.root}' still runs is not known: {alive.why}")
        if alive:
            raise SubmissionRefusedError(f"'{run.root}' is RUNNING", hint="Wait for it, or cancel the run first.")

    # ---------------------------------------------------------------------------------------------------------- observe

    def events(self, run: RunPaths, mark: Mark = "") -> tuple[Iterator[Event], Mark] | Unreachable:
        """Return the events from the log of DAGMan's nodes and from recorded interventions."""
        return self._event_source(run).events(mark)

    def brief_events(
        self, run: RunPaths, mark: Mark = "", *, with_attempts: bool = False
    ) -> tuple[Iterator[BriefEvent], Mark] | Unreachable:
        """Return the same as brief events."""
        reading = self._event_source(run)
        news, reached = reading.brief_events(mark, with_attempts=with_attempts)
        self._last_brief = str(run.root), reached, reading
        return news, reached

    def is_alive(self, run: RunPaths) -> bool | Unreachable:
        """Return whether DAGMan or one of its jobs is in the queue; the answer may be seconds old."""
        return self._is_in_queue(run, fresh=False)

    def _is_in_queue(self, run: RunPaths, *, fresh: bool) -> bool | Unreachable:
        record = read_submissions(run)
        last = record.last_submission
        if last is None:
            return False
        number = len(record.submissions)
        end = read_dagman_end(dagman_log(run, record, number), last.cluster)
        if end is not None and not end.is_removed:
            return False
        # A watched run asks several times a second; the schedd is not asked as often.
        if not fresh and time.monotonic() - self._seen_at.get((str(run.root), last.cluster), -_OLD_S) < _OLD_S:
            return True
        found = self._query_jobs(run, f"({_dagman(run, last)}) || ({_below(last.cluster)})", ("ClusterId",))
        if isinstance(found, Unreachable):
            return found
        if found:
            self._seen_at[str(run.root), last.cluster] = time.monotonic()
        return bool(found)

    def find_run(self, reference: str, *, everywhere: bool = False) -> Path | None:
        """Return the directory of a run by its HTCondor id, from the queue or the history."""
        from longshore.services.htcondor.schedd import query

        condor_id = client.parse_id(reference)
        try:
            return query.find_directory(condor_id, everywhere=everywhere) if condor_id else None
        except UnreachableError:
            raise
        except ServiceError:
            # Without HTCondor on this host, the reference cannot be one of its ids.
            return None

    def mirror_run(self, folder: Path) -> RunPaths | None:
        """Return the mirror of a submit directory of BPS's HTCondor plug-in."""
        from longshore.services.htcondor.bps.mirror import mirror_directory

        return mirror_directory(folder)

    def query_runs(self, search: RunSearch) -> RemoteRuns:
        """Return reports of runs from the queues and the histories of schedds."""
        from longshore.services.htcondor.schedd import query

        return query.query_runs(search)

    def cancel_remote(self, search: RunSearch) -> CancelOutcome:
        """Remove the DAGMan job of any run; DAGMan removes its jobs."""
        from longshore.services.htcondor.schedd import query

        return query.cancel_run(search)

    def releases_holds(self, run: RunPaths) -> bool:
        """Return whether a job is held other than by hand: its submit description decides on its release."""
        return any(hold.code not in BY_HAND for hold in self._event_source(run).job_phases().holds.values())

    def log_locator(self, run: RunPaths) -> LogLocator | None:
        """Return a locator of logs; their names contain HTCondor's cluster numbers."""
        from longshore.services.htcondor.bps.mirror import BpsLogLocator
        from longshore.services.htcondor.log_lookup import CondorLogLocator

        last = read_submissions(run).last_submission
        is_of_bps = last is not None and bool(last.dag)
        return (BpsLogLocator if is_of_bps else CondorLogLocator)(run, self._job_phases(run))

    def _job_phases(self, run: RunPaths) -> JobPhases:
        """Phases of the jobs, reused from the last brief events if current (then without granted memory)."""
        reading = self._event_source(run)
        standing = None
        if self._last_brief is not None and self._last_brief[:2] == (str(run.root), reading.complete_mark()):
            standing = self._last_brief[2].brief_phases()
        return standing or reading.job_phases()

    def status_lines(self, run: RunPaths) -> tuple[str, ...]:
        """Return the state of DAGMan's job, and the age of that information."""
        from longshore.services.htcondor import status_lines

        record = read_submissions(run)
        last = record.last_submission
        if last is None:
            return ()
        number = len(record.submissions)
        found = None
        end = read_dagman_end(dagman_log(run, record, number), last.cluster)
        if end is None:
            found = self._query_jobs(run, _dagman(run, last), status_lines.DAGMAN_ATTRIBUTES)
        return tuple(status_lines.lines(run, record, found, end, partial(self._job_phases, run)))

    def _query_jobs(self, run: RunPaths, constraint: str, attributes: Sequence[str]) -> list[Ad] | Unreachable:
        """Query the queue; a schedd that just failed to answer is not asked again for some seconds."""
        at, silent = self._silent_since.get(str(run.root)) or (0.0, None)
        if silent is not None and time.monotonic() - at < _SILENT_S:
            return silent
        found = client_of(run).query_jobs(constraint, attributes)
        if isinstance(found, Unreachable):
            self._silent_since[str(run.root)] = time.monotonic(), found
        return found

    def _event_source(self, run: RunPaths) -> LogEventSource:
        from longshore.services.htcondor.events.event_source import LogEventSource

        record = read_submissions(run)
        return LogEventSource(
            run,
            record,
            lambda: self.is_alive(run) is False,
            lambda: self._find_end_in_history(run, record.last_submission),
        )

    def _find_end_in_history(self, run: RunPaths, last: DagSubmission | None) -> DagmanEnd | Unreachable | None:
        """How the newest DAGMan ended, from its schedd's history."""
        return self._history.find_end(client_of(run), _dagman(run, last), last) if last is not None else None

    # ---------------------------------------------------------------------------------------------------- interventions

    def cancel(self, run: RunPaths, selection: JobSelection) -> CancelOutcome:
        """Remove the run, or some of its jobs, from the queue, and wait until they are gone."""
        from longshore.services.htcondor.control import interventions

        record = self._resolved_record(run)
        if record.last_submission is None or self._is_in_queue(run, fresh=True) is False:
            return CancelOutcome(ended=0)
        if selection.everything:
            # The cached answer that it is in the queue no longer holds.
            self._seen_at.pop((str(run.root), record.last_submission.cluster), None)
            outcome = interventions.cancel_run(
                run, client_of(run), record, selection, _dagman(run, record.last_submission)
            )
            # Cache the end of the run while the schedd confirms it; later it may not answer.
            with suppress(LongshoreError, OSError):
                self._event_source(run).job_phases()
            return outcome
        return interventions.cancel_jobs(run, client_of(run), record.last_submission, selection)

    def steer(self, run: RunPaths, intervention: Intervention) -> bool:
        """Hold, release, pause or throttle; refuse what HTCondor cannot do."""
        from longshore.services.htcondor.control import interventions

        record = read_submissions(run)
        if record.last_submission is None or self._is_in_queue(run, fresh=True) is False:
            events = list(self._event_source(run).events()[0])
            state = events[-1].state if events and isinstance(events[-1], Finished) else JobState.UNKNOWN
            raise SubmissionRefusedError(
                f"there is nothing to {intervention.act}: '{run.root}' is {state}", hint="'restart' runs it again."
            )
        return interventions.intervene(run, client_of(run), record, intervention)

    def unreached_notes(self, run: RunPaths, intervention: Intervention) -> tuple[str, ...]:
        """Return a note with the number of jobs that a hold missed, because DAGMan has yet to submit them."""
        from longshore.services.htcondor.control import interventions

        return interventions.unreached_notes(run, intervention)

    # ------------------------------------------------------------------------------------------------------------- ping

    def ping(self, ctx: Context) -> PingReport:
        """Return the answers of the collector and the schedd."""
        where = _where(ctx)
        pattern = str(run_value(ctx, "executeMachinesPattern") or "")
        return client.ping(CondorClient(schedd=where.schedd, pool=where.pool), pattern=pattern)

    def query_load(self, ctx: Context) -> Mapping[str, float]:
        """Return the processors of the pool."""
        where = _where(ctx)
        return client.query_load(CondorClient(schedd=where.schedd, pool=where.pool))


def _where(ctx: Context) -> ScheddAddress:
    own: object = ctx.site.settings.get("htcondor") or {}
    if not isinstance(own, Mapping):
        return ScheddAddress()
    return ScheddAddress(schedd=str(own.get("schedd") or ""), pool=str(own.get("pool") or ""))


def _dagman(run: RunPaths, submission: DagSubmission) -> str:
    """Constraint for the DAGMan job of a run; the run token excludes an equal number in another queue."""
    if not submission.dag:
        return f"ClusterId == {submission.cluster} && LongshoreRun =?= {quoted(read_card(run).run_token)}"
    own = f"GlobalJobId =?= {quoted(submission.global_id)}" if submission.global_id else "JobUniverse == 7"
    return f"ClusterId == {submission.cluster} && {own}"


def _below(cluster: int) -> str:
    """Constraint for the jobs of a DAGMan."""
    return f"DAGManJobId =?= {cluster}"
