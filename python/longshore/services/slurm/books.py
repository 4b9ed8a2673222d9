"""What the executor writes down of each batch, and what jobs leave for it: files of the run directory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec

from longshore.contract.context import RunPaths
from longshore.services.slurm.parse import TaskId
from longshore.world.files import write_atomically

Attempt: TypeAlias = tuple[int, int]
"""Index of a job, number of its attempt."""

BEGAN = ".began"
"""End of the name of the file that a member makes when it begins, which succeeds once; it becomes its record."""


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


class EndRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How a member ended, as the program that ran it wrote it down; see ``bin/longshore-job``.

    Attributes
    ----------
    run
        Seconds that it ran, by the clock of its host.
    end
        When the record was written, by the clock of the file system.
    """

    j: int
    a: int
    status: int
    run: float
    host: str
    end: float = 0.0
    refused: bool = False
    """It was not run, because it had been before."""

    @property
    def start(self) -> float:
        """When it began, by the clock of the file system."""
        return self.end - self.run


class Books:
    """The files of a run that the executor of a batch service keeps.

    Parameters
    ----------
    run
        The run directory.
    """

    def __init__(self, run: RunPaths) -> None:
        self._run = run

    def table(self, tag: str) -> Path:
        """The table of a batch's members."""
        return self._run.batches / f"{tag}.tsv"

    def output(self, tag: str) -> Path:
        """Where the scheduler itself writes what it has to say of the batch's members."""
        return self._run.batches / f"{tag}.out"

    def ends(self, tag: str) -> Path:
        """The folder in which a batch's members leave their records."""
        return self._run.ends / tag

    def write(self, book: BatchBook, table: Iterable[str] | None = None) -> None:
        """Write a batch down, whole or not at all."""
        self._run.batches.mkdir(exist_ok=True)
        if table is not None:
            self.ends(book.tag).mkdir(parents=True, exist_ok=True)
            write_atomically(self.table(book.tag), "".join(table).encode())
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
        try:
            self.ends(tag).rmdir()
        except OSError:
            # A member that ended twice left something; it does no harm.
            return

    def records(self, tag: str, wanted: Mapping[Attempt, object]) -> tuple[dict[Attempt, EndRecord], set[Attempt]]:
        """The records of members that ended, and the members that have begun.

        Parameters
        ----------
        tag
            The batch.
        wanted
            The members of interest.
        """
        ended: dict[Attempt, EndRecord] = {}
        begun: set[Attempt] = set()
        folder = self.ends(tag)
        try:
            # Reading the folder also makes a network file system look again at what is in it.
            names = os.listdir(folder)
        except OSError:
            return ended, begun
        for name in names:
            whole = name.removesuffix(BEGAN)
            attempt = _attempt(whole)
            if attempt is None or attempt not in wanted:
                continue
            if whole != name:
                begun.add(attempt)
            elif record := _record(folder / name):
                ended[attempt] = record
        return ended, begun

    def remove_record(self, tag: str, attempt: Attempt) -> None:
        """Remove what a member left, once the journal knows all of it."""
        path = self.ends(tag) / f"{attempt[0]}.{attempt[1]}"
        path.unlink(missing_ok=True)
        path.with_name(path.name + BEGAN).unlink(missing_ok=True)

    def _book(self, tag: str) -> Path:
        return self._run.batches / f"{tag}.json"


def _attempt(name: str) -> Attempt | None:
    job, _, attempt = name.partition(".")
    return (int(job), int(attempt)) if job.isdecimal() and attempt.isdecimal() else None


def _record(path: Path) -> EndRecord | None:
    try:
        with path.open("rb") as file:
            # Above the end stands who began.
            record = msgspec.json.decode(file.read().splitlines()[-1], type=EndRecord)
            return msgspec.structs.replace(record, end=os.fstat(file.fileno()).st_mtime)
    except (OSError, IndexError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
