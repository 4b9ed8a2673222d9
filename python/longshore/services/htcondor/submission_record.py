"""Records a run's submissions and interventions on HTCondor: ``wms/htcondor.json`` in the run directory."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from longshore.contract.service import RunPaths
from longshore.errors import DECODE_ERRORS, RunUnreadableError
from longshore.model.event import Life, Restarted, Steer
from longshore.rundir.run_directory import read_mirror
from longshore.rundir.submissions import submission_paths
from longshore.system.atomic import write_atomically
from longshore.system.files import files
from longshore.system.reading import read_file
from longshore.system.sharing import lock_folder

_RECORD: Final = PurePosixPath("wms", "htcondor.json")
DAG: Final = PurePosixPath("wms", "run.dag")
OVERRIDES: Final = PurePosixPath("wms", "overrides.dag")
_FOLDER: Final = re.compile(r"(submissions/\d{4,9})?", re.ASCII)
_BACKUPS: Final = PurePosixPath("wms", "backups")


class DagSubmission(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One submission of the run to DAGMan."""

    life: Life
    """Number, time and origin of the submission."""
    cluster: int
    """Cluster number of DAGMan's job; 0 until the schedd took it."""
    schedd: str
    """Name of the schedd that took it."""
    global_id: str = ""
    """``GlobalJobId`` of DAGMan's job, unique among all schedds."""
    restarted: Restarted | None = None
    """Jobs that a restart runs again; ``None`` for the first submission."""
    steers: tuple[Steer, ...] = ()
    """Requests that a restart changes."""
    retries: dict[int, int] = {}
    """Retries by DAGMan itself, for the jobs that have any."""
    removal_retries: dict[int, int] = {}
    """Retries by DAGMan itself after a person removed the job, for the jobs that have any."""
    folder: str = ""
    """Folder that has its ``wms/``, relative to the run directory; empty for the run directory itself."""
    dag: str = ""
    """Absolute path of a DAG that BPS submitted, and that the run mirrors; empty for a DAG of Longshore's."""
    logs: tuple[str, ...] = ()
    """Absolute paths of the logs of that DAG's nodes: its own first, then those of its groups' DAGs."""

    def files(self, run: RunPaths) -> RunPaths:
        """Paths of the files that it was submitted with."""
        return RunPaths(run.root / self.folder)


class RecordedIntervention(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"is_accepted": "taken"}
):
    """One intervention: a cancel, hold, release, pause or throttle."""

    steer: Steer
    life: int
    """Number of the submission it concerns."""
    is_accepted: bool = True
    """Whether HTCondor has accepted it; before that it is no event."""


class SubmissionRecord(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"submissions": "handed", "interventions": "ordered", "pending": "begun"},
):
    """All submissions and interventions of a run, in order."""

    submissions: tuple[DagSubmission, ...] = ()
    interventions: tuple[RecordedIntervention, ...] = ()
    pending: DagSubmission | None = None
    """A submission without a known cluster: started, and not recorded as taken by the schedd."""

    @property
    def accepted(self) -> tuple[RecordedIntervention, ...]:
        """Interventions that HTCondor accepted, in order; new ones are appended."""
        return tuple(intervention for intervention in self.interventions if intervention.is_accepted)

    @property
    def last_submission(self) -> DagSubmission | None:
        """The newest submission."""
        return self.submissions[-1] if self.submissions else None


def read_submissions(run: RunPaths) -> SubmissionRecord:
    """Read the record; it is empty if the run was never submitted.

    Raises `RunUnreadableError` if the file cannot be read.
    """
    path = run.root / _RECORD
    try:
        record = msgspec.json.decode(read_file(path), type=SubmissionRecord)
    except FileNotFoundError:
        return SubmissionRecord()
    except OSError as error:
        raise RunUnreadableError(f"'{path}' cannot be read: {error.strerror}") from error
    except DECODE_ERRORS as error:
        raise RunUnreadableError(f"'{path}' cannot be read: {error}") from error
    for submission in (*record.submissions, *((record.pending,) if record.pending else ())):
        if not _FOLDER.fullmatch(submission.folder):
            raise RunUnreadableError(f"'{path}' cannot be read: '{submission.folder}' is no folder of a submission")
        if submission.dag and read_mirror(run) is None:
            raise RunUnreadableError(f"'{path}' cannot be read: only mirrors name a DAG elsewhere")
    return record


def write_submissions(run: RunPaths, record: SubmissionRecord) -> None:
    """Write the record atomically."""
    path = run.root / _RECORD
    text = msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"
    write_atomically(path, text, below=run.root, durable=True)
    # Lists of runs learn from this folder's time that a run that was over has changed.
    files.utime(run.journal, follow_symlinks=False)


def update_interventions(run: RunPaths, change: Callable[[SubmissionRecord], tuple[RecordedIntervention, ...]]) -> None:
    """Replace the interventions by a function of the record, under a lock.

    Raises `OSError` if nothing can be written.
    """
    with lock_folder(run.wms):
        record = read_submissions(run)
        write_submissions(run, msgspec.structs.replace(record, interventions=change(record)))


def newest_folder(run: RunPaths) -> str:
    """`DagSubmission.folder` of the next submission: a changed workflow has a folder of its own."""
    folder = submission_paths(run).root
    return "" if folder == run.root else folder.relative_to(run.root).as_posix()


def nodes_log(run: RunPaths, record: SubmissionRecord, number: int) -> Path:
    """Log of the jobs of a submission, by its number from 1; files of earlier submissions are in the backup folder."""
    return node_logs(run, record, number)[0]


def node_logs(run: RunPaths, record: SubmissionRecord, number: int) -> tuple[Path, ...]:
    """Logs of the jobs of a submission: that of its DAG, and those of its groups if these have DAGs of their own."""
    if 0 < number <= len(record.submissions) and (logs := record.submissions[number - 1].logs):
        return tuple(map(Path, logs))
    return (_submission_folder(run, record, number) / "run.dag.nodes.log",)


def dagman_log(run: RunPaths, record: SubmissionRecord, number: int) -> Path:
    """Log of DAGMan's own job; see `nodes_log`."""
    return _dagman_file(run, record, number, "dagman.log")


def dagman_out(run: RunPaths, record: SubmissionRecord, number: int) -> Path:
    """DAGMan's messages for people; see `nodes_log`."""
    return _dagman_file(run, record, number, "dagman.out")


def _dagman_file(run: RunPaths, record: SubmissionRecord, number: int, suffix: str) -> Path:
    if 0 < number <= len(record.submissions) and (dag := record.submissions[number - 1].dag):
        return Path(f"{dag}.{suffix}")
    return _submission_folder(run, record, number) / f"run.dag.{suffix}"


def backup_folder(run: RunPaths, number: int) -> Path:
    """Folder with the files of an earlier submission."""
    return run.root / _BACKUPS / f"{number:03}"


def _submission_folder(run: RunPaths, record: SubmissionRecord, number: int) -> Path:
    last = record.last_submission
    if last is None:
        return run.wms
    backup = backup_folder(run, number)
    # An unfinished restart has moved the newest files to the backups already.
    is_there = number == len(record.submissions) and not (backup / OVERRIDES.name).exists()
    return last.files(run).wms if is_there else backup
