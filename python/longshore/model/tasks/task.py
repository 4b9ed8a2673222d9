"""A task, the smallest unit of work (BPS: quantum), and the graph of tasks that every payload becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from longshore.model.tasks.dag import Dag
from longshore.model.tasks.file import File

Scalar: TypeAlias = str | int | float | bool
DataId: TypeAlias = Mapping[str, Scalar]
"""Value per dimension, such as ``{"visit": 101, "detector": 3}``."""
Command: TypeAlias = str | tuple[str, ...]
"""A line for the POSIX shell, or a program and its arguments."""


class Task(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The smallest unit of work (BPS: a quantum)."""

    name: str
    label: str
    """Its label (BPS: the pipetask label)."""
    data_id: DataId = msgspec.field(default_factory=dict)
    command: Command | None = None
    """Command from the payload; the user's ``runQuantumCommand`` replaces it."""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    """Names of files of the graph."""
    paths: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Paths per kind of dataset that its command may name."""
    node_id: str = ""
    """Identifier in its source, where that differs from its name: the UUID of a quantum."""
    implied: DataId = msgspec.field(default_factory=dict)
    """Dimensions implied by its data ID; available to clustering, but not to names and commands."""


class TaskGraph(msgspec.Struct, frozen=True, kw_only=True):
    """All tasks of a payload, their dependencies and their files."""

    name: str
    dag: Dag[Task]
    files: Mapping[str, File] = msgspec.field(default_factory=dict)
    """File per name, for every name in a task's inputs and outputs."""
    directory: str = ""
    """Absolute base directory of relative paths in `Task.paths`; empty where there are none."""
    directories: Sequence[str] = ()
    """Directories that tasks need, made when the run is prepared; relative to the run directory."""
    columns: Mapping[str, Mapping[Scalar, Scalar]] = msgspec.field(default_factory=dict)
    """Further values for commands and requests, by a name such as ``sample.size``: one per value of the dimension."""
    programs: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Text of programs that tasks run, per path relative to the run directory."""
