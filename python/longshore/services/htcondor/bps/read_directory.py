"""What a submit directory of BPS's HTCondor plug-in holds: its DAG, descriptions of its jobs, and its submissions."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from longshore import __version__
from longshore.contract.service import RunPaths
from longshore.errors import DECODE_ERRORS, RunUnreadableError
from longshore.model.event import PLAIN_FORMAT, Life, Restarted
from longshore.model.submission import Submission
from longshore.model.workflow import MIB, Request
from longshore.rundir.job_table import JobTable
from longshore.rundir.run_directory import read_card, read_owner, user_name_of, write_card
from longshore.runstate.replay import replay
from longshore.runstate.run_state import JobCode
from longshore.services.htcondor.codes import EventType
from longshore.services.htcondor.events.event_source import LogEventSource
from longshore.services.htcondor.events.log_records import UserLog
from longshore.services.htcondor.schedd import client
from longshore.services.htcondor.schedd.client import ScheddAddress, write_address
from longshore.services.htcondor.submission_record import (
    DagSubmission,
    SubmissionRecord,
    read_submissions,
    write_submissions,
)
from longshore.system.reading import read_file

# Reads the DAG of a BPS submit directory, with the DAGs of its groups, as jobs with parents.


_NODE: Final = re.compile(r'(JOB|FINAL)\s+(\S+)\s+"?([^"\s]+)"?(?:\s+DIR\s+"?([^"\s]+)"?)?(\s+NOOP\b)?', re.IGNORECASE)
_GROUP: Final = re.compile(r'SUBDAG\s+EXTERNAL\s+(\S+)\s+"?([^"\s]+)"?(?:\s+DIR\s+"?([^"\s]+)"?)?', re.IGNORECASE)
_POST: Final = re.compile(r"SCRIPT\s+POST\s+(\S+)\s+\S*subdag_post", re.IGNORECASE)
_ATTRIBUTE: Final = re.compile(r'SET_JOB_ATTR\s+(\w+)\s*=\s*"?(.*?)"?\s*$', re.IGNORECASE)
_WMS: Final = "wms_"
"""Beginning of the nodes that are no jobs of the workflow."""


class BpsNode(msgspec.Struct, frozen=True, kw_only=True):
    """One job of the DAG."""

    name: str
    description: Path
    """Its submit description."""
    folder: Path
    """Directory of its submit description and its logs."""
    is_final: bool = False


class BpsGroup(msgspec.Struct, kw_only=True):
    """Jobs with a DAG of their own (BPS: ``ordering``)."""

    name: str
    dag: Path
    is_blocking: bool = True
    """Whether jobs behind it wait for its success; else for its end."""
    jobs: list[str] = msgspec.field(default_factory=list)
    previous: list[str] = msgspec.field(default_factory=list)
    """Groups directly before it."""


class BpsDag(msgspec.Struct, kw_only=True):
    """The DAG of a submit directory."""

    path: Path
    attributes: dict[str, str] = msgspec.field(default_factory=dict)
    """Attributes of DAGMan's job, such as ``bps_run``."""
    nodes: dict[str, BpsNode] = msgspec.field(default_factory=dict)
    """Jobs by name, parents first, the final job last."""
    parents: dict[str, list[str]] = msgspec.field(default_factory=dict)
    """Names of the parents per job."""
    groups: dict[str, BpsGroup] = msgspec.field(default_factory=dict)


def read_dag(path: Path) -> BpsDag:
    """Read a DAG and those of its groups.

    Raises `RunUnreadableError` if a file cannot be read, or if its edges are a cycle.
    """
    dag = BpsDag(path=path)
    edges: dict[str, list[str]] = {}
    _read_lines(dag, path, edges, group=None)
    for group in list(dag.groups.values()):
        _read_lines(dag, group.dag, edges, group=group)
    _link(dag, edges)
    _sort(dag)
    return dag


def _read_lines(dag: BpsDag, path: Path, edges: dict[str, list[str]], *, group: BpsGroup | None) -> None:
    for line in _lines(path):
        word = line[:6].upper()
        if word.startswith("PARENT"):
            before, _, behind = line[6:].partition(" CHILD ")
            for child in behind.split():
                edges.setdefault(child, []).extend(before.split())
        elif word.startswith(("JOB", "FINAL")):
            _read_node(dag, path, line, group)
        elif word.startswith("SUBDAG") and (found := _GROUP.match(line)):
            dag.groups[found[1]] = BpsGroup(name=found[1], dag=_folder(path, found[3]) / found[2])
        elif word.startswith("SCRIPT") and (found := _POST.match(line)) and found[1] in dag.groups:
            dag.groups[found[1]].is_blocking = False
        elif group is None and word.startswith("SET_JO") and (found := _ATTRIBUTE.match(line)):
            dag.attributes[found[1]] = found[2]


def _read_node(dag: BpsDag, path: Path, line: str, group: BpsGroup | None) -> None:
    found = _NODE.match(line)
    if found is None or found[5] or found[2].startswith(_WMS):
        return
    folder = _folder(path, found[4])
    name = found[2]
    dag.nodes[name] = BpsNode(
        name=name, description=folder / found[3], folder=folder, is_final=found[1].upper() == "FINAL"
    )
    if group is not None:
        group.jobs.append(name)


def _folder(dag: Path, given: str | None) -> Path:
    """The directory of a node, which is relative to that of its DAG."""
    return Path(os.path.normpath(dag.parent / (given or ".")))


def _lines(path: Path) -> list[str]:
    try:
        return read_file(path).decode("utf-8", "replace").splitlines()
    except OSError as error:
        raise RunUnreadableError(f"'{path}' cannot be read: {error.strerror}") from error


# --------------------------------------------------------------------------------------------------------------- edges


def _link(dag: BpsDag, edges: Mapping[str, list[str]]) -> None:
    """Set the parents of each job: nodes that are no jobs are replaced by the jobs before them."""
    ends = _group_ends(dag, edges)
    known: dict[str, list[str]] = {}

    def jobs_before(node: str) -> list[str]:
        """Jobs that a node stands for, as a parent."""
        if node in dag.nodes:
            return [node]
        if node not in known:
            known[node] = _unique(_walk_to_jobs(dag, edges, ends, node))
        return known[node]

    for group in dag.groups.values():
        group.previous = [parent for parent in edges.get(group.name, ()) if parent in dag.groups]
        outside = [parent for parent in edges.get(group.name, ()) if parent not in dag.groups]
        before = _unique(job for parent in outside for job in jobs_before(parent))
        members = set(group.jobs)
        for name in group.jobs:
            if not members.intersection(edges.get(name, ())):
                dag.parents[name] = list(before)
    for name in dag.nodes:
        own = [job for parent in edges.get(name, ()) for job in jobs_before(parent)]
        dag.parents[name] = _unique([*dag.parents.get(name, ()), *own])


def _walk_to_jobs(
    dag: BpsDag, edges: Mapping[str, list[str]], ends: Mapping[str, list[str]], node: str
) -> Iterator[str]:
    """Yield the jobs before a node, through empty nodes and those that check a group."""
    seen, waiting = {node}, [node]
    while waiting:
        each = waiting.pop()
        if each in dag.nodes:
            yield each
        elif each in ends:
            yield from ends[each]
        else:
            before = [parent for parent in edges.get(each, ()) if parent not in seen]
            seen.update(before)
            waiting += reversed(before)


def _group_ends(dag: BpsDag, edges: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Jobs of each group that no job of it waits for."""
    ends = {}
    for group in dag.groups.values():
        waited_for = {parent for name in group.jobs for parent in edges.get(name, ())}
        ends[group.name] = [name for name in group.jobs if name not in waited_for]
    return ends


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _sort(dag: BpsDag) -> None:
    """Sort the jobs: parents and earlier groups first, the final job last, else as in the file."""
    group_of = {name: group for group in dag.groups.values() for name in group.jobs}
    # A group whose jobs are all sorted is not looked through again.
    unsorted = {group.name: len(group.jobs) for group in dag.groups.values()}
    done: dict[str, BpsNode] = {}
    under_way: set[str] = set()
    for first in sorted(dag.nodes, key=lambda name: dag.nodes[name].is_final):
        stack = [first]
        while stack:
            name = stack[-1]
            before = list(dag.parents[name])
            if name in group_of:
                earlier = [group for group in group_of[name].previous if unsorted[group] > 0]
                before += [job for group in earlier for job in dag.groups[group].jobs]
            missing = [job for job in before if job not in done]
            if not missing or name in done:
                if name in group_of and name not in done:
                    unsorted[group_of[name].name] -= 1
                done.setdefault(name, dag.nodes[name])
                stack.pop()
                continue
            if name in under_way:
                raise RunUnreadableError(f"'{dag.path}' cannot be read: the nodes before '{name}' are a cycle")
            under_way.add(name)
            stack += missing
    dag.nodes = done


# Reads a job's submit description as BPS's HTCondor plug-in writes it.


_NUMBER: Final = re.compile(r"\d{1,12}(?:\.\d{1,6})?")
_FIRST_MEMORY: Final = re.compile(r"max\(\{\s*(\d{1,12})")
"""In the expression for jobs that ran out of memory: the amount of the first attempt."""
_UNITS_MB: Final[Mapping[str, float]] = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}
_VARIABLE: Final = re.compile(r"([A-Za-z_]\w*)='((?:[^']|'')*)'")
_OF_SUBMITTER: Final = re.compile(r"\$ENV\((\w+)\)")
_ATTRIBUTES: Final[Mapping[str, str]] = {
    "priority": "priority",
    "category": "category",
    "accounting_group": "accountingGroup",
    "accounting_group_user": "accountingUser",
    "notify_user": "mailTo",
    "notification": "whenToMail",
    "concurrency_limits": "concurrencyLimit",
}
"""Keys of BPS per submit command."""
_MAX_EXIT: Final = 255


class BpsDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a submit description that reports need; empty where it has none."""

    label: str = ""
    command: str = ""
    output: str = ""
    """Name of the log, as a pattern of HTCondor's."""
    request: Request = Request()
    retries: int = 0
    retry_unless_exit: tuple[int, ...] = ()
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    attributes: Mapping[str, str] = msgspec.field(default_factory=dict)
    quanta: int = 0


def read_description(path: Path) -> BpsDescription | None:
    """Read a submit description; ``None`` if it cannot be read."""
    try:
        text = read_file(path).decode("utf-8", "replace")
    except OSError:
        return None
    return parse_description(text)


def parse_description(text: str) -> BpsDescription:
    """Parse the text of a submit description."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, is_assignment, value = line.partition("=")
        if is_assignment:
            values[name.strip().lower()] = value.strip()
    executable = _OF_SUBMITTER.sub(r"${\1}", values.get("executable", ""))
    arguments = _OF_SUBMITTER.sub(r"${\1}", _arguments(values.get("arguments", "")))
    return BpsDescription(
        label=values.get("+bps_job_label", "").strip('"'),
        command=f"{executable} {arguments}".strip(),
        output=values.get("output", ""),
        request=_request(values),
        retries=int(_number(values.get("max_retries", "")) or 0),
        retry_unless_exit=_exit_codes(values.get("retry_until", "")),
        environment=_environment(values.get("environment", "")),
        attributes={key: values[name] for name, key in _ATTRIBUTES.items() if values.get(name)},
        quanta=_quanta(values.get("+bps_job_quanta", "").strip('"')),
    )


def _arguments(text: str) -> str:
    """Arguments without the quotes of HTCondor's newer syntax."""
    return text[1:-1].replace('""', '"') if text[:1] == text[-1:] == '"' and len(text) > 1 else text


def _request(values: Mapping[str, str]) -> Request:
    memory = _megabytes(values.get("request_memory", ""))
    disk = _megabytes(values.get("request_disk", ""))
    return Request(
        cpus=max(1, int(_number(values.get("request_cpus", "")) or 1)),
        memory_b=None if memory is None else round(memory * MIB),
        disk_b=None if disk is None else round(disk * MIB),
    )


def _megabytes(text: str) -> float | None:
    """An amount in MiB; of an expression, that of the first attempt."""
    if found := _FIRST_MEMORY.search(text):
        return float(found[1])
    amount, unit = _NUMBER.match(text), text.strip()[-2:].upper().removesuffix("B")[-1:]
    if amount is None:
        return None
    rest = text[amount.end() :].strip().upper().removesuffix("B")
    return float(amount[0]) * _UNITS_MB.get(unit if rest else "M", 1)


def _number(text: str) -> float | None:
    found = _NUMBER.fullmatch(text)
    return float(found[0]) if found else None


def _exit_codes(text: str) -> tuple[int, ...]:
    """Exit codes of ``2`` or ``member(ExitCode, {1,2})``."""
    found = re.fullmatch(r"member\(ExitCode,\s*\{([\d,\s]*)\}\)|(\d{1,3})", text)
    if found is None:
        return ()
    codes = [int(code) for code in (found[1] or found[2] or "").replace(" ", "").split(",") if code.isdecimal()]
    return tuple(code for code in codes if code <= _MAX_EXIT)


def _environment(text: str) -> dict[str, str]:
    inside = _arguments(text)
    return {name: _OF_SUBMITTER.sub(r"${\1}", value.replace("''", "'")) for name, value in _VARIABLE.findall(inside)}


def _quanta(text: str) -> int:
    """Number of tasks of ``isr:2;calib:1``."""
    counts = (part.rpartition(":")[2] for part in text.split(";"))
    return sum(int(count) for count in counts if count.isdecimal() and len(count) < 10)


# Reads which submissions a BPS submit directory has had, from the log of DAGMan's job and the files beside it.


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
