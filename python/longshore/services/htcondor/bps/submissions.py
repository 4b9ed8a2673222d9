"""Reads which submissions a BPS submit directory has had, from the log of DAGMan's job and the files beside it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from longshore import __version__
from longshore.contract.service import RunPaths
from longshore.errors import DECODE_ERRORS
from longshore.model.event import PLAIN_FORMAT, Life, Restarted
from longshore.model.submission import Submission
from longshore.rundir.job_table import JobTable
from longshore.rundir.run_directory import read_card, read_owner, user_name_of, write_card
from longshore.runs.replay import replay
from longshore.runs.state.run_state import JobCode
from longshore.services.htcondor.codes import EventType
from longshore.services.htcondor.events.event_source import LogEventSource
from longshore.services.htcondor.events.log_reader import UserLog
from longshore.services.htcondor.schedd import client
from longshore.services.htcondor.schedd.client import ScheddAddress, write_address
from longshore.services.htcondor.submission_record import (
    DagSubmission,
    SubmissionRecord,
    read_submissions,
    write_submissions,
)
from longshore.system.reading import read_file

_BACKUP: Final = re.compile(r"\d{3,6}", re.ASCII)


class _DagmanJob(msgspec.Struct, frozen=True, kw_only=True):
    """DAGMan's job of one submission."""

    cluster: int
    at: float
    schedd: str = ""
    global_id: str = ""


def update_submissions(run: RunPaths, folder: Path, dag: Path) -> None:
    """Bring the record of submissions up to date, and the list in the run's card."""
    jobs = _dagman_jobs(folder, dag)
    record = read_submissions(run)
    known = [submission.cluster for submission in record.submissions]
    if known != [job.cluster for job in jobs[: len(known)]]:
        # The directory was submitted anew from its beginning.
        record, known = SubmissionRecord(), []
    backups = _backups(folder)
    submissions: list[DagSubmission] = []
    for number, job in enumerate(jobs, 1):
        place = folder if number == len(jobs) else _backup_of(folder, backups, number, len(jobs))
        logs = tuple(_node_logs(place, folder, dag))
        if number <= len(known):
            submissions.append(msgspec.structs.replace(record.submissions[number - 1], logs=logs))
            continue
        before = msgspec.structs.replace(record, submissions=tuple(submissions))
        submissions.append(_submission(run, before, job, dag, logs))
    if (found := msgspec.structs.replace(record, submissions=tuple(submissions))) != read_submissions(run):
        write_submissions(run, found)
        write_address(run, ScheddAddress(schedd=submissions[-1].schedd if submissions else ""))
        _update_card(run, folder, found)


def _submission(
    run: RunPaths, before: SubmissionRecord, job: _DagmanJob, dag: Path, logs: tuple[str, ...]
) -> DagSubmission:
    number = len(before.submissions) + 1
    life = Life(
        v=PLAIN_FORMAT,
        life=number,
        t=job.at,
        host=job.schedd.rpartition("@")[2],
        pid=job.cluster,
        boot="",
        by="submit" if number == 1 else "restart",
        longshore=__version__,
    )
    return DagSubmission(
        life=life,
        cluster=job.cluster,
        schedd=job.schedd,
        global_id=job.global_id,
        restarted=_restarted(run, before, job.at) if before.submissions else None,
        dag=str(dag),
        logs=logs,
    )


def _restarted(run: RunPaths, before: SubmissionRecord, at: float) -> Restarted:
    """What a restart ran again: the jobs that had not succeeded when the DAGMan before it ended."""
    jobs = JobTable(run, "parents")
    state = replay(jobs, LogEventSource(run, before, lambda: True).events()[0])
    left = [job for job, code in enumerate(state.code) if code != JobCode.SUCCEEDED or job == state.final]
    return Restarted(jobs=tuple(left), t=at)


def _update_card(run: RunPaths, folder: Path, record: SubmissionRecord) -> None:
    card = read_card(run)
    user = user_name_of(read_owner(folder).uid)
    submissions = tuple(
        Submission(
            id=client.format_id(each.cluster),
            by=each.life.by,
            at=each.life.t,
            user=user,
            host=each.life.host,
            global_id=each.global_id,
        )
        for each in record.submissions
    )
    write_card(run, msgspec.structs.replace(card, submissions=submissions))


# --------------------------------------------------------------------------------------------------------------- files


def _dagman_jobs(folder: Path, dag: Path) -> list[_DagmanJob]:
    """DAGMan's jobs, oldest first."""
    known: dict[int, _DagmanJob] = {}
    for place in (*_backups(folder), folder):
        for job in _jobs_in_info(place):
            known[job.cluster] = job
    found: dict[int, _DagmanJob] = {}
    for record in UserLog(Path(f"{dag}.dagman.log")).read_records():
        if record.event_type == EventType.SUBMIT and record.cluster not in found:
            told = known.get(record.cluster) or _DagmanJob(cluster=record.cluster, at=record.at)
            found[record.cluster] = msgspec.structs.replace(told, at=record.at)
    # Of the newest, the log may not tell yet.
    newest = list(known.values())[-1:]
    found.update((job.cluster, job) for job in newest if job.cluster not in found)
    return list(found.values())


def _jobs_in_info(place: Path) -> Iterator[_DagmanJob]:
    """DAGMan's job by the file that the plug-in writes after a submission: ``<run>.info.json``."""
    for path in sorted(place.glob("*.info.json")):
        with suppress(OSError, *DECODE_ERRORS):
            at = path.stat().st_mtime
            content = msgspec.json.decode(read_file(path), type=dict[str, dict[str, dict[str, Any]]])
            for schedd, jobs in content.items():
                yield from (_job_of_ad(ad, schedd, at) for ad in jobs.values() if isinstance(ad.get("ClusterId"), int))


def _job_of_ad(ad: Mapping[str, Any], schedd: str, at: float) -> _DagmanJob:
    return _DagmanJob(
        cluster=ad["ClusterId"], at=min(at, time.time()), schedd=schedd, global_id=str(ad.get("GlobalJobId") or "")
    )


def _backups(folder: Path) -> list[Path]:
    """Folders with the files of earlier submissions, oldest first."""
    try:
        found = [path for path in (folder / "backups").iterdir() if _BACKUP.fullmatch(path.name)]
    except OSError:
        return []
    return sorted(found, key=lambda path: int(path.name))


def _backup_of(folder: Path, backups: list[Path], number: int, count: int) -> Path:
    """Folder of an earlier submission: each restart makes a folder."""
    # Without a rescue file there may be one more, or one may be missing: the newest folders count.
    place = len(backups) - (count - number)
    return backups[place] if 0 <= place < len(backups) else folder / "backups" / f"{number:03}"


def _node_logs(place: Path, folder: Path, dag: Path) -> Iterator[str]:
    """Logs of the nodes of the DAG, and of the DAGs of its groups."""
    yield str(place / f"{dag.name}.nodes.log")
    for group in sorted(folder.glob("subdags/*/*.dag")):
        yield str(place / group.relative_to(folder).with_name(f"{group.name}.nodes.log"))
