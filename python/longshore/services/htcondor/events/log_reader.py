"""Reads records from a growing HTCondor user log.

The text is parsed here, because the bindings are slower. An incomplete record is left for the next read; a log that
was replaced or truncated is reported.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

_PIECE: Final = 1 << 18
"""Bytes per read: a piece that fits into the processor's cache is parsed in half the time."""
_HEAD: Final = 200
"""Bytes of the start that identify a log: its first record has a cluster and a time."""
_END: Final = b"\n...\n"
_HEADER: Final = re.compile(
    rb"(\d{3}) \((\d+)\.(-?\d+)\.(-?\d+)\) "
    rb"(?:(\d{4})-(\d\d)-(\d\d)[ T]|(\d\d)/(\d\d)(?:/(\d{4}|\d\d))? )(\d\d):(\d\d):(\d\d)(\.\d+)?(Z|[+-]\d\d:?\d\d)? ?"
)


class Record(msgspec.Struct, frozen=True, gc=False):
    """One event of a job in the log."""

    kind: int
    """Number of the event type, as in HTCondor's manual."""
    cluster: int
    proc: int
    at: float
    """Time of the record, in seconds since the epoch."""
    body: bytes
    """The rest of its first line, and the lines below."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A read position in a log."""

    inode: int = 0
    head: bytes = b""
    """First bytes of the file, which with the inode identify it."""
    offset: int = 0
    """Bytes read."""


class EventLog:
    """A growing user log; the file need not exist yet.

    Attributes
    ----------
    place
        The read position.
    replaced
        Whether another file is there than was read before; it is read from its start.
    torn
        Number of texts that are no records.
    """

    def __init__(self, path: Path, place: Place | None = None) -> None:
        self._path = path
        self.place = place or Place()
        self.replaced = False
        self.torn = 0
        self._hours: dict[bytes, float] = {}
        self._seconds: dict[bytes, float] = {}
        self._year = 0

    def read(self) -> Iterator[Record]:
        """New complete records, in order.

        Raises `OSError` if the file exists and cannot be read.
        """
        for texts in self.pieces():
            yield from filter(None, map(self.record, texts))

    def pieces(self) -> Iterator[list[bytes]]:
        """Texts of new complete records, many at a time; some may be no records.

        Raises `OSError` if the file exists and cannot be read.
        """
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            self._missing()
            return
        with file:
            head = file.read(_HEAD)
            about = self._path.stat()
            self._year = time.localtime(about.st_mtime).tm_year
            before = self.place
            same = before.inode == about.st_ino and before.offset <= about.st_size and head.startswith(before.head)
            self.replaced = bool(before.offset) and not same
            offset = before.offset if same else 0
            file.seek(offset)
            self.place = Place(inode=about.st_ino, head=head[: min(len(head), max(offset, 0))], offset=offset)
            rest = b""
            while piece := file.read(_PIECE):
                texts = (rest + piece).split(_END)
                rest = texts.pop()
                yield texts
                offset += sum(map(len, texts)) + len(_END) * len(texts)
                self.place = Place(inode=about.st_ino, head=head[: min(len(head), offset)], offset=offset)

    def _missing(self) -> None:
        self.replaced = bool(self.place.offset)
        self.place = Place()

    def record(self, text: bytes) -> Record | None:
        """Parse a record; ``None`` if the text is none."""
        # Nearly all have one form, and records of one second are adjacent: a pattern takes three times as long.
        bracket = text.find(b")", 8, 60)
        at = self._seconds.get(text[bracket + 2 : bracket + 22])
        if at is not None:
            names = text[5:bracket].split(b".")
            if len(names) == 3 and text[:3].isdigit() and names[0].isdigit() and names[1].isdigit():
                return Record(int(text[:3]), int(names[0]), int(names[1]), at, text[bracket + 22 :])
        record = self._any_record(text)
        if (
            record is not None
            and text[bracket + 21 : bracket + 22] == b" "
            and b"." not in text[bracket : bracket + 21]
        ):
            self._seconds[text[bracket + 2 : bracket + 22]] = record.at
        return record

    def time_of(self, text: bytes) -> float | None:
        """Time of a record; ``None`` if the text is none."""
        bracket = text.find(b")", 8, 60)
        at = self._seconds.get(text[bracket + 2 : bracket + 22])
        if at is None and (record := self.record(text)) is not None:
            at = record.at
        return at

    def _any_record(self, text: bytes) -> Record | None:
        found = _HEADER.match(text)
        if found is None:
            self.torn += bool(text.strip())
            return None
        kind, cluster, proc = found.group(1, 2, 3)
        return Record(int(kind), int(cluster), int(proc), self._time(found), text[found.end() :])

    def _time(self, found: re.Match[bytes]) -> float:
        # Adjacent records share all but the seconds, and date arithmetic is slow.
        minute = found.string[found.start(5 if found[5] else 8) : found.end(12)] + (found[15] or b"")
        start = self._hours.get(minute)
        if start is None:
            start = self._hours[minute] = self._minute(found)
        return start + int(found[13]) + (float(found[14]) if found[14] else 0.0)

    def _minute(self, found: re.Match[bytes]) -> float:
        if found[5]:
            year, month, day = int(found[5]), int(found[6]), int(found[7])
        else:
            # Old logs have no year: that of the last write is assumed.
            said = int(found[10] or self._year)
            year, month, day = said + (2000 if said < 100 else 0), int(found[8]), int(found[9])
        hour, minute, zone = int(found[11]), int(found[12]), found[15]
        if zone is None:
            return time.mktime((year, month, day, hour, minute, 0, 0, 0, -1))
        if zone == b"Z":
            return datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()
        text = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:00{zone.decode()}"
        return datetime.fromisoformat(text).timestamp()
