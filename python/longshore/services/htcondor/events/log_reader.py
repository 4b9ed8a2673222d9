"""Turns the text of a user log of HTCondor's, as far as it has grown, into its records.

The text is read here and not by the bindings, which are slower. A record that is still being written is left for the
next time; a log that was replaced, or made shorter, is said to be another.
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
"""Bytes read at a time: of what fits into the processor's own memory, the records are made in half the time."""
_HEAD: Final = 200
"""Bytes of the beginning by which a log is known again: its first record names a cluster and a second."""
_END: Final = b"\n...\n"
_HEADER: Final = re.compile(
    rb"(\d{3}) \((\d+)\.(-?\d+)\.(-?\d+)\) "
    rb"(?:(\d{4})-(\d\d)-(\d\d)[ T]|(\d\d)/(\d\d)(?:/(\d{4}|\d\d))? )(\d\d):(\d\d):(\d\d)(\.\d+)?(Z|[+-]\d\d:?\d\d)? ?"
)


class Record(msgspec.Struct, frozen=True, gc=False):
    """One event of a job.

    Attributes
    ----------
    kind
        Its number, as HTCondor's manual has it.
    cluster, proc
        The job.
    at
        When it was written, in seconds since the epoch.
    body
        What follows in its first line, and the lines below.
    """

    kind: int
    cluster: int
    proc: int
    at: float
    body: bytes


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """How far a log was read.

    Attributes
    ----------
    inode, head
        Which file that was: its number, and how it begins.
    offset
        Bytes read.
    """

    inode: int = 0
    head: bytes = b""
    offset: int = 0


class EventLog:
    """A log that grows.

    Parameters
    ----------
    path
        The file; it need not be there yet.
    place
        How far it was read before.

    Attributes
    ----------
    place
        How far it has been read.
    replaced
        Whether what is there is not what was read before: it has been read from its beginning.
    torn
        Pieces of text that are no records.
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
        """Every whole record that was not read before, in order.

        Raises
        ------
        OSError
            The file is there and cannot be read.
        """
        for texts in self.pieces():
            yield from filter(None, map(self.record, texts))

    def pieces(self) -> Iterator[list[bytes]]:
        """The same as text, many at a time; one that is no record is among them.

        Raises
        ------
        OSError
            The file is there and cannot be read.
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
        """The record that a text is; ``None`` if it is none."""
        # Nearly all are of one form, and most of a second's records come together: patterns take thrice as long.
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
        """When a record was written; ``None`` if the text is none."""
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
        # All but the seconds is the same for many records one after another, and calendars are slow.
        minute = found.string[found.start(5 if found[5] else 8) : found.end(12)] + (found[15] or b"")
        start = self._hours.get(minute)
        if start is None:
            start = self._hours[minute] = self._minute(found)
        return start + int(found[13]) + (float(found[14]) if found[14] else 0.0)

    def _minute(self, found: re.Match[bytes]) -> float:
        if found[5]:
            year, month, day = int(found[5]), int(found[6]), int(found[7])
        else:
            # Of old logs; without a year, it is that in which the log was written to last.
            said = int(found[10] or self._year)
            year, month, day = said + (2000 if said < 100 else 0), int(found[8]), int(found[9])
        hour, minute, zone = int(found[11]), int(found[12]), found[15]
        if zone is None:
            return time.mktime((year, month, day, hour, minute, 0, 0, 0, -1))
        if zone == b"Z":
            return datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()
        text = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:00{zone.decode()}"
        return datetime.fromisoformat(text).timestamp()
