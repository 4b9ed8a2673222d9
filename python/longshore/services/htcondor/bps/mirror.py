"""A run directory that mirrors a submit directory of BPS's HTCondor plug-in, and is restarted as BPS does it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from longshore import __version__
from longshore.contract.capabilities import LogLocator
from longshore.contract.service import RestartChanges, RunPaths
from longshore.errors import (
    DECODE_ERRORS,
    FilesError,
    LongshoreError,
    RunNotFoundError,
    RunUnreadableError,
    SubmissionRefusedError,
    UnreachableError,
)
from longshore.model.json_lines import encode_line
from longshore.model.submission import RunIdentity
from longshore.model.workflow import JobSettings, StoredGroup, StoredOrdering
from longshore.model.workflow_lines import FORMAT, StoredJob, WorkflowHeader
from longshore.rundir.registry import reserve_id
from longshore.rundir.run_directory import (
    Mirror,
    make_mirror_folders,
    mirror_of,
    read_card,
    read_mirror,
    write_card,
    write_mirror,
)
from longshore.services.htcondor.bps.read_directory import (
    BpsDag,
    BpsDescription,
    BpsGroup,
    read_dag,
    read_description,
    update_submissions,
)
from longshore.services.htcondor.events.job_phases import JobPhases
from longshore.services.htcondor.schedd.client import NAME, CondorClient, DagmanJob
from longshore.services.htcondor.submission.submit_dag import write_dag_info
from longshore.services.htcondor.submission_record import DagSubmission, read_submissions
from longshore.system.atomic import write_atomically
from longshore.system.folder import make_folders, move, remove_tree
from longshore.system.reading import open_stream, read_file
from longshore.system.sharing import lock_folder

# Finds the logs of jobs in a mirrored submit directory, whose names BPS's submit descriptions give.


_NAMES: Final = PurePosixPath("wms", "logs.json")
_CLUSTER: Final = re.compile(r"\$\(Cluster(?:Id)?\)", re.IGNORECASE)
_START: Final = re.compile(r"\$\$\(\[\s*\(?NumJobStarts[^]]*\]\)", re.IGNORECASE)
"""Number of starts, which HTCondor expands when it starts the job: 0 for the first."""


def write_log_names(run: RunPaths, patterns: Sequence[str]) -> None:
    """Write the pattern of each job's log: its absolute path, empty if unknown."""
    write_atomically(run.root / _NAMES, msgspec.json.encode(patterns), below=run.root)


class BpsLogLocator(LogLocator):
    """Locator of the logs of a mirrored run's attempts."""

    def __init__(self, run: RunPaths, phases: JobPhases) -> None:
        self._run = run
        self._phases = phases

    @cached_property
    def _patterns(self) -> list[str]:
        path = self._run.root / _NAMES
        try:
            return msgspec.json.decode(read_file(path), type=list[str])
        except (OSError, *DECODE_ERRORS) as error:
            raise RunUnreadableError(f"'{path}' cannot be read: {error}") from error

    def path(self, index: int, name: str, label: str, attempt: int) -> str:
        """Absolute path of an attempt's log; by default all attempts of a cluster write one log."""
        cluster, start = self._phases.cluster_and_start(index, attempt)
        return _START.sub(str(max(0, start - 1)), _CLUSTER.sub(str(cluster), self._patterns[index]))

    def attempts(self, index: int) -> int:
        """Number of a job's newest attempt; 0 before the first."""
        return self._phases.attempts[index]


# The mirror: a run directory made from the submit directory, which all readers of runs on HTCondor then read like any
# other. The submit directory itself is never written to.


_VERSION: Final = 1
_FORMAT: Final = 1
"""Version of the layout: one without manifests, because Longshore has not written what they would list."""
_MARK: Final = b"SET_JOB_ATTR bps_"
_OURS: Final = b"SET_JOB_ATTR LongshoreRun"
_TAIL_B: Final = 1 << 16


def find_dag(folder: Path) -> Path | None:
    """Return the DAG that BPS wrote into a directory; ``None`` if there is none."""
    try:
        found = sorted(path for path in folder.iterdir() if path.name.endswith(".dag"))
    except OSError:
        return None
    return next((path for path in found if _is_of_bps(path)), None)


def _is_of_bps(path: Path) -> bool:
    """Whether a DAG has attributes of a BPS run, which are near its end, and was not made by Longshore."""
    try:
        with open_stream(path) as file:
            head = file.read(_TAIL_B)
            size = path.stat().st_size
            file.seek(max(0, size - _TAIL_B))
            return _OURS not in head and _MARK in head + file.read()
    except OSError:
        return False


def mirror_directory(folder: Path) -> RunPaths | None:
    """Update and return the mirror of a submit directory; ``None`` if the folder is no submit directory.

    Raises
    ------
    RunUnreadableError
        Its DAG cannot be read.
    FilesError
        The mirror cannot be written.
    """
    path = find_dag(folder)
    if path is None:
        return None
    run = mirror_of(folder)
    try:
        make_mirror_folders(run)
        with lock_folder(run.wms):
            _refresh(run, folder, path)
    except OSError as error:
        raise FilesError(
            f"'{error.filename or run.root}' cannot be written: {error.strerror}",
            hint=f"What is read from '{folder}' is kept there; XDG_STATE_HOME names another place.",
        ) from error
    return run


def _refresh(run: RunPaths, folder: Path, path: Path) -> None:
    status = path.stat()
    stamp = f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"
    wanted = Mirror(v=_VERSION, directory=str(folder), stamp=stamp)
    if read_mirror(run) != wanted:
        remove_tree(run.cache, below=run.root)
        dag = read_dag(path)
        labels = _write_jobs(run, dag)
        write_card(run, _card(run, dag, labels, created_at=status.st_mtime))
        write_mirror(run, wanted)
    update_submissions(run, folder, path)


# ---------------------------------------------------------------------------------------------------------------- card


def _card(run: RunPaths, dag: BpsDag, labels: Counter[str], *, created_at: float) -> RunIdentity:
    with suppress(RunNotFoundError):
        return read_card(run)
    # The reservation stays, also of another user's run, of which nothing is registered: no other run gets its id.
    name, _ = reserve_id(created_at)
    ordered = (part.rpartition(":")[0] for part in dag.attributes.get("bps_job_summary", "").split(";"))
    return RunIdentity(
        format=_FORMAT,
        id=name,
        name=_name(dag),
        service=NAME,
        longshore=__version__,
        created_at=created_at,
        expected=len(dag.nodes),
        labels={label: labels[label] for label in dict.fromkeys([*ordered, *labels]) if labels[label]},
        attributes=_attributes(dag),
    )


def _name(dag: BpsDag) -> str:
    return dag.attributes.get("bps_run") or dag.path.stem


def _attributes(dag: BpsDag) -> dict[str, str]:
    return {key: value for key, value in dag.attributes.items() if key.startswith("bps_")}


# ---------------------------------------------------------------------------------------------------------------- jobs


def _write_jobs(run: RunPaths, dag: BpsDag) -> Counter[str]:
    """Write ``workflow.jsonl``, and the names of the logs; return the number of jobs per label."""
    index = {name: number for number, name in enumerate(dag.nodes)}
    table: dict[bytes, int] = {}
    settings: list[JobSettings] = []
    lines: list[bytes] = []
    logs: list[str] = []
    labels = Counter[str]()
    for name, node in dag.nodes.items():
        described = read_description(node.description) or BpsDescription()
        own = _settings(described.label or _label(node.folder, dag.path.parent), described)
        labels[own.label] += 1
        key = msgspec.json.encode(own, enc_hook=dict)
        if key not in table:
            table[key] = len(settings)
            settings.append(own)
        parents = () if node.is_final else tuple(sorted(index[parent] for parent in dag.parents[name]))
        lines.append(
            encode_line(
                StoredJob(name=name, s=table[key], p=parents, c=described.command, tasks=max(1, described.quanta))
            )
        )
        logs.append(str(node.folder / described.output) if described.output else "")
    header = WorkflowHeader(
        v=FORMAT,
        name=_name(dag),
        jobs=len(lines),
        files=0,
        final=any(node.is_final for node in dag.nodes.values()),
        settings=tuple(settings),
        attributes=_attributes(dag),
        orderings=tuple(_orderings(dag, index)),
    )
    write_atomically(run.workflow, encode_line(header) + b"".join(lines), below=run.root)
    write_log_names(run, logs)
    return labels


def _label(folder: Path, root: Path) -> str:
    """Label of a job without a readable submit description: its folder below ``jobs/``, as BPS itself takes it."""
    with suppress(ValueError):
        return folder.relative_to(root / "jobs").parts[0]
    return folder.name


def _settings(label: str, described: BpsDescription) -> JobSettings:
    return JobSettings(
        label=label,
        request=described.request,
        number_of_retries=described.retries,
        retry_unless_exit=described.retry_unless_exit,
        environment=described.environment,
        attributes=described.attributes,
    )


def _orderings(dag: BpsDag, index: dict[str, int]) -> Iterator[StoredOrdering]:
    """Chains of groups. The files do not tell their dimensions."""
    behind = {previous: group for group in dag.groups.values() for previous in group.previous}
    for first in dag.groups.values():
        if first.previous:
            continue
        chain: list[BpsGroup] = [first]
        while (after := behind.get(chain[-1].name)) is not None and after not in chain:
            chain.append(after)
        words = first.name.removeprefix("wms_group_")
        yield StoredOrdering(
            name=words.rpartition("_")[0] or words,
            dimensions=("group",),
            blocking=first.is_blocking,
            groups=tuple(
                StoredGroup(
                    key=(group.name.removeprefix("wms_group_"),), jobs=tuple(sorted(index[job] for job in group.jobs))
                )
                for group in chain
            ),
        )


# Restarts the DAG of a BPS submit directory as BPS's plug-in does: either tool can go on.


_RESCUE: Final = re.compile(r"\.rescue(\d{3})$", re.ASCII)
_MOVED: Final = (
    "*.info.*",
    "*.dag.metrics",
    "*.dag.nodes.log",
    "*.node_status",
    "wms_*.dag.post.out",
    "wms_*.status.txt",
)
"""Files that DAGMan would write over, as BPS's plug-in lists them."""
_CHECK: Final = "wms_check_status_"
"""Beginning of the node that fails if a job of the group did, and that jobs behind the group wait for."""
_WAY_OUT: Final = "'bps restart' cannot do that either. Submit the configuration as a run of Longshore's."


def restart_directory(run: RunPaths, client: CondorClient, last: DagSubmission, changes: RestartChanges) -> int:
    """Submit the DAG again, with DAGMan's rescue file; return the cluster of DAGMan's job.

    Raises `SubmissionRefusedError` if there is no rescue file, or for changes, which the files of BPS do not allow.
    """
    if changes.set or changes.from_labels or not changes.selection.everything or changes.has_new_workflow:
        raise SubmissionRefusedError("a run of BPS restarts as it was, with the jobs that failed", hint=_WAY_OUT)
    dag = Path(last.dag)
    rescue = _newest_rescue(dag)
    if rescue is None:
        raise SubmissionRefusedError(
            f"'{dag.parent}' has no rescue file of DAGMan's, which names the jobs that are done",
            hint="DAGMan writes one when it ends with failures, or is removed.",
        )
    client.require_answer()
    number = int(rescue.name[-3:])
    try:
        _reopen_groups(rescue)
        with _files_moved(dag.parent, dag.parent / "backups" / f"{number:03}"):
            dagman = client.submit_description(Path(f"{dag}.condor.sub"))
    except OSError as error:
        raise FilesError(f"'{error.filename or dag.parent}' cannot be written: {error.strerror}") from error
    _write_info(run, dag, dagman)
    mirror_directory(dag.parent)
    found = read_submissions(run).last_submission
    return found.cluster if found is not None else dagman.cluster


def _newest_rescue(dag: Path) -> Path | None:
    found = [path for path in dag.parent.glob(f"{dag.name}.rescue*") if _RESCUE.search(path.name)]
    return max(found, key=lambda path: path.name, default=None)


@contextmanager
def _files_moved(folder: Path, backup: Path) -> Iterator[None]:
    """Move the files of the last submission to a folder of backups; a refused new one moves them back."""
    moved: list[tuple[Path, Path]] = []
    try:
        for source, target in _files_to_move(folder, backup):
            move(source, target, below=folder)
            moved.append((source, target))
        yield
    except UnreachableError:
        # It may have arrived: then DAGMan writes new files.
        raise
    except (LongshoreError, OSError):
        with suppress(OSError):
            for source, target in reversed(moved):
                move(target, source, below=folder)
        raise


def _files_to_move(folder: Path, backup: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the files of the last submission, those of groups too, and their paths in a folder of backups."""
    for place in (folder, *sorted(folder.glob("subdags/*"))):
        target = backup / place.relative_to(folder)
        make_folders(target, below=folder)
        for path in sorted(path for pattern in _MOVED for path in place.glob(pattern)):
            yield path, target / path.name


def _reopen_groups(rescue: Path) -> None:
    """Have DAGMan run groups with failed jobs again: the nodes of the groups are done, and only their checks failed."""
    lines = read_file(rescue).decode("utf-8", "replace").splitlines(keepends=True)
    failed = {name.removeprefix(_CHECK) for name in _failed_nodes(lines) if name.startswith(_CHECK)}
    if failed:
        kept = [line for line in lines if not (line.startswith("DONE ") and line.split()[1] in failed)]
        write_atomically(rescue, "".join(kept), below=rescue.parent)


def _failed_nodes(lines: Iterable[str]) -> Iterator[str]:
    is_list = False
    for line in lines:
        if line.startswith("# Nodes that failed:"):
            is_list = True
        elif not line.startswith("#"):
            return
        elif is_list:
            yield from (name.strip() for name in line[1:].split(","))


def _write_info(run: RunPaths, dag: Path, dagman: DagmanJob) -> None:
    """Write what BPS's plug-in writes of a submission, and reads for its reports."""
    card = read_card(run)
    path = dag.parent / f"{card.name}.info.json"
    try:
        write_dag_info(path, dagman, card.attributes, below=dag.parent)
    except OSError as error:
        raise FilesError(f"'{dag.parent}' cannot be written: {error.strerror}") from error
