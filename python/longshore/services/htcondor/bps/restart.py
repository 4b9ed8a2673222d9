"""Restarts the DAG of a BPS submit directory as BPS's plug-in does: either tool can go on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from longshore.contract.service import RestartChanges, RunPaths
from longshore.errors import FilesError, LongshoreError, SubmissionRefusedError, UnreachableError
from longshore.rundir.run_directory import read_card
from longshore.services.htcondor.bps.mirror import mirror_directory
from longshore.services.htcondor.schedd.client import CondorClient, DagmanJob
from longshore.services.htcondor.submission.recover import write_dag_info
from longshore.services.htcondor.submission_record import DagSubmission, read_submissions
from longshore.system.atomic import write_atomically
from longshore.system.folder import make_folders, move
from longshore.system.reading import read_file

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
