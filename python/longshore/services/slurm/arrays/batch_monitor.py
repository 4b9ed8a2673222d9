"""Monitoring of submitted batches through the jobs' own records and the queue; finds attempts that are over."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from longshore.contract.batch import MemberEvent, WaitReasons
from longshore.engine.job_wrapper import EndRecord
from longshore.model.run.event import Ended, Lost, Started
from longshore.services.slurm.batch_records import AttemptId, BatchRecord, BatchRecords
from longshore.services.slurm.commands.parse import QueueRow, TaskId, queue_rows
from longshore.services.slurm.commands.poll_interval import PollSchedule
from longshore.services.slurm.commands.states import HELD_REASONS, QueuePhase, queue_phase
from longshore.world.processes.query_cache import CachedAnswer

LOG: Final = logging.getLogger("longshore.slurm")

_SETTLE_S: Final = 3.0
"""Seconds after a batch's submission in which a query may not include it yet."""
NO_REASON: Final = "no reason yet"
"""Wait reason of jobs that the scheduler has not considered yet."""
GRACE_S: Final = 60.0
"""Seconds to search for an attempt that is gone from the queue without any other trace."""


class LiveAttempt:
    """State of one attempt that is not over."""

    __slots__ = (
        "attempt", "book", "expired", "gone", "gone_at", "handed_at", "position", "record", "row", "started", "task",
        "wanted_at",
    )  # fmt: skip

    def __init__(self, attempt: AttemptId, book: BatchRecord, position: int, handed_at: float) -> None:
        self.attempt = attempt
        self.book = book
        self.position = position
        self.expired = position in book.expired
        """Whether it was cancelled because it waited too long."""
        self.task: TaskId | None = book.task(position)
        self.handed_at = handed_at
        self.started = False
        self.record: EndRecord | None = None
        self.row: QueueRow | None = None
        """The newest row of the queue."""
        self.gone = 0
        """Number of consecutive answers without it."""
        self.gone_at = 0.0
        self.wanted_at = 0.0
        """When its end was first seen, while the scheduler's state is awaited."""

    @property
    def said_over(self) -> bool:
        """Whether the queue reports it as over."""
        return self.row is not None and queue_phase(self.row.state) is QueuePhase.OVER

    @property
    def waits(self) -> bool:
        """Whether it has not started, by present knowledge."""
        if self.started or self.record is not None:
            return False
        return self.row is None or queue_phase(self.row.state) is QueuePhase.WAITING

    @property
    def succeeded(self) -> bool:
        """Whether its own record reports success."""
        return self.record is not None and self.record.status == 0 and not self.record.refused


class Over(msgspec.Struct, frozen=True):
    """Attempts that are over.

    `told` are those with complete information. `asked` are those whose end Slurm must be queried for.
    """

    told: list[LiveAttempt]
    asked: list[LiveAttempt]


class BatchMonitor:
    """The attempts that are not over, found in batch records (`records`); `schedule` schedules the queue's queries."""

    def __init__(self, records: BatchRecords, schedule: PollSchedule) -> None:
        self._records = records
        self._schedule = schedule
        self.members: dict[AttemptId, LiveAttempt] = {}
        self._silent: dict[str, dict[AttemptId, LiveAttempt]] = {}
        """Attempts per batch without a record so far."""
        self._ending: dict[AttemptId, LiveAttempt] = {}
        """Attempts that seem over, so that ten thousand waiting ones need no check."""
        self.over: dict[AttemptId, BatchRecord] = {}
        """Attempts that ended, and are not yet settled by the engine."""
        self.waiting: WaitReasons | None = None
        """Wait reasons by the newest answer; ``None`` once they were taken."""

    def follow(self, book: BatchRecord, handed_at: float) -> None:
        """Watch the members of a batch with an id, from a moment (seconds since boot) on."""
        for position, attempt in enumerate(book.members):
            if attempt not in self.members:
                self.members[attempt] = member = LiveAttempt(attempt, book, position, handed_at)
                self._silent.setdefault(book.tag, {})[attempt] = member

    def from_records(self) -> Iterator[MemberEvent]:
        """Read the jobs' own records."""
        for tag, wanted in list(self._silent.items()):
            records, begun = self._records.files(tag).read_ends(wanted)
            for attempt in sorted(begun | records.keys()):
                member = wanted[attempt]
                record = records.get(attempt)
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
                    self._ending[attempt] = member
                    self._speaks(member)

    def _speaks(self, member: LiveAttempt) -> None:
        """Stop looking for the record of a member."""
        silent = self._silent.get(member.book.tag, {})
        silent.pop(member.attempt, None)
        if not silent:
            self._silent.pop(member.book.tag, None)

    def from_queue(self, told: CachedAnswer) -> Iterator[MemberEvent]:
        """Process an answer of the queue."""
        by_task = {row.id: row for row in queue_rows(told.text or "")}
        reasons: dict[str, list[int]] = {}
        for attempt, member in self.members.items():
            row = by_task.get(member.task) if member.task else None
            if row is None:
                if told.asked_at > member.handed_at + _SETTLE_S:
                    member.gone += 1
                    member.gone_at = member.gone_at or told.asked_at
                    if member.gone >= 2:
                        self._ending[attempt] = member
                continue
            member.gone, member.gone_at, member.row = 0, 0.0, row
            phase = queue_phase(row.state)
            if phase is QueuePhase.OVER:
                self._ending[attempt] = member
            if phase is QueuePhase.WAITING and not member.started:
                reasons.setdefault(row.reason if row.reason != "None" else NO_REASON, []).append(attempt[0])
            if phase is QueuePhase.UNKNOWN:
                LOG.warning("Slurm calls the state of job %s '%s', a word that is not known here", row.id, row.state)
            if phase is QueuePhase.RUNNING and not member.started:
                member.started = True
                yield Started(j=attempt[0], a=attempt[1], host=row.node or None, at=row.started_at)
        self.waiting = WaitReasons(
            reasons={reason: tuple(sorted(jobs)) for reason, jobs in sorted(reasons.items())},
            held=HELD_REASONS & reasons.keys(),
            hint="scontrol release ID lets them go",
        )

    def tasks_of(self, attempts: Iterable[AttemptId]) -> list[TaskId]:
        """Return Slurm's ids of attempts: one id for a batch if all its members are included."""
        tasks: list[TaskId] = []
        by_tag: dict[str, list[LiveAttempt]] = {}
        for attempt in attempts:
            member = self.members[attempt]
            by_tag.setdefault(member.book.tag, []).append(member)
        for tag, mine in by_tag.items():
            number = mine[0].book.id
            if number is not None and len(mine) == sum(member.book.tag == tag for member in self.members.values()):
                tasks.append(TaskId(number))
            else:
                tasks += [member.task for member in mine if member.task]
        return tasks

    def expire(self, now: float) -> list[LiveAttempt]:
        """Return the attempts that exceeded their longest wait at `now` (seconds since the epoch), each only once."""
        late = [
            member
            for member in self.members.values()
            if member.book.max_wait_s is not None
            and not member.expired
            and now - member.book.at > member.book.max_wait_s
            and member.waits
        ]
        by_tag: dict[str, list[LiveAttempt]] = {}
        for member in late:
            member.expired = True
            by_tag.setdefault(member.book.tag, []).append(member)
        for tag, these in by_tag.items():
            # Recorded, so that another life does not take it for a user's cancellation.
            known = self._records.read(tag) or these[0].book
            positions = tuple(sorted({*known.expired, *(member.position for member in these)}))
            try:
                self._records.write(msgspec.structs.replace(known, expired=positions))
            except OSError as error:
                LOG.warning("who of batch '%s' waited too long cannot be written down: %s", tag, error.strerror)
        return late

    def over_by(self, now: float, *, gathers: bool) -> Over:
        """Return the attempts that are certainly over at a moment `now` (seconds since boot).

        With `gathers`, Slurm is also queried for attempts whose own records report success.
        """
        told: list[LiveAttempt] = []
        asked: list[LiveAttempt] = []
        for member in self._ending.values():
            gone = member.said_over or member.gone >= 2
            if member.succeeded and not gathers:
                told.append(member)
            elif member.record is not None or gone:
                if not member.wanted_at:
                    # Its end is queried again; Slurm's earlier answers do not count.
                    member.wanted_at = now
                    if not member.succeeded:
                        self._schedule.request_query(now)
                if gone or member.succeeded or now - member.wanted_at > GRACE_S:
                    asked.append(member)
        return Over(told, asked)

    def leave(self, ends: Iterable[Ended | Lost]) -> Iterator[MemberEvent]:
        """Stop watching these attempts; return their ends, each after its start."""
        for end in ends:
            member = self.members.pop((end.j, end.a))
            self._ending.pop(member.attempt, None)
            self._speaks(member)
            self.over[member.attempt] = member.book
            if not member.started and isinstance(end, Ended) and (end.exit is not None or end.signal is not None):
                # It was over before it was seen running.
                yield Started(j=end.j, a=end.a, host=end.host, at=end.start)
            yield end

    def settled(self, attempts: Iterable[AttemptId]) -> None:
        """Remove the files of ends that the journal has."""
        tags = set()
        for attempt in attempts:
            book = self.over.pop(attempt, None)
            if book is not None:
                self._records.files(book.tag).remove_end(attempt)
                tags.add(book.tag)
        if tags:
            # Indexed by batch, so that an end among ten thousand attempts does not search all of them.
            left = tags & {book.tag for book in self.over.values()}
            for member in self.members.values():
                if tags <= left:
                    break
                if member.book.tag in tags:
                    left.add(member.book.tag)
            for tag in tags - left:
                self._records.remove(tag)
