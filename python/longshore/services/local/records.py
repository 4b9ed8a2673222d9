"""Reads what one keeper wrote, as it grows."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from longshore.services.local.parse import (
    Closed,
    EndRecord,
    Got,
    KeeperBegan,
    Record,
    StartRecord,
    decode_record,
)
from longshore.world.host import boot_id

Attempt: TypeAlias = tuple[int, int]


class KeeperFile:
    """What one keeper wrote, read as it grows.

    Parameters
    ----------
    path
        Its records.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self.began: KeeperBegan | None = None
        self.sent: dict[str, frozenset[Attempt]] = {}
        """Members per tag of batches that this engine ordered it to start, and that it has not yet got."""
        self.unstarted: set[Attempt] = set()
        self.running: dict[Attempt, StartRecord] = {}
        self.closed = False

    def read(self) -> list[Record]:
        """Records that are new since the last call."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        records = list(_decoded(whole))
        for record in records:
            self._note(record)
        return records

    def _note(self, record: Record) -> None:
        match record:
            case Got():
                self.sent.pop(record.b, None)
                self.unstarted.update(record.m)
            case StartRecord():
                self.unstarted.discard((record.j, record.a))
                self.running[record.j, record.a] = record
            case EndRecord():
                self.unstarted.discard((record.j, record.a))
                self.running.pop((record.j, record.a), None)
            case KeeperBegan():
                self.began = record
            case Closed():
                self.closed = True

    def attempts(self) -> set[Attempt]:
        """Every attempt that is not over."""
        return self.running.keys() | self.unstarted.union(*self.sent.values())

    def keeper_lives(self) -> bool:
        """Whether the keeper still holds the lock on its file."""
        try:
            file = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        return False

    def is_of_this_boot(self) -> bool:
        """Whether the machine has not been restarted since the keeper began."""
        return self.began is not None and self.began.boot == boot_id()


def keeper_files(folder: Path) -> dict[str, KeeperFile]:
    """What all keepers of a run wrote, by name, oldest first."""
    return {path.name: KeeperFile(path) for path in sorted(folder.glob("*.jsonl"))}


def _decoded(text: bytes) -> Iterator[Record]:
    for line in text.splitlines():
        try:
            yield decode_record(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            # A machine that lost its power can leave zeros in a file; what they hide is settled as lost.
            continue
