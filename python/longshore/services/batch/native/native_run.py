"""Native run: submits the whole graph with job dependencies, and collects the outcome afterwards.

No engine runs meanwhile: readers query the workload manager and the jobs' own records. A last job, the collector,
writes the journal. The reason is in decision 0031.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

import msgspec

from longshore import __version__
from longshore.contract.executor import Batch
from longshore.contract.service import RunPaths, Unreachable
from longshore.engine.job_wrapper import output_rule
from longshore.engine.policy.success_rules import judge_outputs
from longshore.engine.run.members import MemberBuilder
from longshore.engine.staging import StagedEnds
from longshore.errors import ConfigError, SubmissionRefusedError, UnreachableError
from longshore.model.event import FORMAT, Ended, Event, Finished, Life
from longshore.model.states import JobState
from longshore.model.values import YamlValue
from longshore.rundir.job_table import JobTable, read_header
from longshore.rundir.journal import Journal, lives, next_life, read_events
from longshore.rundir.run_directory import read_card
from longshore.rundir.submissions import newest_submission
from longshore.runstate.replay import replay
from longshore.services.batch.client import BatchClient
from longshore.services.batch.dialect import DependencyDialect
from longshore.services.batch.engine_job import TEMPLATE as ENGINE_TEMPLATE
from longshore.services.batch.engine_job import engine_script
from longshore.services.batch.jobs import ClusterFacts, QueuePhase, TaskId
from longshore.services.batch.native.observe import (
    Cancellation,
    NativeObserver,
    NativeRecord,
    ObservedJob,
    derive_events,
    group_arrays,
)
from longshore.services.batch.records import BatchRecord, BatchRecords, read_batch_template
from longshore.services.batch.script_writer import ScriptWriter
from longshore.system.atomic import write_atomically
from longshore.system.folder import move, remove_file
from longshore.system.host import boot_id, host_name, user_name
from longshore.system.reading import read_file, read_record

_RECORD_PATH: Final = PurePosixPath("wms", "native.json")
_COLLECTED_PATH: Final = PurePosixPath("wms", "native-collected.json")
_CANCELLED_PATH: Final = PurePosixPath("wms", "native-cancelled.json")
_MAX_ARRAY: Final = 1000
_SETTLE_S: Final = 60.0
"""Longest time for which the collector waits until all ends are known."""
_SETTLE_PAUSE_S: Final = 2.0


class NativeRun:
    """A run without an engine, whose dependencies the workload manager keeps.

    `dialect` is that of `client`; `settings` are the executor's.
    """

    def __init__(
        self, run: RunPaths, client: BatchClient, dialect: DependencyDialect, settings: Mapping[str, object]
    ) -> None:
        self._run = run
        self._client = client
        self.dialect = dialect
        self._title = dialect.title
        self._states = client.dialect.states
        self._settings = settings
        self._records = BatchRecords(run)

    @property
    def is_open(self) -> bool:
        """Whether the journal lacks the run's end."""
        return (self._run.root / _RECORD_PATH).exists()

    # ------------------------------------------------------------------------------------------------------ submit

    def submit(self, command: Sequence[str]) -> str:
        """Submit all jobs; return a line that reports it.

        `command` collects the outcome into the journal when all jobs are over; ``--by`` is added. Raises
        `SubmissionRefusedError` when any part is refused; all jobs are then removed.
        """
        answer = self._client.query_facts()
        if isinstance(answer, Unreachable):
            raise SubmissionRefusedError(f"{self._title} does not answer: {answer.why}")
        jobs = JobTable(self._run, "parents")
        submitted: list[int] = []
        try:
            roots = self._submit_batches(jobs, answer, submitted)
            collector = self._submit_collector(submitted, command)
            submitted.append(collector)
            self._write_record(
                NativeRecord(at=time.time(), accounting=answer.accounting, collector=collector, roots=tuple(roots))
            )
            Journal(self._run.journal, self._life_event(1, "submit")).close()
            self._release(roots)
        except BaseException:
            self._client.cancel([TaskId(number) for number in submitted])
            raise
        return (
            f"{len(jobs)} jobs are in {len(submitted) - 1} arrays or jobs of {self._title}; job {collector} comes last"
        )

    def recover(self) -> str | None:
        """Continue an interrupted submission and report it; ``None`` when the run is as if never submitted.

        No job can have run before the roots were released, which is the last step. Until everything else is recorded,
        the queued jobs are removed. Raises `UnreachableError` without an answer.
        """
        if (self._run.root / _COLLECTED_PATH).exists():
            return f"{self._title} has run it to its end"
        try:
            batch_record = self._read_record()
        except FileNotFoundError:
            run_token = read_card(self._run).run_token
            # The collector runs after the end of all others, however they end: it is removed first.
            names = [
                _collector_name(run_token),
                *(batch_record.name for batch_record in reversed(self._records.require_all())),
            ]
            failed = next((answer for answer in map(self._client.cancel_named, names) if not answer.ok), None)
            if failed is not None:
                raise UnreachableError(f"jobs of '{self._run.root}' stay in the queue: {failed.why}") from None
            return None
        if not lives(self._run.journal):
            Journal(self._run.journal, self._life_event(1, "submit", at=batch_record.at)).close()
        self._release([root for root in batch_record.roots if self._is_held(root)])
        return f"all of it is in {self._title}'s queue; job {batch_record.collector} comes last"

    def _is_held(self, job: int) -> bool:
        shown = self._client.show_job(TaskId(job))
        if isinstance(shown, Unreachable):
            raise UnreachableError(f"the state of job {job} is unknown: {shown.why}")
        return shown is not None and self.dialect.is_held(shown)

    def _release(self, roots: Sequence[int]) -> None:
        failed = self._client.run_all(self.dialect.release_calls(roots))
        if failed is not None:
            raise SubmissionRefusedError(f"{self._title} does not release the first jobs: {failed.why}")

    def _submit_batches(self, jobs: JobTable, facts: ClusterFacts, submitted: list[int]) -> list[int]:
        """Submit all batches; return the ids of the roots, which are held."""
        scripts = ScriptWriter(self.dialect, self._run, self._settings, read_batch_template(self._run), facts)
        run_token = read_card(self._run).run_token
        builder = MemberBuilder(jobs)
        records: dict[int, tuple[BatchRecord, int]] = {}
        rules: dict[int, str] = {}
        """Rule for the outputs of each submitted job."""
        roots = []
        max_array = min(_MAX_ARRAY, facts.max_array or _MAX_ARRAY)
        for number, members in enumerate(_groups(jobs, lambda own: scripts.max_batch(own, max_array) == 1, max_array)):
            settings = jobs.settings(members[0])
            batch = Batch(
                id=str(number),
                tag=f"{run_token}-n{number}",
                request=settings.request,
                members=tuple(builder.build(job, 1, settings.request) for job in members),
                attributes=settings.attributes,
                settings=settings.service_settings,
            )
            is_final = jobs.header.final and members[0] == len(jobs) - 1
            if is_final:
                after = self.dialect.after_end_options(submitted) if submitted else ()
            else:
                parents = [jobs.parents[job] for job in members]
                after = self.dialect.after_success_options(parents, records)
                if after and self.dialect.starts_after_any_end:
                    self._records.files(batch.tag).write_parents(_parent_records(parents, records, rules))
            rules |= {
                member.job: output_rule(member.outputs, is_fresh=member.fresh_outputs) for member in batch.members
            }
            batch_record = self._submit_batch(scripts, batch, after or self.dialect.hold_options())
            assert batch_record.id is not None
            submitted.append(batch_record.id)
            if not after:
                roots.append(batch_record.id)
            records |= {job: (batch_record, position) for position, job in enumerate(members)}
        return roots

    def _submit_batch(self, scripts: ScriptWriter, batch: Batch, options: Sequence[str]) -> BatchRecord:
        try:
            script = scripts.text(batch)
        except ConfigError as error:
            raise SubmissionRefusedError(error.message, hint=error.hint) from error
        batch_record = BatchRecord(
            tag=batch.tag,
            name=scripts.name(batch.tag),
            members=tuple((member.job, member.attempt) for member in batch.members),
            at=time.time(),
            memory_b=batch.request.memory_b,
        )
        self._records.write(batch_record, batch.members)
        number = self._submit_script(script, options, f"job '{batch.members[0].name}'", batch_record.name)
        batch_record = msgspec.structs.replace(batch_record, id=number)
        self._records.write(batch_record)
        return batch_record

    def _submit_script(self, script: str, options: Sequence[str], what: str, name: str) -> int:
        try:
            return self._client.submit_with_id(script, *options, what=what)
        except SubmissionRefusedError:
            # Whether it was accepted or not, none of it may be left.
            self._client.cancel_named(name)
            raise

    def _submit_collector(self, submitted: Sequence[int], command: Sequence[str]) -> int:
        """Submit the collector: the job that writes the journal when all others are over."""
        run_token = f"{read_card(self._run).run_token}-collect"
        template = (self._run.root / ENGINE_TEMPLATE).read_text("utf-8")
        try:
            script = engine_script(
                self.dialect, self._run, self._settings, template, run_token=run_token, by="resume", command=command
            )
        except ConfigError as error:
            raise SubmissionRefusedError(error.message, hint=error.hint) from error
        after = self.dialect.after_end_options(submitted) if submitted else ()
        return self._submit_script(
            script, after, "the job that comes last", _collector_name(read_card(self._run).run_token)
        )

    # -------------------------------------------------------------------------------------------------------- read

    def events(self) -> list[Event] | Unreachable:
        """Return all events known so far, the run's end included once it is final."""
        batch_record = self._read_record()
        jobs = JobTable(self._run, "parents")
        seen = NativeObserver(self._run, self._client, batch_record).observe_jobs(
            [jobs.settings(job).request for job in range(len(jobs))]
        )
        if isinstance(seen, Unreachable):
            return seen
        staged = StagedEnds(self._run, jobs)
        seen = {job: _with_verdict(job, observed, jobs, staged) for job, observed in seen.items()}
        final = -1 if jobs.final is None else jobs.final
        life = self._life_event(1, "submit", at=batch_record.at)
        events: list[Event] = [life, *derive_events(jobs.parents, final, seen, self._cancellation())]
        state = replay(jobs, events)
        if state.is_over:
            last = max((event.t for event in events), default=batch_record.at)
            events.append(Finished(state=state.compute_state(), t=last))
        return [
            event if isinstance(event, Life) else msgspec.structs.replace(event, n=number)
            for number, event in enumerate(events)
        ]

    def phase(self) -> QueuePhase:
        """Return the phase of the run's jobs in the queue; ``UNKNOWN`` without an answer."""
        rows = NativeObserver(self._run, self._client, self._read_record()).queue()
        if isinstance(rows, Unreachable) or self._records.damaged():
            return QueuePhase.UNKNOWN
        ids = {batch_record.id for batch_record in self._records.all()} | {self._read_record().collector}
        rows_of_run = (row for row in rows.values() if row.id.job in ids)
        return (
            QueuePhase.RUNNING
            if any(self._states.phase(row.state) is not QueuePhase.OVER for row in rows_of_run)
            else QueuePhase.OVER
        )

    # --------------------------------------------------------------------------------------------------------- end

    def collect(self) -> Finished | None:
        """Write the run's outcome into its journal, once; ``None`` while jobs may still change.

        Raises `SubmissionRefusedError` without an answer.
        """
        events = self.events()
        if isinstance(events, Unreachable):
            raise SubmissionRefusedError(f"the outcome of '{self._run.root}' is unknown: {events.why}")
        last = events[-1]
        if not isinstance(last, Finished):
            return None
        # An earlier collector that died may have written a part.
        missing = find_missing_events(events[1:], read_events(self._run.journal))
        number, seal = next_life(self._run.journal)
        journal = Journal(self._run.journal, self._life_event(number, "resume"))
        try:
            journal.seal(seal, now=time.time())
            for event in missing:
                journal.append(event, now=event.t)
            journal.commit()
            journal.seal_end(last)
        finally:
            journal.close()
        self._clean_up(events)
        move(self._run.root / _RECORD_PATH, self._run.root / _COLLECTED_PATH, below=self._run.root)
        return last

    def _clean_up(self, events: Iterable[Event]) -> None:
        """Remove what attempts that were killed left beside the targets of their outputs; the run is over."""
        jobs = JobTable(self._run)
        if any(settings.rules.staging is not None for settings in jobs.header.settings):
            succeeded = {event.j for event in events if isinstance(event, Ended) and event.cause is None}
            StagedEnds(self._run, jobs).clean_up(job for job in range(len(jobs)) if job not in succeeded)

    def collect_last(self) -> JobState:
        """Collect as the job that comes last, and return the state of the run.

        All jobs are over, but the end of one that left no record is known once accounting has it.
        """
        deadline = time.monotonic() + _SETTLE_S
        while (last := self.collect()) is None and time.monotonic() < deadline:
            time.sleep(_SETTLE_PAUSE_S)
        return last.state if last else JobState.RUNNING

    def cancel(self, *, final_too: bool) -> int:
        """Cancel all remaining jobs; return their number.

        Raises `SubmissionRefusedError` when the command is not accepted.
        """
        records = self._records.require_all()
        rows = NativeObserver(self._run, self._client, self._read_record()).queue()
        left = 0
        if not isinstance(rows, Unreachable):
            ids = {batch_record.id for batch_record in records}
            left = sum(
                row.id.job in ids and self._states.phase(row.state) is not QueuePhase.OVER for row in rows.values()
            )
        final = self._final_tag()
        cancellation = Cancellation(who=user_name(), at=time.time(), final_too=final_too or final is None)
        path = self._run.root / _CANCELLED_PATH
        write_atomically(path, msgspec.json.encode(cancellation), below=self._run.root, durable=True)
        keep = None if final_too else final
        failed = self._client.cancel(
            [
                TaskId(batch_record.id)
                for batch_record in records
                if batch_record.id is not None and batch_record.tag != keep
            ]
        )
        if failed is not None:
            remove_file(path, below=self._run.root)
            raise SubmissionRefusedError(f"{self._title} does not cancel the jobs: {failed.why}")
        return left

    def _final_tag(self) -> str | None:
        header = read_header(self._run)
        if not header.final:
            return None
        return next(
            (batch_record.tag for batch_record in self._records.all() if batch_record.members[0][0] == header.jobs - 1),
            None,
        )

    def _cancellation(self) -> Cancellation | None:
        return read_record(self._run.root / _CANCELLED_PATH, Cancellation)

    def _read_record(self) -> NativeRecord:
        return msgspec.json.decode(read_file(self._run.root / _RECORD_PATH), type=NativeRecord)

    def _write_record(self, batch_record: NativeRecord) -> None:
        path = self._run.root / _RECORD_PATH
        write_atomically(path, msgspec.json.encode(batch_record), below=self._run.root, durable=True)

    def _life_event(self, number: int, by: str, *, at: float | None = None) -> Life:
        submission, digest = newest_submission(self._run)
        return Life(
            v=FORMAT,
            life=number,
            t=time.time() if at is None else at,
            host=host_name(),
            pid=os.getpid(),
            boot=boot_id(),
            by=by,
            longshore=__version__,
            s=submission,
            manifest=digest,
        )


def _with_verdict(job: int, observed: ObservedJob, jobs: JobTable, staged: StagedEnds) -> ObservedJob:
    """Return an observed job whose end has the verdict on its transfers, and on outputs that the wrapper checked."""
    end = observed.end
    if not isinstance(end, Ended):
        return observed
    if jobs.settings(job).rules.staging is not None:
        end = staged.complete(end)
    if end.outputs is None:
        return msgspec.structs.replace(observed, end=end)
    paths = jobs.checked_outputs(job, jobs[job]) if end.cause is None and end.outputs else ()
    end = judge_outputs(end, jobs.settings(job).rules.check_outputs, paths)
    return msgspec.structs.replace(observed, end=end)


def _parent_records(
    parents: Sequence[Sequence[int]], records: Mapping[int, tuple[BatchRecord, int]], rules: Mapping[int, str]
) -> Iterator[tuple[int | None, str, str]]:
    """Return the records of success that a batch's members need, for `BatchFiles.write_parents`."""
    are_shared = all(set(each) == set(parents[0]) for each in parents)
    for position, parents_of_member in enumerate(parents[:1] if are_shared else parents):
        for parent in parents_of_member:
            batch_record, place = records[parent]
            job, attempt = batch_record.members[place]
            yield None if are_shared else position, rules[parent], f"{batch_record.tag}/{job}.{attempt}"


def _collector_name(run_token: str) -> str:
    return f"{run_token}-collect-engine"


def _groups(
    jobs: JobTable, is_single: Callable[[Mapping[str, YamlValue]], bool], max_array: int
) -> Iterator[list[int]]:
    """Group jobs into arrays, in the order of submission."""
    last = len(jobs) - 1 if jobs.header.final else -1
    keys = [(jobs.profile_of[job], tuple(sorted(parents))) for job, parents in enumerate(jobs.parents)]
    only = [job != last and not is_single(jobs.settings(job).service_settings) for job in range(len(jobs))]
    yield from group_arrays(keys, only, max_array)


def find_missing_events(events: Iterable[Event], recorded: Iterable[Event]) -> list[Event]:
    """Return the events that a new life must record: those without a record, and the end of the run.

    A run is over only if its newest life says so: an earlier collector may have died behind the end that it recorded.
    """
    known = {_event_key(event) for event in recorded}
    return [event for event in events if isinstance(event, Finished) or _event_key(event) not in known]


def _event_key(event: Event) -> tuple[object, ...]:
    """Key that identifies an event within a native run."""
    return (type(event).__name__, getattr(event, "j", None), getattr(event, "b", None))
