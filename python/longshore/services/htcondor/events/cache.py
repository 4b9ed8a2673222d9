"""Keeps how far a run was read, in ``cache/htcondor`` of its directory, and holds others off while that is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from longshore.services.htcondor.events.job_phases import Kept
from longshore.services.htcondor.events.log_reader import Place
from longshore.world.files.atomic import write_atomically
from longshore.world.files.locks import take_lock

FORMAT: Final = 2
_STATE: Final = "state"
_WAIT_S: Final = 20.0
"""How long whoever reads a log for the first time is waited for; after that it is read beside."""


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
    write_atomically(folder / _STATE, msgspec.msgpack.encode(told))


def forget_told(folder: Path) -> None:
    """Have all be read anew."""
    (folder / _STATE).unlink(missing_ok=True)
    for path in folder.glob("*.jsonl"):
        path.unlink()


@contextmanager
def held_off(folder: Path, *, wait_s: float = _WAIT_S) -> Iterator[bool]:
    """Hold others off; false where nothing can be kept.

    Parameters
    ----------
    folder
        Where it is kept.
    wait_s
        How long to wait for somebody else, who may have been stopped.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = take_lock(folder / "lock", wait_s=wait_s, mode=0o664)
    except OSError:
        # Another reader holds it, nothing can be written here, or the file system has no locks.
        yield False
    else:
        with lock:
            yield True


class _Course(msgspec.Struct):
    """What says of what was kept whether anything can follow."""

    format: int
    lives: int
    finished: bool


def is_all_told(folder: Path, lives: int) -> bool:
    """Whether the end of so many submissions was told of, as far as that can be seen without holding others off."""
    try:
        course = msgspec.msgpack.decode((folder / _STATE).read_bytes(), type=_Course)
    except (OSError, msgspec.MsgspecError):
        return False
    return course.finished and (course.format, course.lives) == (FORMAT, lives)
