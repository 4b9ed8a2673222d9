"""Payload that was read: the result of the sources in stage `acquire`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from longshore.app.progress import Progress
from longshore.config.merge import Node
from longshore.model.tasks import TaskGraph


class AcquiredPayload(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks and files of a payload.

    `files` are the files it was read from. `commands` are default commands per label, for sources without a command
    per task. `kept_files` are files in the run directory, written by the source, that stay after a failure. `values`
    replace variables in commands of jobs, with priority over the configuration.
    """

    graph: TaskGraph
    files: tuple[Path, ...] = ()
    commands: Mapping[str, Node] = msgspec.field(default_factory=dict)
    kept_files: tuple[str, ...] = ()
    values: Mapping[str, str] = msgspec.field(default_factory=dict)


def note_kept_graph(path: Path, progress: Progress) -> None:
    """Tell how to continue with a quantum graph kept after a failure: making it may have taken hours."""
    progress.note(f"the quantum graph stays, and '--qgraph {path}' takes it without making it again")
