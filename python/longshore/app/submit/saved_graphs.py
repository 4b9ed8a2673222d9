"""Saves intermediate graphs as text in the run directory, as ``saveClusteredQgraph`` and similar keys request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

from longshore.app.configure.configuration import Configuration
from longshore.app.configure.resolved_run import ResolvedRun
from longshore.model.tasks import ClusteredGraph
from longshore.model.workflow import Workflow
from longshore.model.workflow_lines import clustered_lines, workflow_lines
from longshore.plan.drawings import cluster_dot, workflow_dot
from longshore.rundir.run_directory import add_to_run_folder
from longshore.system.atomic import create_file
from longshore.system.room import apply_umask

_CLUSTERED: Final = "bps_clustered_qgraph"
_WORKFLOW: Final = "bps_generic_workflow"

SavedGraphs: TypeAlias = dict[str, Callable[[], Iterator[bytes]]]
"""Producer of lines per file name; lines are generated when written."""


def graphs_to_save(
    configuration: Configuration, clustered: ClusteredGraph, workflow: Workflow | None = None
) -> SavedGraphs:
    """Return the requested files of ``saveClusteredQgraph``, ``saveGenericWorkflow`` and ``saveDot``, if available."""
    files: SavedGraphs = {}
    draws = configuration.flag("saveDot")
    if configuration.flag("saveClusteredQgraph"):
        files[f"{_CLUSTERED}.jsonl"] = lambda: clustered_lines(clustered)
    if draws:
        files[f"{_CLUSTERED}.dot"] = lambda: cluster_dot(clustered)
    if workflow is None:
        return files
    if configuration.flag("saveGenericWorkflow"):
        files[f"{_WORKFLOW}.jsonl"] = lambda: workflow_lines(workflow)
    if draws:
        files[f"{_WORKFLOW}.dot"] = lambda: workflow_dot(workflow)
    return files


def write_saved(folder: Path, files: SavedGraphs) -> None:
    """Write the files into an existing folder."""
    for name, lines in files.items():
        create_file(folder / name, lines(), below=folder, durable=True)


def write_graphs_only(run: ResolvedRun, files: SavedGraphs, *, exists: bool) -> bool:
    """Write the files for a command that writes nothing else; return whether there are any.

    `exists` says that the run directory exists because it holds a quantum graph. Raises `FilesError` if they cannot be
    written; all of them are removed then.
    """
    if not files:
        return False
    with (
        apply_umask(run.configuration.resolved_site.umask),
        add_to_run_folder(run.paths.root, tuple(files), exists=exists),
    ):
        write_saved(run.paths.root, files)
    return True
