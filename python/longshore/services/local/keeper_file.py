"""Incremental reader of a keeper's records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

from longshore.contract.executor import AttemptId
from longshore.engine.keeper_io.keeper_records import (
    ClosedRecord,
    ExitRecord,
    KeeperRecord,
    NeverStartedRecord,
    ReapingRecord,
    ReceivedRecord,
    Record,
    StartRecord,
    decode_record,
    decode_records,
)
from longshore.engine.keeper_io.record_lines import RecordLines
from longshore.engine.rundir.batch_tags import life_of_tag
from longshore.errors import DECODE_ERRORS
from longshore.model.wording import count_noun
from longshore.services.local.guard_file import GuardFile
from longshore.system.host import boot_id, host_name
from longshore.system.sharing import is_locked


class KeeperFile:
    """The records file of one keeper, and that of its guard, read as they grow."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = RecordLines(path)
        self.guard = GuardFile(path.with_suffix(".guard"))
        self.keeper_record: KeeperRecord | None = None
        self.sent: dict[AttemptId, str] = {}
        """Batch tag of every member this engine sent, until the keeper is about to start it."""
        self.unstarted: set[AttemptId] = set()
        self.tags: dict[AttemptId, str] = {}
        """Batch tag of every attempt the keeper received, until it starts or fails to."""
        self.throttled: set[str] = set()
        """Batches with members that were not started for a temporary reason."""
        self.running: dict[AttemptId, StartRecord] = {}
        self.reaping: dict[AttemptId, ReapingRecord] = {}
        """Attempts that ended, until their end record."""
        self.closed = False
        self._has_unreadable = False

    @property
    def life(self) -> int:
        """Number of the engine's life that the keeper belongs to."""
        return int(self.path.name.partition(".")[0])

    @property
    def is_damaged(self) -> bool:
        """Whether the file has damaged records, so that attempts may have started or ended without a record."""
        return self.lines.is_damaged or self._has_unreadable

    def read(self) -> list[Record]:
        """Read the new records since the last call."""
        text = self.lines.read()
        try:
            records = decode_records(text)
        except DECODE_ERRORS:
            records = list(self._decode_one_by_one(text))
        for record in records:
            self._apply(record)
        return records

    def _decode_one_by_one(self, text: bytes) -> Iterator[Record]:
        for line in text.splitlines():
            try:
                yield decode_record(line)
            except DECODE_ERRORS:
                # A power failure can leave zeros in a file without checksums.
                self._has_unreadable = True

    def _apply(self, record: Record) -> None:
        match record:
            case ReceivedRecord():
                self._remove_sent(record.m)
                self.unstarted.update(record.m)
                self.tags.update(dict.fromkeys(record.m, record.b))
            case NeverStartedRecord():
                self._remove_sent(record.m)
                for member in record.m:
                    # One that was received, but whose units another run had.
                    self.unstarted.discard(member)
                    self.tags.pop(member, None)
            case StartRecord():
                self.tags.pop((record.j, record.a), None)
                # The record that it was received may be damaged.
                self.sent.pop((record.j, record.a), None)
                self.unstarted.discard((record.j, record.a))
                self.running[record.j, record.a] = record
            case ReapingRecord():
                self.reaping[record.j, record.a] = record
            case ExitRecord():
                self.reaping.pop((record.j, record.a), None)
                tag = self.sent.pop((record.j, record.a), None) or self.tags.pop((record.j, record.a), None)
                if record.is_temporary and tag is not None:
                    self.throttled.add(tag)
                self.unstarted.discard((record.j, record.a))
                self.running.pop((record.j, record.a), None)
            case KeeperRecord():
                self.keeper_record = record
            case ClosedRecord():
                self.closed = True

    def _remove_sent(self, members: Iterable[AttemptId]) -> None:
        for member in members:
            self.sent.pop(member, None)

    def close(self) -> None:
        """Close the file."""
        self.lines.close()
        self.guard.close()

    def attempts(self) -> set[AttemptId]:
        """Every attempt that is not over."""
        return self.running.keys() | self.unstarted | self.sent.keys()

    def is_end_known(self, attempt: AttemptId) -> bool:
        """Whether the end of a running attempt is known by records other than its end record."""
        start = self.running.get(attempt)
        return attempt in self.reaping or (start is not None and self.guard.find_end(start.pid, start.up) is not None)

    def remove_exit(self, attempt: AttemptId) -> ReapingRecord:
        """Remove an attempt without a start record; return its exit record."""
        self.sent.pop(attempt, None)
        self.unstarted.discard(attempt)
        return self.reaping.pop(attempt)

    def is_keeper_alive(self) -> bool:
        """Whether the keeper still holds the lock on its file."""
        return is_locked(self.path)

    def is_of_this_boot(self) -> bool:
        """Whether the keeper started since the machine's last boot."""
        if self.keeper_record is None:
            # Its processes may run: whether they do is told by their start times.
            return self.is_damaged
        return self.keeper_record.boot == boot_id()


def keeper_files(folder: Path, *, since: int = 0) -> dict[str, KeeperFile]:
    """Find the records of the keepers of a run since a life, by name, oldest first."""
    found = (KeeperFile(path) for path in sorted(folder.glob("*.jsonl")))
    return {file.path.name: file for file in found if file.life >= since}


def keepers_elsewhere(folder: Path) -> str:
    """Describe keepers on other hosts that may still live; empty when all of them ended."""
    jobs_by_host: dict[str, int] = {}
    for file in keeper_files(folder).values():
        file.read()
        began = file.keeper_record
        file.guard.read()
        jobs = sum(not file.is_end_known(attempt) for attempt in file.attempts())
        over = file.closed and not jobs and not file.is_damaged
        if began is not None and began.host != host_name() and began.boot != boot_id() and not over:
            jobs_by_host[began.host] = jobs_by_host.get(began.host, 0) + jobs
    return " and ".join(f"a keeper on '{host}', with {count_noun(jobs, 'job')}" for host, jobs in jobs_by_host.items())


def received_members(file: KeeperFile, wanted: AbstractSet[str]) -> dict[str, set[AttemptId]]:
    """Return the members per tag that a keeper received and did not give up.

    If its records are damaged, each batch of its life has all attempts that were started, whatever their batch.
    """
    found: dict[str, set[AttemptId]] = {}
    tags: dict[AttemptId, str] = {}
    started: set[AttemptId] = set()
    for record in file.read():
        if isinstance(record, ReceivedRecord) and record.b in wanted:
            found.setdefault(record.b, set()).update(record.m)
            tags.update(dict.fromkeys(record.m, record.b))
        elif isinstance(record, NeverStartedRecord) or (isinstance(record, ExitRecord) and record.is_temporary):
            for member in record.m if isinstance(record, NeverStartedRecord) else ((record.j, record.a),):
                if tag := tags.get(member):
                    found[tag].discard(member)
        elif isinstance(record, StartRecord | ReapingRecord | ExitRecord):
            started.add((record.j, record.a))
    if file.is_damaged:
        for tag in wanted:
            if life_of_tag(tag) == file.life:
                found.setdefault(tag, set()).update(started)
    return found


def recorded_attempts(file: KeeperFile) -> set[AttemptId]:
    """Return the attempts that a keeper's records name."""
    attempts: set[AttemptId] = set()
    for record in file.read():
        if isinstance(record, ReceivedRecord | NeverStartedRecord):
            attempts.update(record.m)
        elif isinstance(record, StartRecord | ReapingRecord | ExitRecord):
            attempts.add((record.j, record.a))
    file.close()
    return attempts
