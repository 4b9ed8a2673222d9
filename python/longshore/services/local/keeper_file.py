"""The files of a keeper and of its guard, read as they grow: lines with a running checksum, and their records."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from longshore.contract.executor import AttemptId
from longshore.errors import DECODE_ERRORS
from longshore.keeper.protocol import (
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
from longshore.model.json_lines import (
    SEED,
    check_block,
    checksum_after,
    find_bad_lines,
    has_changed_end,
    has_checksum,
    have_checksums,
)
from longshore.model.wording import count_noun
from longshore.rundir.batch_records import life_of_tag
from longshore.system.host import boot_id, host_name
from longshore.system.reading import open_to_read
from longshore.system.sharing import is_locked

_BLOCK_B: Final = 1 << 20


class RecordLines:
    """The lines of an append-only file, read as it grows. Files of an older format have no checksums."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bad_lines: list[int] = []
        """Numbers of the lines that were found damaged, or that follow missing ones."""
        self._file: int | None = None
        self._partial_line = b""
        """An incomplete line at the end of the last read: its writer died, or still writes it."""
        self._has_checksums = False
        self._crc = SEED
        self._lines_read = 0

    @property
    def is_damaged(self) -> bool:
        """Whether a line that was read is damaged, or the end of the last one."""
        return bool(self.bad_lines) or has_changed_end(self._partial_line)

    def read(self) -> bytes:
        """Read the new intact lines since the last call."""
        if self._file is None:
            try:
                self._file = open_to_read(self.path)
            except FileNotFoundError:
                return b""
        text = bytearray(self._partial_line)
        try:
            while chunk := os.read(self._file, _BLOCK_B):
                text += chunk
        except OSError:
            # A file server that fails in the middle must not discard the records read before.
            self._partial_line = bytes(text)
            raise
        end = text.rfind(b"\n") + 1
        self._partial_line = bytes(text[end:])
        return self._remove_bad_lines(bytes(text[:end]))

    def _remove_bad_lines(self, block: bytes) -> bytes:
        if not block:
            return block
        if not self._lines_read:
            self._has_checksums = have_checksums(block)
        before = self._lines_read
        self._lines_read += block.count(b"\n")
        if not self._has_checksums:
            return block
        crc = check_block(block, self._crc)
        if crc is not None:
            self._crc = crc
            return block
        bad = {each.line for each in find_bad_lines(block, self._crc, line=before + 1)}
        self.bad_lines += sorted(bad)
        lines = [line + b"\n" for line in block.split(b"\n")[:-1]]
        stated = next((line for line in reversed(lines) if has_checksum(line)), b"")
        self._crc = checksum_after(stated) or self._crc
        return b"".join(line for number, line in enumerate(lines, before + 1) if number not in bad)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


# Records of a guard: how the orphans of its keeper ended.


_SAME_START_S: Final = 1.0
"""Largest difference of the start times of one process: the keeper reads the clock before the start."""


class GuardRecord(msgspec.Struct, frozen=True, tag_field="r", tag="guard"):
    """First record of a guard: its keeper died."""

    pid: int
    keeper: int
    s: int


class OrphanEndRecord(msgspec.Struct, frozen=True, tag_field="r", tag="end"):
    """An orphan ended."""

    pid: int
    up: float
    """Start of the process, in seconds since boot."""
    t: float
    """End, in seconds since the epoch."""
    at: float
    """End, in seconds since boot."""
    s: int
    cpu: float
    rss: int | None = None
    why: str | None = None
    """Cause of the end, where a limit ended it."""
    say: str | None = None


class OrphanUsageRecord(msgspec.Struct, frozen=True, tag_field="r", tag="usage"):
    """What an ended orphan used, as the kernel counts it when the process is reaped."""

    pid: int
    up: float
    cpu: float
    rss: int | None


_Record: TypeAlias = GuardRecord | OrphanEndRecord | OrphanUsageRecord
_decode: Final = msgspec.json.Decoder(_Record).decode


class GuardFile:
    """The records of one guard, read as they grow."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = RecordLines(path)
        self._ends: dict[tuple[int, float], OrphanEndRecord] = {}

    def read(self) -> None:
        """Read the new records."""
        for line in self.lines.read().splitlines():
            try:
                record = _decode(line)
            except DECODE_ERRORS:
                # Of a newer version, or in a file without checksums.
                continue
            if isinstance(record, OrphanEndRecord):
                self._ends[record.pid, record.up] = record
            elif isinstance(record, OrphanUsageRecord) and (end := self._ends.get((record.pid, record.up))):
                rss = max(filter(None, (end.rss, record.rss)), default=None)
                self._ends[record.pid, record.up] = msgspec.structs.replace(end, cpu=record.cpu, rss=rss)

    def find_end(self, pid: int, up: float) -> OrphanEndRecord | None:
        """Return the end of the process that started about `up` seconds after boot, as far as it is read."""
        found = (end for end in self._ends.values() if end.pid == pid and abs(end.up - up) < _SAME_START_S)
        return next(found, None)

    def is_guard_alive(self) -> bool:
        """Whether the guard still holds the lock on its file."""
        return is_locked(self.path)

    def close(self) -> None:
        """Close the file."""
        self.lines.close()


# Records of a keeper.


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
