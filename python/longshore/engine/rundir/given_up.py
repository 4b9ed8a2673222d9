"""Attempts that were given up while a copy of them may live: a mark each, which also tells their wrapper to stop.

Marks are files ``ends/fenced/TAG.JOB.ATTEMPT``. They stay, so that a report tells what became of such an attempt.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from longshore.contract.executor import AttemptId
from longshore.contract.service import RunPaths
from longshore.engine.job_wrapper import FENCE_MARKS, LEASE_S, BatchFiles, read_end_record
from longshore.errors import DECODE_ERRORS
from longshore.model.json_lines import encode_document
from longshore.system.atomic import write_atomically
from longshore.system.folder import make_folders
from longshore.system.reading import read_file

MARGIN_S = 60.0
"""Seconds after a lease, for a file server's cache of names and times (acregmax of nfs(5)) and the job's death."""


class GivenUp(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that was given up without a record of its end.

    `tag` is that of its batch. `name` is that of the job. `at` is when, in seconds since the epoch. `host` is the node,
    if known. `leased` says whether its wrapper renews a lease, as those of older versions do not. `outcome` says how it
    is known that no copy lives: ``lease``, ``reboot``, ``record``, or empty if it is not. `status` is the exit
    status in a record that came afterwards.
    """

    tag: str
    job: int
    attempt: int
    name: str
    at: float
    host: str = ""
    leased: bool = True
    outcome: str = ""
    status: int | None = None

    @property
    def id(self) -> AttemptId:
        """Job and attempt."""
        return self.job, self.attempt


def mark_path(run: RunPaths, tag: str, attempt: AttemptId) -> Path:
    """Return the path of the mark of an attempt, which its wrapper knows too."""
    return run.ends / FENCE_MARKS / f"{tag}.{attempt[0]}.{attempt[1]}"


def write_mark(run: RunPaths, mark: GivenUp) -> None:
    """Write the mark of an attempt, or change what it says; raises `OSError`."""
    path = mark_path(run, mark.tag, mark.id)
    make_folders(path.parent, below=run.root)
    write_atomically(path, encode_document(mark), below=run.root)


def read_marks(run: RunPaths) -> Iterator[GivenUp]:
    """Yield the readable marks in order of their file names.

    A mark without the end record of its attempt gets that record, if the record has arrived since.
    """
    try:
        paths = sorted((run.ends / FENCE_MARKS).iterdir())
    except OSError:
        return
    for path in paths:
        with suppress(OSError, *DECODE_ERRORS):
            mark = msgspec.json.decode(read_file(path), type=GivenUp)
            if path == mark_path(run, mark.tag, mark.id):
                yield mark if mark.outcome else add_record(run, mark)


def add_record(run: RunPaths, mark: GivenUp) -> GivenUp:
    """Return a mark with the exit status that the attempt recorded, if it did."""
    record = read_end_record(BatchFiles(run, mark.tag).ends / f"{mark.job}.{mark.attempt}")
    if record is None or record.refused:
        return mark
    # Its wrapper killed it: that is no end of its own.
    status = None if record.fenced else record.status
    return msgspec.structs.replace(mark, outcome="record", status=status, host=record.host or mark.host)


def describe_copy(mark: GivenUp, now: float) -> str:
    """Return what a user should know of a copy of an attempt; empty if it is certain that none has done anything."""
    where = f" on '{mark.host}'" if mark.host else ""
    which = f"attempt {mark.attempt} of job '{mark.name}'"
    if mark.outcome == "record":
        if mark.status is None:
            return ""
        return f"{which} was given up, and ended later{where} with exit status {mark.status}: its outputs may be mixed"
    if mark.outcome:
        return ""
    if not mark.leased:
        return f"{which} was given up, and may still run{where}: its wrapper, of an older version, has no lease"
    left_s = mark.at + LEASE_S + MARGIN_S - now
    # Of an engine that noted no more. Its clock and this one may differ by minutes.
    return f"{which} was given up, and may still run{where}, for {left_s:.0f} s at most" if left_s > 0 else ""
