"""Mirrors a submit directory of BPS's HTCondor plug-in: writes a run directory that names its DAG and its logs.

All readers of runs on HTCondor then read it like any other run. The submit directory itself is never written to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from longshore import __version__
from longshore.contract.service import RunPaths
from longshore.errors import FilesError, RunNotFoundError
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
from longshore.services.htcondor.bps.log_names import write_log_names
from longshore.services.htcondor.bps.read_dag import BpsDag, BpsGroup, read_dag
from longshore.services.htcondor.bps.read_description import BpsDescription, read_description
from longshore.services.htcondor.bps.submissions import update_submissions
from longshore.services.htcondor.schedd.client import NAME
from longshore.system.atomic import write_atomically
from longshore.system.folder import remove_tree
from longshore.system.reading import open_stream
from longshore.system.sharing import lock_folder

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
