"""Monitoring of submitted batches through the jobs' own records and the queue; finds attempts that are over."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from longshore.contract.executor import AttemptId, MemberEvent, WaitReasons
from longshore.model.event import Ended, Lost, Started
from longshore.rundir.batch_records import EndRecord
from longshore.services.batch.client import PollSchedule
from longshore.services.batch.dialect import Dialect
from longshore.services.batch.jobs import QueuePhase, QueueRow, TaskId, find_row
from longshore.services.batch.records import BatchRecord, BatchRecords
from longshore.system.sharing import seconds_since_boot

LOG: Final = logging.getLogger("longshore.batch")

_APPEARANCE_S: Final = 3.0
"""Seconds after a batch's submission in which a query may not include it yet."""
_LIMIT_MARGIN_S: Final = 10.0
"""Seconds before its time limit from which a job may have been told to end."""
NO_REASON: Final = "no reason yet"
"""Wait reason of jobs that the scheduler has not considered yet."""
_STALE_S: Final = 30.0
"""Age that an answer of the queue may have: some workload managers answer from a copy of their state."""
GRACE_S: Final = 60.0
"""Seconds to search for an attempt that is gone from the queue without any other trace."""


class LiveAttempt:
    """State of one attempt that is not over."""

    __slots__ = (
        "attempt", "batch", "began_seen_at", "end_seen_at", "hopeless_reason", "hopeless_since", "is_back",
        "is_cancelled", "is_cancelled_back", "is_expired", "is_requeued", "is_singled_out", "missing_answers",
        "missing_since", "node", "phase", "position", "record", "record_seen_at", "row", "started", "started_at",
        "submitted_at", "task",
    )  # fmt: skip

    def __init__(self, attempt: AttemptId, batch_record: BatchRecord, position: int, submitted_at: float) -> None:
        self.attempt = attempt
        self.batch = batch_record
        self.position = position
        self.is_expired = position in batch_record.expired
        """Whether it was cancelled because it waited too long."""
        self.hopeless_reason = dict(batch_record.hopeless).get(position, "")
        """Why it was cancelled as one that can never start; empty if it was not."""
        self.hopeless_since: float | None = None
        """Since when the scheduler says that it can never start, in seconds since boot."""
        self.is_cancelled = False
        """Whether its cancellation was requested here."""
        self.began_seen_at: float | None = None
        """When its wrapper was first seen to have begun, in seconds since boot."""
        self.is_back = False
        """Whether its job is back in the queue by the newest row, after it had begun."""
        self.is_requeued = position in batch_record.requeued
        """Whether it is to end as one that was requeued."""
        self.is_cancelled_back = False
        """Whether what is back in the queue was cancelled here."""
        self.task: TaskId | None = batch_record.task(position)
        self.submitted_at = submitted_at
        self.started = False
        self.record: EndRecord | None = None
        self.record_seen_at = 0.0
        """When its record was first seen, in seconds since boot."""
        self.row: QueueRow | None = None
        """The newest row of the queue."""
        self.phase: QueuePhase | None = None
        """Its phase by that row."""
        self.node = ""
        """Where it runs, by the newest row before it went back into the queue."""
        self.started_at: float | None = None
        """When it started there, by the clock of the queue's rows."""
        self.missing_answers = 0
        """Number of consecutive answers without it."""
        self.missing_since = 0.0
        self.is_singled_out = False
        """Whether the newest answer lacks it, and has others of its job."""
        self.end_seen_at = 0.0
        """When its end was first seen, while the scheduler's state is awaited."""

    def update_hope(self, asked_at: float, *, is_hopeless: bool) -> None:
        """Take the newest reason of a wait, asked for at a moment (seconds since boot)."""
        if is_hopeless:
            self.hopeless_since = asked_at if self.hopeless_since is None else self.hopeless_since
        elif self.row is not None and self.row.reason:
            # Between two looks of the scheduler, a job has no reason.
            self.hopeless_since = None

    def take_row(self, row: QueueRow, phase: QueuePhase, asked_at: float, *, is_suspended: bool) -> None:
        """Take the newest row of the queue, asked for at a moment (seconds since boot)."""
        self.missing_answers, self.missing_since, self.row, self.phase = 0, 0.0, row, phase
        if row.node and phase in (QueuePhase.RUNNING, QueuePhase.OVER) and not (self.is_back or self.is_requeued):
            self.node, self.started_at = row.node, row.started_at
        # A job whose record exists has ended, and cannot wait for its start, but the answer may have been asked for
        # before. Of a job that has begun, an answer may be older than its start.
        has_left = (self.record is not None and asked_at >= self.record_seen_at) or (
            self.began_seen_at is not None and asked_at - self.began_seen_at >= _STALE_S
        )
        self.is_back = has_left and phase is QueuePhase.WAITING and not is_suspended

    @property
    def has_end_record(self) -> bool:
        """Whether it recorded its end; a refused second start records no end."""
        return self.record is not None and not self.record.refused

    @property
    def has_own_end(self) -> bool:
        """Whether its own record says that it ended by itself."""
        return self.record is not None and self.record.is_own_end

    @property
    def is_over_in_queue(self) -> bool:
        """Whether the queue reports it as over."""
        return self.phase is QueuePhase.OVER

    @property
    def is_waiting(self) -> bool:
        """Whether it has not started, by present knowledge."""
        if self.started or self.record is not None:
            return False
        return self.phase in (None, QueuePhase.WAITING)

    @property
    def has_success_record(self) -> bool:
        """Whether its own record reports success."""
        return self.record is not None and self.record.status == 0 and self.has_end_record

    @property
    def is_sure_success(self) -> bool:
        """Whether its own record alone tells that it succeeded.

        A job may end well because it was told that its time is over: only the workload manager knows.
        """
        record, limit = self.record, self.batch.walltime_s
        if record is None or not self.has_success_record:
            return False
        return limit is None or record.run < limit - min(_LIMIT_MARGIN_S, limit / 2)


class EndedAttempts(msgspec.Struct, frozen=True):
    """Attempts that are over.

    `complete` are those with complete information. `to_query` are those whose end the workload manager must be queried
    for.
    """

    complete: list[LiveAttempt]
    to_query: list[LiveAttempt]


class BatchMonitor:
    """The attempts that are not over, found in batch records (`records`); `schedule` schedules the queue's queries."""

    def __init__(self, dialect: Dialect, records: BatchRecords, schedule: PollSchedule) -> None:
        self._dialect = dialect
        self._records = records
        self._schedule = schedule
        self.members: dict[AttemptId, LiveAttempt] = {}
        self._without_record: dict[str, dict[AttemptId, LiveAttempt]] = {}
        """Attempts per batch without a record so far."""
        self._ending: dict[AttemptId, LiveAttempt] = {}
        """Attempts that seem over, so that ten thousand waiting ones need no check."""
        self.over: dict[AttemptId, BatchRecord] = {}
        """Attempts that ended, and are not yet settled by the engine."""
        self.waiting: WaitReasons | None = None
        """Wait reasons by the newest answer; ``None`` once they were taken."""

    def add_batch(self, batch_record: BatchRecord, submitted_at: float) -> None:
        """Watch the members of a batch with an id, from a moment (seconds since boot) on.

        An attempt may be in an older batch as well: a run without an engine leaves batches whose jobs never began.
        """
        for position, attempt in enumerate(batch_record.members):
            before = self.members.get(attempt)
            if before is not None:
                if before.batch.tag == batch_record.tag or before.batch.at >= batch_record.at:
                    continue
                self._ending.pop(attempt, None)
                self._stop_reading_record(before)
            self.members[attempt] = member = LiveAttempt(attempt, batch_record, position, submitted_at)
            self._without_record.setdefault(batch_record.tag, {})[attempt] = member

    @property
    def awaited_records(self) -> int:
        """Number of attempts without a record so far."""
        return sum(map(len, self._without_record.values()))

    def read_end_records(self) -> Iterator[MemberEvent]:
        """Read the jobs' own records."""
        for tag, wanted in list(self._without_record.items()):
            records, running = self._records.files(tag).read_ends(wanted)
            for attempt in sorted(running | records.keys()):
                member = wanted[attempt]
                record = records.get(attempt)
                member.began_seen_at = member.began_seen_at or seconds_since_boot()
                if not member.started and (record is None or not record.refused):
                    member.started = True
                    yield Started(
                        j=attempt[0],
                        a=attempt[1],
                        host=record.host if record else None,
                        at=record.start if record else None,
                    )
                if record is not None:
                    member.record = record
                    member.record_seen_at = member.record_seen_at or seconds_since_boot()
                    self._ending[attempt] = member
                    # A first copy that lives elsewhere may replace the record of a refused second start.
                    if not record.refused:
                        self._stop_reading_record(member)

    def _stop_reading_record(self, member: LiveAttempt) -> None:
        """Stop looking for the record of a member."""
        without_record = self._without_record.get(member.batch.tag, {})
        without_record.pop(member.attempt, None)
        if not without_record:
            self._without_record.pop(member.batch.tag, None)

    def read_queue(self, rows: Iterable[QueueRow], asked_at: float) -> Iterator[MemberEvent]:
        """Process an answer of the queue, asked for at a moment (seconds since boot)."""
        by_task = {row.id: row for row in rows}
        jobs = {task.job for task in by_task}
        states = self._dialect.states
        reasons: dict[str, list[int]] = {}
        requeued = set()
        for attempt, member in self.members.items():
            row = self._find_row(by_task, member)
            if row is None:
                if asked_at > member.submitted_at + _APPEARANCE_S:
                    member.missing_answers += 1
                    member.missing_since = member.missing_since or asked_at
                    member.is_singled_out = member.task is not None and member.task.job in jobs
                    if member.missing_answers >= 2:
                        member.is_back = False
                        self._ending[attempt] = member
                continue
            phase = states.phase(row.state)
            member.take_row(row, phase, asked_at, is_suspended=row.state in states.suspended)
            if phase is QueuePhase.OVER:
                self._ending[attempt] = member
            # A job that began may come back to the queue for a person to see to, as in Grid Engine's error state.
            if phase is QueuePhase.WAITING and (not member.started or row.reason in states.held_reasons):
                reasons.setdefault(row.reason or NO_REASON, []).append(attempt[0])
                if member.started:
                    requeued.add(attempt[0])
                member.update_hope(asked_at, is_hopeless=bool(states.mend(row.reason)))
            if phase is QueuePhase.UNKNOWN:
                LOG.warning("the state of job %s is unknown to Longshore: '%s'", row.id, row.state)
            if phase is QueuePhase.RUNNING and not member.started:
                member.started = True
                yield Started(j=attempt[0], a=attempt[1], host=row.node or None, at=row.started_at)
        self.waiting = WaitReasons(
            reasons={reason: tuple(sorted(jobs)) for reason, jobs in sorted(reasons.items())},
            held=states.held_reasons & reasons.keys(),
            hint=self._dialect.release_hint,
            hopeless={reason: mend for reason in sorted(reasons) if (mend := states.mend(reason))},
            requeued=frozenset(requeued),
        )

    def _find_row(self, rows: Mapping[TaskId, QueueRow], member: LiveAttempt) -> QueueRow | None:
        if member.task is None:
            return None
        has_started = member.started or member.record is not None
        return rows.get(member.task) if has_started else find_row(rows, member.task, self._dialect.states)

    def mark_cancelled(self, attempts: Iterable[AttemptId]) -> None:
        """Remember that these attempts are cancelled here."""
        for attempt in attempts:
            self.members[attempt].is_cancelled = True

    def tasks_of(self, attempts: Iterable[AttemptId]) -> list[TaskId]:
        """Return the ids of attempts: one id for a batch if all its members are included."""
        tasks: list[TaskId] = []
        by_tag: dict[str, list[LiveAttempt]] = {}
        for attempt in attempts:
            member = self.members[attempt]
            by_tag.setdefault(member.batch.tag, []).append(member)
        sizes = Counter(member.batch.tag for member in self.members.values()) if by_tag else {}
        for tag, members in by_tag.items():
            number = members[0].batch.id
            if number is not None and len(members) == sizes[tag]:
                tasks.append(TaskId(number))
            else:
                tasks += [member.task for member in members if member.task]
        return tasks

    def find_expired(self, now: float) -> list[LiveAttempt]:
        """Return the attempts that exceeded their longest wait at `now` (seconds since the epoch), each only once."""
        late = [
            member
            for member in self.members.values()
            if member.batch.max_wait_s is not None
            and not member.is_expired
            and now - member.batch.at > member.batch.max_wait_s
            and member.is_waiting
        ]
        for member in late:
            member.is_expired = True
        self._record_cancelled(late)
        return late

    def find_hopeless(self, now: float) -> list[LiveAttempt]:
        """Return attempts that could never start for too long at `now` (seconds since boot), each only once."""
        found = [
            member
            for member in self.members.values()
            if member.hopeless_since is not None
            and member.row is not None
            and member.row.reason
            and not member.hopeless_reason
            and not member.is_expired
            and member.batch.hopeless_after_s is not None
            and now - member.hopeless_since >= member.batch.hopeless_after_s
            and member.is_waiting
        ]
        for member in found:
            member.hopeless_reason = member.row.reason if member.row else ""
        self._record_cancelled(found)
        return found

    def find_requeued(self) -> list[LiveAttempt]:
        """Return attempts whose jobs are back in the queue after they had begun, and are to be cancelled there.

        An attempt runs once. What a person holds there stays until it is released, unless its job had ended by itself.
        """
        held = self._dialect.states.held_reasons
        found = [
            member
            for member in self.members.values()
            if member.is_back
            and not (member.is_cancelled_back or member.is_cancelled)
            and (member.has_own_end or member.row is None or member.row.reason not in held)
        ]
        for member in found:
            member.is_cancelled_back = member.is_requeued = True
        self._record_cancelled(found)
        return found

    def _record_cancelled(self, members: Iterable[LiveAttempt]) -> None:
        """Record why members are cancelled, so that another life does not take it for a user's cancellation."""
        by_tag: dict[str, list[LiveAttempt]] = {}
        for member in members:
            by_tag.setdefault(member.batch.tag, []).append(member)
        for tag, cancelled in by_tag.items():
            current = self._records.read(tag) or cancelled[0].batch
            late = {*current.expired, *(member.position for member in cancelled if member.is_expired)}
            hopeless = dict(current.hopeless)
            hopeless |= {member.position: member.hopeless_reason for member in cancelled if member.hopeless_reason}
            requeued = {*current.requeued, *(member.position for member in cancelled if member.is_requeued)}
            changed = msgspec.structs.replace(
                current,
                expired=tuple(sorted(late)),
                hopeless=tuple(sorted(hopeless.items())),
                requeued=tuple(sorted(requeued)),
            )
            try:
                self._records.write(changed)
            except OSError as error:
                LOG.warning("the cancelled members of batch '%s' cannot be recorded: %s", tag, error.strerror)

    def find_ended(self, now: float) -> EndedAttempts:
        """Return the attempts that are certainly over at a moment `now` (seconds since boot)."""
        complete: list[LiveAttempt] = []
        to_query: list[LiveAttempt] = []
        for member in self._ending.values():
            gone = member.is_over_in_queue or member.missing_answers >= 2
            if member.is_back:
                # What is in the queue would run it again, once its record is removed.
                continue
            if member.is_sure_success:
                complete.append(member)
            elif member.record is not None or gone:
                if not member.end_seen_at:
                    # Its end is queried again; earlier answers do not count.
                    member.end_seen_at = now
                    self._schedule.request_query(now)
                if gone or (now - member.end_seen_at > GRACE_S and not member.is_requeued):
                    to_query.append(member)
        return EndedAttempts(complete, to_query)

    def remove_ended(self, ends: Iterable[Ended | Lost]) -> Iterator[MemberEvent]:
        """Stop watching these attempts; return their ends, each after its start."""
        for end in ends:
            member = self.members.pop((end.j, end.a))
            self._ending.pop(member.attempt, None)
            self._stop_reading_record(member)
            self.over[member.attempt] = member.batch
            if not member.started and isinstance(end, Ended) and (end.exit is not None or end.signal is not None):
                # It was over before it was seen running.
                yield Started(j=end.j, a=end.a, host=end.host, at=end.start)
            yield end

    def discard_ends(self, attempts: Iterable[AttemptId], keeps: Callable[[str, AttemptId], bool]) -> None:
        """Remove the files of ends that the journal has; `keeps` says by batch and attempt which are still needed."""
        tags = set()
        for attempt in attempts:
            batch_record = self.over.pop(attempt, None)
            if batch_record is not None:
                if not keeps(batch_record.tag, attempt):
                    self._records.files(batch_record.tag).remove_end(attempt)
                tags.add(batch_record.tag)
        if tags:
            # Indexed by batch, so that an end among ten thousand attempts does not search all of them.
            left = tags & {batch_record.tag for batch_record in self.over.values()}
            for member in self.members.values():
                if tags <= left:
                    break
                if member.batch.tag in tags:
                    left.add(member.batch.tag)
            for tag in tags - left:
                self._records.remove(tag)
