"""Reader of a guard's records: how the orphans of its keeper ended."""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from longshore.engine.keeper_io.record_lines import RecordLines
from longshore.errors import DECODE_ERRORS
from longshore.system.sharing import is_locked

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
