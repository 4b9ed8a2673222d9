"""Finds out whether a DAG arrived that was handed over by somebody who was killed before it could be written down."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from longshore.contract.context import RunPaths
from longshore.services.htcondor.schedd.client import CondorClient, quoted
from longshore.services.htcondor.submissions import DAG, OVERRIDES, Book, backup_folder, read_book, write_book
from longshore.world.files.atomic import move
from longshore.world.runs.run_directory import read_card


def settled(run: RunPaths, client: CondorClient, book: Book) -> Book:
    """What was handed over, once nothing is left of which nobody knows whether it was.

    What arrived is written down; of what did not, everything is put where it was. Only for whoever holds off others
    who would hand the run over: one who is amid that has not written it down either.

    Parameters
    ----------
    run, client, book
        The run.

    Raises
    ------
    UnreachableError
        The schedd does not answer.
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
    """What DAGMan's job of a submission meets, and no other."""
    return f"LongshoreRun =?= {quoted(read_card(run).mark)} && LongshoreLife =?= {life} && JobUniverse == 7"


def take_back(run: RunPaths, book: Book) -> None:
    """Put everything where it was before a submission that was not taken.

    Parameters
    ----------
    run
        The run directory.
    book
        What had been handed over before that.
    """
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
                # All that was there is kept apart: what is there now is of the submission that came to nothing.
                for path in run.wms.glob(f"{DAG.name}.*"):
                    path.unlink()
            # With that first: whoever is killed from here on leaves nothing to be taken for what came to nothing.
            for path in sorted(folder.iterdir(), key=lambda path: path.name != OVERRIDES.name):
                if not path.name.startswith("."):
                    move(path, run.wms / path.name)
                else:
                    path.unlink()
            folder.rmdir()
        write_book(run, msgspec.structs.replace(there, begun=None))
