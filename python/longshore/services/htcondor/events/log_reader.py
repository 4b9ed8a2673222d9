"""Reads records from a growing HTCondor user log.

The text is parsed here, because the bindings are slower. An incomplete record is left for the next read; a log that
was replaced or truncated is reported.
"""

from __future__ import annotations

import heapq
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

_CHUNK_BYTES: Final = 1 << 18
"""Bytes per read: a piece that fits into the processor's cache is parsed in half the time."""
_HEAD_BYTES: Final = 200
"""Bytes of the start that identify a log: its first record has a cluster and a time."""
_MAX_ID: Final = 2**31 - 1
"""Largest number of a cluster or process."""
_END: Final = b"\n...\n"
_TIME_OFFSET: Final = len("000 (.000.000) ")
"""Bytes before the time of a record, without those of the number of its cluster."""
_HEADER: Final = re.compile(
    rb"(\d{3}) \((\d{1,10})\.(-?\d{1,10})\.(-?\d{1,10})\) "
    rb"(?:(\d{4})-(\d\d)-(\d\d)[ T]|(\d\d)/(\d\d)(?:/(\d{4}|\d\d))? )(\d\d):(\d\d):(\d\d)(\.\d+)?(Z|[+-]\d\d:?\d\d)? ?"
)


class ReplacedLogError(Exception):
    """A log is another file than the one read before."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """One event of a job in the log."""

    event_type: int
    """Number of the event type, as in HTCondor's manual."""
    cluster: int
    proc: int
    at: float
    """Time of the record, in seconds since the epoch."""
    body: bytes
    """The rest of its first line, and the lines below."""


class LogPosition(msgspec.Struct, frozen=True, kw_only=True):
    """A read position in a log."""

    inode: int = 0
    head: bytes = b""
    """First bytes of the file, which with the inode identify it."""
    offset: int = 0
    """Bytes read."""


class UserLog:
    """A growing user log; the file need not exist yet.

    Attributes
    ----------
    position
        The read position.
    is_replaced
        Whether another file is there than was read before; it is read from its start.
    invalid_records
        Number of texts that are no records.
    """

    def __init__(self, path: Path, position: LogPosition | None = None) -> None:
        self._path = path
        self.position = position or LogPosition()
        self.is_replaced = False
        self.invalid_records = 0
        self._minute_starts: dict[bytes, float] = {}
        self._times: dict[bytes, float] = {}
        self._year = 0

    @property
    def positions(self) -> list[LogPosition]:
        """The read position, in a list of one; see `LogGroup`."""
        return [self.position]

    def read_records(self) -> Iterator[Record]:
        """New complete records, in order.

        Raises `OSError` if the file exists and cannot be read.
        """
        for texts in self.read_texts():
            yield from filter(None, map(self.parse_record, texts))

    def read_texts(self) -> Iterator[list[bytes]]:
        """Texts of new complete records, many at a time; some may be no records.

        What is written after the first is left for the next read: files that a job left before its record are there
        when they are looked for then.
        Raises `OSError` if the file exists and cannot be read.
        """
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            self.is_replaced = bool(self.position.offset)
            self.position = LogPosition()
            return
        with file:
            head = file.read(_HEAD_BYTES)
            status = self._path.stat()
            self._year = time.localtime(status.st_mtime).tm_year
            before = self.position
            is_same = before.inode == status.st_ino and before.offset <= status.st_size and head.startswith(before.head)
            self.is_replaced = bool(before.offset) and not is_same
            offset = before.offset if is_same else 0
            file.seek(offset)
            self.position = LogPosition(inode=status.st_ino, head=head[: min(len(head), max(offset, 0))], offset=offset)
            rest, end = b"", status.st_size
            while chunk := file.read(min(_CHUNK_BYTES, max(0, end - file.tell()))):
                texts = (rest + chunk).split(_END)
                rest = texts.pop()
                yield texts
                offset += sum(map(len, texts)) + len(_END) * len(texts)
                self.position = LogPosition(inode=status.st_ino, head=head[: min(len(head), offset)], offset=offset)

    def parse_record(self, text: bytes) -> Record | None:
        """Parse a record; ``None`` if the text is none."""
        # Nearly all have one form, and records of one second are adjacent: a pattern takes three times as long.
        bracket = text.find(b")", 8, 60)
        at = self._times.get(text[bracket + 2 : bracket + 22])
        if at is not None:
            names = text[5:bracket].split(b".")
            if len(names) == 3 and text[:3].isdigit() and names[0].isdigit() and names[1].isdigit():
                cluster, proc = int(names[0]), int(names[1])
                if cluster <= _MAX_ID and proc <= _MAX_ID:
                    return Record(int(text[:3]), cluster, proc, at, text[bracket + 22 :])
        record = self._parse_any_record(text)
        if (
            record is not None
            and text[bracket + 21 : bracket + 22] == b" "
            and b"." not in text[bracket : bracket + 21]
        ):
            self._times[text[bracket + 2 : bracket + 22]] = record.at
        return record

    def parse_time(self, text: bytes, cluster: bytes) -> float | None:
        """Time of a record of a cluster; ``None`` if the text is no record."""
        # Nearly all records have three digits per number behind that of the cluster.
        begin = len(cluster) + _TIME_OFFSET
        at = self._times.get(text[begin : begin + 20])
        if at is None and (record := self.parse_record(text)) is not None:
            at = record.at
        return at

    def _parse_any_record(self, text: bytes) -> Record | None:
        found = _HEADER.match(text)
        if found is None:
            self.invalid_records += bool(text.strip())
            return None
        event_type, cluster, proc = map(int, found.group(1, 2, 3))
        at: float | None = None
        # Such as the thirteenth month.
        with suppress(ValueError, OverflowError):
            at = self._time_of(found)
        if at is None or max(cluster, proc) > _MAX_ID:
            self.invalid_records += 1
            return None
        return Record(event_type, cluster, proc, at, text[found.end() :])

    def _time_of(self, found: re.Match[bytes]) -> float:
        # Adjacent records share all but the seconds, and date arithmetic is slow.
        minute = found.string[found.start(5 if found[5] else 8) : found.end(12)] + (found[15] or b"")
        start = self._minute_starts.get(minute)
        if start is None:
            start = self._minute_starts[minute] = self._minute_start(found)
        return start + int(found[13]) + (float(found[14]) if found[14] else 0.0)

    def _minute_start(self, found: re.Match[bytes]) -> float:
        if found[5]:
            year, month, day = int(found[5]), int(found[6]), int(found[7])
        else:
            # Old logs have no year: that of the last write is assumed.
            written_year = int(found[10] or self._year)
            year, month, day = written_year + (2000 if written_year < 100 else 0), int(found[8]), int(found[9])
        hour, minute, zone = int(found[11]), int(found[12]), found[15]
        if zone is None:
            return time.mktime((year, month, day, hour, minute, 0, 0, 0, -1))
        if zone == b"Z":
            return datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()
        text = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:00{zone.decode()}"
        return datetime.fromisoformat(text).timestamp()


class LogGroup:
    """The logs of a DAG and of its groups' DAGs, read as one; a job has its records in one of them."""

    def __init__(self, logs: Sequence[UserLog]) -> None:
        self._logs = logs

    @property
    def positions(self) -> list[LogPosition]:
        """The read positions."""
        return [log.position for log in self._logs]

    @property
    def is_replaced(self) -> bool:
        """Whether one of the logs was replaced."""
        return any(log.is_replaced for log in self._logs)

    def read_records(self) -> Iterator[Record]:
        """New complete records, by time; a record that is written late comes after those read before.

        Raises `OSError` if a file exists and cannot be read.
        """
        return heapq.merge(*(log.read_records() for log in self._logs), key=lambda record: record.at)


AnyLog: TypeAlias = UserLog | LogGroup


def open_log(paths: Sequence[Path], positions: Sequence[LogPosition]) -> AnyLog:
    """Return the logs at some paths as one, from their read positions; those left out are read from the start."""
    logs = [UserLog(path, position) for path, position in zip_longest(paths, positions[: len(paths)])]
    return logs[0] if len(logs) == 1 else LogGroup(logs)
