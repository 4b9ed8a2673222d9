"""Batch records of the executor, and the files that jobs leave for it, in the run directory."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from longshore.contract.executor import AttemptId, BatchMember
from longshore.contract.service import RunPaths
from longshore.engine.job_wrapper import BatchFiles
from longshore.errors import DECODE_ERRORS, RunUnreadableError
from longshore.model.json_lines import CHECKSUM_B, SEED, add_checksum, check_block, has_checksum
from longshore.rundir.submissions import submission_paths
from longshore.services.batch.jobs import TaskId
from longshore.system.atomic import write_atomically
from longshore.system.folder import make_folders, remove_file
from longshore.system.reading import read_file

LOG: Final = logging.getLogger("longshore.batch")
BATCH_TEMPLATE: Final = PurePosixPath("wms", "batch.sh.j2")
"""Place of the template of a batch's script in the run directory."""


def read_batch_template(run: RunPaths) -> str:
    """Return the text of the template of a batch's script, of the newest submission."""
    return (submission_paths(run).root / BATCH_TEMPLATE).read_text("utf-8")


class BatchRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A submitted batch: ``batches/<tag>.json``, a line with a checksum; older versions wrote none.

    `name` is the job's name in the queue and contains `tag`. `members` are the attempts in array order. `id` is the
    job's; ``None`` while it is unknown whether the batch has one. `at` is the time of submission, in seconds since
    the epoch.
    """

    tag: str
    name: str
    members: tuple[AttemptId, ...]
    at: float
    memory_b: int | None = None
    """Memory request of each member."""
    walltime_s: float | None = None
    """Run time request of each member."""
    id: int | None = None
    may_appear_s: float = 120.0
    """How long after submission the batch may still appear in the queue, while it is unknown whether it was taken:
    twice the longest message timeout, unless the connection is known to be broken."""
    max_wait_s: float | None = None
    """Longest wait of its members in the queue; ``None`` for no limit."""
    expired: tuple[int, ...] = ()
    """Positions of members that were cancelled because they waited longer."""
    hopeless_after_s: float | None = None
    """How long its members wait that can never start; ``None`` for no limit."""
    hopeless: tuple[tuple[int, str], ...] = ()
    """Positions of members that were cancelled because they could never start, each with the reason."""
    requeued: tuple[int, ...] = ()
    """Positions of members that went back into the queue after they had begun, and were cancelled there."""

    def task(self, position: int) -> TaskId | None:
        """Return the id of the member at a position."""
        if self.id is None:
            return None
        return TaskId(self.id, position if len(self.members) > 1 else None)


class BatchRecords:
    """The batch records and job files of a run."""

    def __init__(self, run: RunPaths) -> None:
        self._run = run

    def files(self, tag: str) -> BatchFiles:
        """Return the files of a batch."""
        return BatchFiles(self._run, tag)

    def write(self, record: BatchRecord, members: Iterable[BatchMember] = ()) -> None:
        """Write a batch's record atomically, and its table of members the first time."""
        make_folders(self._run.batches, below=self._run.root, durable=True)
        if members:
            self.files(record.tag).write_table(members)
        line, _ = add_checksum(msgspec.json.encode(record), SEED)
        write_atomically(self._path(record.tag), line, below=self._run.root, durable=True)

    def read(self, tag: str) -> BatchRecord | None:
        """Read a batch's record; ``None`` when it was never written, or is not as it was written."""
        path = self._path(tag)
        try:
            record = msgspec.json.decode(_without_checksum(read_file(path)), type=BatchRecord)
        except OSError:
            return None
        except DECODE_ERRORS as error:
            LOG.warning("'%s' is not as it was written: %s", path, error)
            return None
        if record.tag != tag:
            LOG.warning("'%s' is the record of another batch, '%s'", path, record.tag)
            return None
        return record

    def restore(self, tag: str, name: str) -> BatchRecord | None:
        """Rebuild a damaged record from the table of its members; ``None`` without a table.

        The job's id is not known then: whether the batch was taken has to be looked up by its name. Without a readable
        table, there are no members.
        """
        table = self.files(tag).table
        if not self._path(tag).exists():
            return None
        try:
            return BatchRecord(tag=tag, name=name, members=self.files(tag).read_members(), at=table.stat().st_mtime)
        except (OSError, ValueError):
            return BatchRecord(tag=tag, name=name, members=(), at=0.0)

    def damaged(self) -> list[Path]:
        """List the records that are not as they were written."""
        return [path for path in sorted(self._run.batches.glob("*.json")) if self.read(path.stem) is None]

    def require_all(self) -> list[BatchRecord]:
        """List the batches as `all`; raises `RunUnreadableError` if a record is damaged."""
        if damaged := self.damaged():
            raise RunUnreadableError(
                f"'{damaged[0]}' is damaged: which jobs in the queue belong to this run is not known",
                hint="Bring the file back from a copy of the run. The name of the file is in the job's name.",
            )
        return self.all()

    def all(self) -> list[BatchRecord]:
        """List the batches with members whose end the journal may lack, oldest first."""
        records = (self.read(path.stem) for path in self._run.batches.glob("*.json"))
        return sorted(filter(None, records), key=lambda record: (record.at, record.tag))

    def remove(self, tag: str) -> None:
        """Remove a batch's files once all its members are over; the table stays, for people to read."""
        remove_file(self._path(tag), below=self._run.root)
        self.files(tag).remove_directory()

    def _path(self, tag: str) -> Path:
        return self._run.batches / f"{tag}.json"


def _without_checksum(content: bytes) -> bytes:
    """Return a record without its checksum; raises one of `DECODE_ERRORS` if that does not fit.

    A record whose damaged end is no checksum has a member that no record has.
    """
    if not has_checksum(content):
        return content
    if check_block(content, SEED) is None:
        raise msgspec.DecodeError("it does not fit its checksum")
    return content[:-CHECKSUM_B] + b"}"
