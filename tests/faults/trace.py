"""Reads the records of `shim.c`: calls of all processes of a run that changed files, in their order."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

_HEAD: Final = struct.Struct("<IIiiQqIII")
CREATED: Final = 1
"""Flag of an open call that made the file; any other recorded one emptied it."""


class Kind(IntEnum):
    """Kinds of records."""

    OPEN = 1
    WRITE = 2
    TRUNCATE = 3
    SYNC = 4
    SYNC_ALL = 5
    RENAME = 6
    LINK = 7
    UNLINK = 8
    MKDIR = 9
    RMDIR = 10
    SYMLINK = 11
    SPAWN = 12
    FAULT = 13


class Step(NamedTuple):
    """One call."""

    kind: Kind
    pid: int
    flags: int
    inode: int
    offset: int
    path: str
    target: str
    data: bytes

    def __str__(self) -> str:
        """Describe the call in one line."""
        words = [self.kind.name.lower(), self.path, self.target, f"{len(self.data)} B" if self.data else ""]
        return " ".join(filter(None, [str(self.pid), *words]))


def read_trace(path: Path) -> Iterator[Step]:
    """Yield all calls of a trace."""
    text = path.read_bytes()
    begin = 0
    while begin < len(text):
        size, kind, pid, flags, inode, offset, first, second, data = _HEAD.unpack_from(text, begin)
        path_at = begin + _HEAD.size
        target_at = path_at + first
        data_at = target_at + second
        yield Step(
            Kind(kind),
            pid,
            flags,
            inode,
            offset,
            text[path_at:target_at].decode(),
            text[target_at:data_at].decode(),
            text[data_at : data_at + data],
        )
        begin += size
