"""Keeps how far a run was read, in ``cache/htcondor`` of its directory, and holds others off while that is written."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from longshore.services.htcondor.eventlog import Place
from longshore.services.htcondor.standing import Kept

FORMAT: Final = 1
_STATE: Final = "state"


class Told(msgspec.Struct, kw_only=True):
    """How far a run was read: ``cache/htcondor/state``.

    Attributes
    ----------
    lives
        Number of submissions that were begun to be told of.
    orders
        Number of orders that were told.
    place
        How far the log of the newest of them was read.
    sizes
        Bytes of each life's file that count.
    number
        Number of the next event of the newest life.
    finished
        Whether its end is told.
    standing
        Where the jobs stand.
    """

    format: int = FORMAT
    lives: int = 0
    orders: int = 0
    place: Place = Place()
    sizes: list[int] = []
    number: int = 0
    finished: bool = False
    standing: Kept | None = None


def read_told(folder: Path) -> Told:
    """What was kept.

    Raises
    ------
    OSError
        Nothing is there, or it cannot be read.
    msgspec.MsgspecError
        It is damaged.
    """
    return msgspec.msgpack.decode((folder / _STATE).read_bytes(), type=Told)


def is_told(folder: Path) -> bool:
    """Whether anything was kept."""
    return (folder / _STATE).exists()


def write_told(folder: Path, told: Told) -> None:
    """Keep it, whole or not at all."""
    draft = folder / f".{_STATE}.{os.getpid()}"
    try:
        draft.write_bytes(msgspec.msgpack.encode(told))
        draft.replace(folder / _STATE)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def forget_told(folder: Path) -> None:
    """Have all be read anew."""
    (folder / _STATE).unlink(missing_ok=True)
    for path in folder.glob("*.jsonl"):
        path.unlink()


@contextmanager
def held_off(folder: Path) -> Iterator[bool]:
    """Hold others off; false where nothing can be kept."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o664)
    except OSError:
        yield False
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield True
    finally:
        os.close(lock)
