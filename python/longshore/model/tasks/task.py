"""A task, one unit of work, and the graph of them: what every source of work is turned into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from longshore.model.tasks.dag import Dag
from longshore.model.tasks.file import File

Scalar: TypeAlias = str | int | float | bool
DataId: TypeAlias = Mapping[str, Scalar]
"""Dimension name to value, such as ``{"visit": 101, "detector": 3}``."""
Command: TypeAlias = str | tuple[str, ...]
"""A line for the POSIX shell, or the words of a program and its arguments."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One unit of work (BPS: a quantum)."""

    name: str
    label: str
    """Its kind (BPS: the pipetask label)."""
    data_id: DataId = msgspec.field(default_factory=dict)
    command: Command | None = None
    """What its source says it runs; a ``runQuantumCommand`` of the user's replaces it."""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    """Names of files of the graph."""
    paths: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Paths per kind of dataset that its command may name."""
    node_id: str = ""
    """What its source calls it, where that is more than its name: the UUID of a quantum."""
    implied: DataId = msgspec.field(default_factory=dict)
    """Dimensions that follow from those of its data ID; clusters can be made by them, names and commands have none."""


class TaskGraph(msgspec.Struct, frozen=True, kw_only=True):
    """All tasks of a payload, their order and their files."""

    name: str
    dag: Dag[Task]
    files: Mapping[str, File] = msgspec.field(default_factory=dict)
    """File per name, for every name in a task's inputs and outputs."""
    directory: str = ""
    """Absolute path of the directory that relative ones in `Task.paths` are seen from; empty where there are none."""
    directories: Sequence[str] = ()
    """Directories that tasks expect to find, made when the run is prepared; relative ones lie in the run directory."""
    programs: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Text of programs that tasks run, per path relative to the run directory."""
