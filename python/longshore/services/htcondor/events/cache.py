"""Caches the read state of a run's logs in ``cache/htcondor`` of its directory, under a lock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from longshore.errors import DECODE_ERRORS
from longshore.services.htcondor.events.job_phases import SavedJobPhases
from longshore.services.htcondor.events.log_reader import LogPosition
from longshore.system.atomic import write_atomically
from longshore.system.folder import make_folders, remove_file
from longshore.system.reading import read_file
from longshore.system.sharing import take_lock

FORMAT: Final = 2
_STATE: Final = "state"
_WAIT_S: Final = 20.0
"""Seconds to wait for another reader's lock; after that, the logs are read without the cache."""


class ReadState(
    msgspec.Struct,
    kw_only=True,
    rename={
        "submissions": "lives",
        "interventions": "orders",
        "position": "place",
        "next_number": "number",
        "is_finished": "finished",
        "phases": "standing",
    },
):
    """The read state of a run: ``cache/htcondor/state``."""

    format: int = FORMAT
    submissions: int = 0
    """Number of submissions from which reading has started."""
    interventions: int = 0
    """Number of recorded interventions that became events."""
    position: LogPosition = LogPosition()
    """Read position in the log of the newest of those submissions."""
    group_positions: list[LogPosition] = []
    """The same in the logs of that submission's groups, where these have DAGs of their own."""
    sizes: list[int] = []
    """Valid bytes of each submission's file of events."""
    next_number: int = 0
    """Number of the next event of the newest submission."""
    is_finished: bool = False
    """Whether the events contain the end of that submission."""
    numbering: int = 0
    """The submission whose job numbers the events have; 0 for the first."""
    phases: SavedJobPhases | None = None
    """Phases of the jobs; ``None`` before the first."""


def read_state(folder: Path) -> ReadState:
    """Read the cached state.

    Raises `OSError` if it is absent or unreadable, one of `DECODE_ERRORS` if it is damaged.
    """
    return msgspec.msgpack.decode(read_file(folder / _STATE), type=ReadState)


def has_state(folder: Path) -> bool:
    """Whether there is a cached state."""
    return (folder / _STATE).exists()


def write_state(folder: Path, state: ReadState, *, below: Path | None = None) -> None:
    """Write the state atomically, through no link below the run directory `below`."""
    write_atomically(folder / _STATE, msgspec.msgpack.encode(state), below=below)


def clear_cache(folder: Path, *, below: Path | None = None) -> None:
    """Delete the cached state and events, so that all logs are read anew."""
    remove_file(folder / _STATE, below=below)
    for path in folder.glob("*.jsonl"):
        remove_file(path, below=below)


@contextmanager
def lock_cache(folder: Path, *, below: Path | None = None, wait_s: float = _WAIT_S) -> Iterator[bool]:
    """Lock the cache against other readers; yields false if the cache cannot be used.

    `wait_s` limits the wait for another process, which may be stopped.
    """
    try:
        make_folders(folder, below=below)
        lock = take_lock(folder / "lock", below=below, wait_s=wait_s, mode=0o664)
    except OSError:
        # Another reader holds it, nothing can be written here, or the file system has no locks.
        yield False
    else:
        with lock:
            yield True


class _Progress(msgspec.Struct):
    """The fields of the state that say whether more events can follow."""

    format: int
    lives: int
    finished: bool


def is_complete(folder: Path, submissions: int) -> bool:
    """Whether the cache has the end of the newest submission; read without the lock, so only a hint."""
    try:
        progress = msgspec.msgpack.decode(read_file(folder / _STATE), type=_Progress)
    except (OSError, *DECODE_ERRORS):
        return False
    return progress == _Progress(FORMAT, submissions, finished=True)
