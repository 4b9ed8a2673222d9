"""Resolves an interrupted submission: asks the schedd whether DAGMan's job arrived, else rolls back."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from longshore.contract.context import RunPaths
from longshore.services.htcondor.schedd.client import CondorClient, quoted
from longshore.services.htcondor.submission_record import (
    DAG,
    OVERRIDES,
    SubmissionRecord,
    backup_folder,
    read_submissions,
    write_submissions,
)
from longshore.world.files.atomic import move
from longshore.world.runs.run_directory import read_card


def resolve_submission(run: RunPaths, client: CondorClient, book: SubmissionRecord) -> SubmissionRecord:
    """The record of submissions, without an unresolved one.

    A submission that arrived is recorded; otherwise all files return to their places. The caller must keep others from
    submitting the run meanwhile: a submission in progress is not recorded either.

    Raises `UnreachableError` if the schedd does not answer.
    """
    begun = book.pending
    if begun is None:
        return book
    taken = client.find_dagman(submission_constraint(run, begun.life.life), since=begun.life.t)
    if taken is None:
        roll_back(run, book)
        return read_submissions(run)
    handed = msgspec.structs.replace(
        begun,
        life=msgspec.structs.replace(begun.life, pid=taken.cluster),
        cluster=taken.cluster,
        schedd=taken.schedd,
        global_id=taken.global_id,
    )
    book = msgspec.structs.replace(book, submissions=(*book.submissions, handed), pending=None)
    write_submissions(run, book)
    return book


def submission_constraint(run: RunPaths, life: int) -> str:
    """Constraint that only the DAGMan job of this submission meets."""
    return f"LongshoreRun =?= {quoted(read_card(run).run_token)} && LongshoreLife =?= {life} && JobUniverse == 7"


def roll_back(run: RunPaths, book: SubmissionRecord) -> None:
    """Restore the files of the run directory to their state before a failed submission."""
    there = read_submissions(run)
    if len(there.submissions) != len(book.submissions):
        return
    folder = backup_folder(run, len(book.submissions))
    with suppress(OSError):
        if not book.submissions:
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
        write_submissions(run, msgspec.structs.replace(there, pending=None))
