"""Resolves an interrupted submission: asks the schedd whether DAGMan's job arrived, else rolls back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from longshore.contract.service import RunPaths
from longshore.rundir.run_directory import read_card
from longshore.services.htcondor.schedd.client import CondorClient, DagmanJob, quoted
from longshore.services.htcondor.submission_record import (
    DAG,
    OVERRIDES,
    DagSubmission,
    SubmissionRecord,
    backup_folder,
    read_submissions,
    write_submissions,
)
from longshore.system.atomic import write_atomically
from longshore.system.folder import move, remove_empty_folder, remove_file

# Writes what BPS's HTCondor plug-in keeps of a submission, so that ``bps`` finds DAGMan's job: ``*.info.json``.


def write_dag_info(path: Path, dagman: DagmanJob, attributes: Mapping[str, str], *, below: Path) -> None:
    """Write the ids of DAGMan's job and the attributes of the run; raises `OSError` if that fails."""
    ad = {"ClusterId": dagman.cluster, "GlobalJobId": dagman.global_id, **attributes}
    content = {dagman.schedd: {f"{dagman.cluster}.0": ad}}
    write_atomically(path, msgspec.json.encode(content), below=below)


def resolve_submission(run: RunPaths, client: CondorClient, record: SubmissionRecord) -> SubmissionRecord:
    """The record of submissions, without an unresolved one.

    A submission that arrived is recorded; otherwise all files return to their places. The caller must keep others from
    submitting the run meanwhile: a submission in progress is not recorded either.

    Raises `UnreachableError` if the schedd does not answer.
    """
    pending = record.pending
    if pending is None:
        return record
    dagman = client.find_dagman(submission_constraint(run, pending.life.life), since=pending.life.t)
    if dagman is None:
        roll_back(run, record)
        return read_submissions(run)
    return record_dagman(run, msgspec.structs.replace(record, pending=None), pending, dagman)


def record_dagman(
    run: RunPaths, record: SubmissionRecord, pending: DagSubmission, dagman: DagmanJob
) -> SubmissionRecord:
    """Record that the schedd took a submission; return the new record."""
    submission = msgspec.structs.replace(
        pending,
        life=msgspec.structs.replace(pending.life, pid=dagman.cluster),
        cluster=dagman.cluster,
        schedd=dagman.schedd,
        global_id=dagman.global_id,
    )
    record = msgspec.structs.replace(record, submissions=(*record.submissions, submission))
    write_submissions(run, record)
    card = read_card(run)
    summary = ";".join(f"{label}:{count}" for label, count in card.labels.items())
    attributes = {key: value for key, value in card.attributes.items() if key.startswith("bps_")}
    # Only `bps` reads it.
    with suppress(OSError):
        path = submission.files(run).wms / "run.info.json"
        write_dag_info(path, dagman, {**attributes, "bps_job_summary": summary}, below=run.root)
    return record


def submission_constraint(run: RunPaths, life: int) -> str:
    """Constraint that only the DAGMan job of this submission meets."""
    return f"LongshoreRun =?= {quoted(read_card(run).run_token)} && LongshoreLife =?= {life} && JobUniverse == 7"


def roll_back(run: RunPaths, record: SubmissionRecord) -> None:
    """Restore the files of the run directory to their state before a failed submission."""
    current = read_submissions(run)
    if len(current.submissions) != len(record.submissions):
        return
    last, folder = record.last_submission, backup_folder(run, len(record.submissions))
    failed = current.pending.files(run) if current.pending is not None else run
    with suppress(OSError):
        if last is None:
            for path in run.wms.glob(f"{DAG.name}.*"):
                remove_file(path, below=run.root)
        elif folder.is_dir():
            if (folder / OVERRIDES.name).exists():
                # The backup is complete: the files there belong to the failed submission.
                for path in failed.wms.glob(f"{DAG.name}.*"):
                    remove_file(path, below=run.root)
            # The mark of a complete backup first: if killed from here on, no restored file is deleted.
            for path in sorted(folder.iterdir(), key=lambda path: path.name != OVERRIDES.name):
                if not path.name.startswith("."):
                    move(path, last.files(run).wms / path.name, below=run.root)
                else:
                    remove_file(path, below=run.root)
            remove_empty_folder(folder, below=run.root)
        write_submissions(run, msgspec.structs.replace(current, pending=None))
