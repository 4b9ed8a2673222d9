"""Turns a graph of tasks into the lines of a graph file: a header, then files, tasks and programs, one a line."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import msgspec

from longshore.errors import GraphError
from longshore.model.file import File
from longshore.model.task import Command, DataId, Task, TaskGraph

GRAPH_KIND: Final = "longshore-graph"
"""What the header says it is."""
GRAPH_VERSION: Final = 1
"""Version of the graph file."""

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Index = Annotated[int, msgspec.Meta(ge=0)]
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class GraphHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """First line of a graph file.

    Attributes
    ----------
    kind, version
        What the file is.
    name
        Name of the payload.
    tasks, edges, files, programs
        How many there are; of edges ``None`` where whoever wrote it did not count them.
    directory, directories
        As in `TaskGraph`.
    commands
        What the tasks of a label run that have no command of their own, with names in braces to be filled in.
    values
        What further names stand for in commands.
    """

    kind: str
    version: int
    name: str = ""
    tasks: _Count
    edges: _Count | None = None
    files: _Count = 0
    programs: _Count = 0
    directory: str = ""
    directories: tuple[_Text, ...] = ()
    commands: Mapping[str, Command] = msgspec.field(default_factory=dict)
    values: Mapping[str, str] = msgspec.field(default_factory=dict)


class FileLine(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """A file as it stands in its line."""

    name: _Text
    path: str = ""
    """Empty where it is the name."""
    transfer: bool = False
    shared: bool = True
    size_b: _Count | None = None


class TaskLine(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """A task as it stands in its line; maps of dimensions stay text, for many tasks have the same."""

    name: _Text
    label: _Text
    parents: list[_Index] = []
    """Numbers of the tasks that it waits for, counted from 0."""
    data_id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    implied: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    command: Command | None = None
    inputs: list[_Index] = []
    outputs: list[_Index] = []
    """Numbers of files, counted from 0."""
    paths: dict[str, tuple[_Index | str, ...]] = {}
    """Paths per kind of dataset: the number of the file whose name the path is, or the path."""
    node_id: str = ""


class ProgramLine(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """A program as it stands in its line."""

    path: _Text
    text: str


LINE_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "header": GraphHeader.__struct_fields__,
    "file": FileLine.__struct_fields__,
    "task": TaskLine.__struct_fields__,
    "program": ProgramLine.__struct_fields__,
}
"""Keys that each kind of line may have."""


def graph_lines(
    graph: TaskGraph, *, commands: Mapping[str, Command] | None = None, values: Mapping[str, str] | None = None
) -> Iterator[bytes]:
    """The lines of a graph file; the same graph always gives the same bytes.

    Parameters
    ----------
    graph
        The graph.
    commands
        What tasks run that have no command of their own, per label.
    values
        What further names stand for in commands.

    Raises
    ------
    GraphError
        It has a value that JSON cannot hold.
    """
    dag = graph.dag
    header = GraphHeader(
        kind=GRAPH_KIND,
        version=GRAPH_VERSION,
        name=graph.name,
        tasks=len(dag),
        edges=sum(map(len, dag.parents)),
        files=len(graph.files),
        programs=len(graph.programs),
        directory=graph.directory,
        directories=tuple(graph.directories),
        commands=commands or {},
        values=values or {},
    )
    for what, record in _records(graph, header):
        try:
            yield _encode(record) + b"\n"
        except (UnicodeEncodeError, OverflowError) as error:
            raise GraphError(f"{what} cannot be written as JSON: {error}") from None


def _records(graph: TaskGraph, header: GraphHeader) -> Iterator[tuple[str, Any]]:
    yield f"the graph '{graph.name}'", header
    number: dict[str, int] = {}
    for name, file in graph.files.items():
        number[name] = len(number)
        yield f"the file {name!r}", _stored_file(file)
    for task, parents in zip(graph.dag.nodes, graph.dag.parents, strict=True):
        yield f"the task {task.name!r}", _stored_task(task, parents, number)
    for path, text in graph.programs.items():
        yield f"the program {path!r}", ProgramLine(path=path, text=text)


def _stored_file(file: File) -> FileLine:
    return FileLine(
        name=file.name,
        path="" if file.path == file.name else file.path,
        transfer=file.transfer,
        shared=file.shared,
        size_b=file.size_b,
    )


def _stored_task(task: Task, parents: list[int], number: Mapping[str, int]) -> TaskLine:
    return TaskLine(
        name=task.name,
        label=task.label,
        parents=parents,
        data_id=_as_json(task, task.data_id),
        implied=_as_json(task, task.implied),
        command=task.command,
        inputs=[number[name] for name in task.inputs],
        outputs=[number[name] for name in task.outputs],
        paths={dataset: tuple(number.get(path, path) for path in paths) for dataset, paths in task.paths.items()},
        node_id=task.node_id,
    )


def _as_json(task: Task, values: DataId) -> msgspec.Raw | msgspec.UnsetType:
    """The text of a map of dimensions; nothing for an empty one."""
    if not values:
        return msgspec.UNSET
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            message = f"the task '{task.name}' has the value {value} for '{name}', which JSON cannot hold"
            raise GraphError(message, hint="Give it as text.")
    return msgspec.Raw(_encode(values))


_encode: Final = msgspec.json.Encoder(enc_hook=dict).encode
