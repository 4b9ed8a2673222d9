"""Resolves an interrupted submission: asks the schedd whether DAGMan's job arrived, else rolls back."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from longshore.contract.context import RunPaths
from longshore.services.htcondor.schedd.client import CondorClient, quoted
from longshore.services.htcondor.submissions import DAG, OVERRIDES, Book, backup_folder, read_book, write_book
from longshore.world.files.atomic import move
from longshore.world.runs.run_directory import read_card


def settled(run: RunPaths, client: CondorClient, book: Book) -> Book:
    """The record of submissions, without an unresolved one.

    A submission that arrived is recorded; otherwise all files return to their places. The caller must keep others from
    submitting the run meanwhile: a submission in progress is not recorded either.

    Raises `UnreachableError` if the schedd does not answer.
    """
    begun = book.begun
    if begun is None:
        return book
    taken = client.arrived(constraint_of(run, begun.life.life), since=begun.life.t)
    if taken is None:
        take_back(run, book)
        return read_book(run)
    handed = msgspec.structs.replace(
        begun,
        life=msgspec.structs.replace(begun.life, pid=taken.cluster),
        cluster=taken.cluster,
        schedd=taken.schedd,
        global_id=taken.global_id,
    )
    book = msgspec.structs.replace(book, handed=(*book.handed, handed), begun=None)
    write_book(run, book)
    return book


def constraint_of(run: RunPaths, life: int) -> str:
    """Constraint that only the DAGMan job of this submission meets."""
    return f"LongshoreRun =?= {quoted(read_card(run).run_token)} && LongshoreLife =?= {life} && JobUniverse == 7"


def take_back(run: RunPaths, book: Book) -> None:
    """Restore the files of the run directory to their state before a failed submission."""
    there = read_book(run)
    if len(there.handed) != len(book.handed):
        return
    folder = backup_folder(run, len(book.handed))
    with suppress(OSError):
        if not book.handed:
            for path in run.wms.glob(f"{DAG.name}.*"):
                path.unlink()
        elif folder.is_dir():
            if (folder / OVERRIDES.name).exists():
                # The backup is complete: the files here belong to the failed submission.
                for path in run.wms.glob(f"{DAG.name}.*"):
                    path.unlink()
            # The mark of a complete backup first: if killed from here on, no restored file is deleted.
            for path in sorted(folder.iterdir(), key=lambda path: path.name != OVERRIDES.name):
                if not path.name.startswith("."):
                    move(path, run.wms / path.name)
                else:
                    path.unlink()
            folder.rmdir()
        write_book(run, msgspec.structs.replace(there, begun=None))
