"""What the executor writes down of each batch, and what jobs leave for it: files of the run directory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import msgspec

from longshore.contract.batch import BatchMember
from longshore.contract.context import RunPaths
from longshore.engine.job_wrapper import BatchFiles
from longshore.services.slurm.commands.parse import TaskId
from longshore.world.files.atomic import write_atomically

Attempt: TypeAlias = tuple[int, int]
"""Index of a job, number of its attempt."""


class BatchBook(msgspec.Struct, frozen=True, kw_only=True):
    """A batch as it was handed over: ``batches/<tag>.json``.

    Attributes
    ----------
    tag
        The batch's tag, which is in the name of its job.
    name
        Name of the job in Slurm.
    members
        The attempts in the order of the array.
    id
        Slurm's id; ``None`` while nobody knows whether it has one.
    at
        When it was handed over, in seconds since the epoch.
    """

    tag: str
    name: str
    members: tuple[Attempt, ...]
    at: float
    memory_b: int | None = None
    """What each member asked for."""
    id: int | None = None
    may_appear_s: float = 120.0
    """How long after it was handed over it may still appear, where nobody knows whether it was taken: twice Slurm's
    longest wait for a message, unless the connection is known to be broken."""
    max_wait_s: float | None = None
    """How long its members may wait; ``None`` for as long as it takes."""
    expired: tuple[int, ...] = ()
    """Positions of members that waited longer, and that were therefore cancelled."""

    def task(self, position: int) -> TaskId | None:
        """Slurm's name of the member at a position."""
        if self.id is None:
            return None
        return TaskId(self.id, position if len(self.members) > 1 else None)


class Books:
    """The files of a run that the executor of a batch service keeps.

    Parameters
    ----------
    run
        The run directory.
    """

    def __init__(self, run: RunPaths) -> None:
        self._run = run

    def files(self, tag: str) -> BatchFiles:
        """The files of a batch."""
        return BatchFiles(self._run, tag)

    def write(self, book: BatchBook, members: Iterable[BatchMember] = ()) -> None:
        """Write a batch down, whole or not at all, and the table of its members the first time."""
        self._run.batches.mkdir(exist_ok=True)
        if members:
            self.files(book.tag).write_table(members)
        write_atomically(self._book(book.tag), msgspec.json.encode(book))

    def read(self, tag: str) -> BatchBook | None:
        """What was written of a batch; ``None`` where nothing was."""
        try:
            return msgspec.json.decode(self._book(tag).read_bytes(), type=BatchBook)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def all(self) -> list[BatchBook]:
        """Every batch with members of which the journal may not know all, oldest first."""
        books = (self.read(path.stem) for path in self._run.batches.glob("*.json"))
        return sorted(filter(None, books), key=lambda book: (book.at, book.tag))

    def forget(self, tag: str) -> None:
        """Remove what nobody asks about any more once all members are over; the table stays, to be read by people."""
        self._book(tag).unlink(missing_ok=True)
        self.files(tag).remove_directory()

    def _book(self, tag: str) -> Path:
        return self._run.batches / f"{tag}.json"
