"""Writes a graph of tasks as the lines of a graph file: a header, then files, tasks and programs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final

import msgspec

from longshore.errors import GraphError
from longshore.model.tasks.file import File
from longshore.model.tasks.task import Command, DataId, Scalar, Task, TaskGraph

GRAPH_KIND: Final = "longshore-graph"
"""Kind of the file, as its header states it."""
GRAPH_VERSION: Final = 1
"""Version of the graph file."""

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Index = Annotated[int, msgspec.Meta(ge=0)]
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class GraphHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """First line of a graph file."""

    kind: str
    version: int
    name: str = ""
    """Name of the payload."""
    tasks: _Count
    edges: _Count | None = None
    files: _Count = 0
    programs: _Count = 0
    """Number of lines per kind; `edges` is ``None`` if the writer did not count them."""
    directory: str = ""
    directories: tuple[_Text, ...] = ()
    """As in `TaskGraph`."""
    commands: Mapping[str, Command] = msgspec.field(default_factory=dict)
    """Per label, the command of tasks without one of their own, with names in braces."""
    values: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Values of further names in commands."""
    columns: Mapping[str, list[tuple[Scalar, Scalar]]] = msgspec.field(default_factory=dict)
    """Per name such as ``sample.size``, pairs of a value of the dimension and the value of the name."""


class FileLine(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """Line of a file."""

    name: _Text
    path: str = ""
    """Empty where it is the name."""
    transfer: bool = False
    shared: bool = True
    size_b: _Count | None = None


class TaskLine(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """Line of a task. Data IDs stay text, because many tasks share them."""

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
    """Line of a program."""

    path: _Text
    text: str


LINE_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "header": GraphHeader.__struct_fields__,
    "file": FileLine.__struct_fields__,
    "task": TaskLine.__struct_fields__,
    "program": ProgramLine.__struct_fields__,
}
"""Known keys per kind of line."""


def graph_lines(
    graph: TaskGraph, *, commands: Mapping[str, Command] | None = None, values: Mapping[str, str] | None = None
) -> Iterator[bytes]:
    """Lines of a graph file; equal graphs give equal bytes.

    `commands` are, per label, the commands of tasks without one of their own; `values` are the values of further names
    in commands.

    Raises `GraphError` if JSON cannot hold a value.
    """
    dag = graph.dag
    header = GraphHeader(
        kind=GRAPH_KIND,
        version=GRAPH_VERSION,
        name=graph.name,
        tasks=len(dag),
        edges=len(dag.parents.neighbours),
        files=len(graph.files),
        programs=len(graph.programs),
        directory=graph.directory,
        directories=tuple(graph.directories),
        commands=commands or {},
        values=values or {},
        columns={name: list(cells.items()) for name, cells in graph.columns.items()},
    )
    for what, record in _records(graph, header):
        try:
            yield _encode(record) + b"\n"
        except (UnicodeEncodeError, OverflowError) as error:
            raise GraphError(f"{what} cannot be written as JSON: {error}") from None


def _records(graph: TaskGraph, header: GraphHeader) -> Iterator[tuple[str, object]]:
    yield f"the graph '{graph.name}'", header
    number: dict[str, int] = {}
    for name, file in graph.files.items():
        number[name] = len(number)
        yield f"the file {name!r}", _file_line(file)
    for task, parents in zip(graph.dag.nodes, graph.dag.parents, strict=True):
        yield f"the task {task.name!r}", _task_line(task, parents, number)
    for path, text in graph.programs.items():
        yield f"the program {path!r}", ProgramLine(path=path, text=text)


def _file_line(file: File) -> FileLine:
    return FileLine(
        name=file.name,
        path="" if file.path == file.name else file.path,
        transfer=file.transfer,
        shared=file.shared,
        size_b=file.size_b,
    )


def _task_line(task: Task, parents: Sequence[int], number: Mapping[str, int]) -> TaskLine:
    return TaskLine(
        name=task.name,
        label=task.label,
        parents=list(parents),
        data_id=_encode_data_id(task, task.data_id),
        implied=_encode_data_id(task, task.implied),
        command=task.command,
        inputs=[number[name] for name in task.inputs],
        outputs=[number[name] for name in task.outputs],
        paths={dataset: tuple(number.get(path, path) for path in paths) for dataset, paths in task.paths.items()},
        node_id=task.node_id,
    )


def _encode_data_id(task: Task, values: DataId) -> msgspec.Raw | msgspec.UnsetType:
    """JSON text of a data ID; unset if it is empty."""
    if not values:
        return msgspec.UNSET
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            message = f"the task '{task.name}' has the value {value} for '{name}', which JSON cannot hold"
            raise GraphError(message, hint="Give it as text.")
    return msgspec.Raw(_encode(values))


_encode: Final = msgspec.json.Encoder(enc_hook=dict).encode
