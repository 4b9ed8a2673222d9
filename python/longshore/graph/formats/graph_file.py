"""Reads a graph file into a graph of tasks, a batch of lines at a time."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from longshore.errors import CycleError, GraphError
from longshore.graph.formats.graph_lines import GRAPH_KIND, GRAPH_VERSION, FileLine, GraphHeader, ProgramLine, TaskLine
from longshore.graph.formats.json_lines import COPY_HINT, LineReader, decode_reason
from longshore.model.decode_errors import DECODE_ERRORS
from longshore.model.tasks.adjacency import MOST_NODES, Adjacency
from longshore.model.tasks.dag import Dag
from longshore.model.tasks.file import File
from longshore.model.tasks.task import Command, DataId, Scalar, Task, TaskGraph
from longshore.model.wording import there_are
from longshore.model.workflow.collection_pause import collection_paused
from longshore.origin import Origin

_data_id: Final = msgspec.json.Decoder(dict[str, Scalar]).decode


class _HeaderStart(msgspec.Struct, frozen=True):
    """Start of a header, which tells whether the rest can be read."""

    kind: Any = None
    version: Any = None


class GraphFile(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a graph file."""

    graph: TaskGraph
    commands: Mapping[str, Command]
    """Per label, the command of tasks without one of their own."""
    values: Mapping[str, str]
    """Values of further names in commands."""


def read_header(line: bytes, origin: Origin) -> GraphHeader:
    """Read the header of a graph file from its first line.

    Raises `GraphError` if the line is not a header, or of a newer version.
    """
    line = line.removeprefix(codecs.BOM_UTF8)
    place = Origin(origin.file, 1, 1)
    try:
        start = msgspec.json.decode(line, type=_HeaderStart)
    except DECODE_ERRORS:
        start = _HeaderStart()
    if start.kind != GRAPH_KIND:
        hint = f'Its first line begins with {{"kind":"{GRAPH_KIND}","version":{GRAPH_VERSION}, and counts the lines.'
        raise GraphError("this is not a graph file" if line.strip() else "the file is empty", origin=place, hint=hint)
    version = start.version
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise GraphError("the graph file does not say its 'version', a whole number", origin=place)
    if version > GRAPH_VERSION:
        raise GraphError(
            f"this graph file has version {version}; this Longshore reads up to {GRAPH_VERSION}",
            origin=place,
            hint="Use the version of Longshore that wrote it, or a newer one.",
        )
    header = LineReader([line], origin).of("header", 1, GraphHeader)[0]
    if empty := [label for label, command in header.commands.items() if command == ()]:
        raise GraphError(f"the command of the label '{empty[0]}' is an empty list", origin=place)
    return header


def read_graph_file(lines: Iterable[bytes], origin: Origin) -> GraphFile:
    """Read a graph file from its lines, each with its line feed; ``origin.file`` is the file's path.

    Raises `GraphError` with the line if the file is not a graph file, of a newer version, or invalid, and `CycleError`
    if tasks wait for each other.
    """
    lines = iter(lines)
    with collection_paused():
        header = read_header(next(lines, b""), origin)
        reader = LineReader(lines, origin, line=2)
        files = _files(reader, header)
        tasks, parents = _tasks(reader, header, list(files))
        programs = {
            program.path: program.text
            for batch in reader.batches("program", header.programs, ProgramLine)
            for program in batch
        }
        reader.refuse_more(header)
        graph = TaskGraph(
            name=header.name,
            dag=_dag(tasks, parents, header, origin),
            files=files,
            directory=header.directory,
            directories=header.directories,
            programs=programs,
            columns={name: dict(cells) for name, cells in header.columns.items()},
        )
    return GraphFile(graph=graph, commands=header.commands, values=header.values)


# ------------------------------------------------------------------------------------------------------ from the lines


def _files(reader: LineReader, header: GraphHeader) -> dict[str, File]:
    files: dict[str, File] = {}
    for batch in reader.batches("file", header.files, FileLine):
        for number, stored in enumerate(batch, reader.line):
            if stored.name in files:
                message = f"a second file is named '{stored.name}'"
                raise GraphError(message, origin=Origin(reader.file, number, 1), hint="A file has one line.")
            files[stored.name] = File(
                name=stored.name,
                path=stored.path or stored.name,
                transfer=stored.transfer,
                shared=stored.shared,
                size_b=stored.size_b,
            )
    return files


def _tasks(reader: LineReader, header: GraphHeader, files: Sequence[str]) -> tuple[list[Task], Adjacency]:
    """The tasks, and the numbers of each one's parents."""
    tasks: list[Task] = []
    parents = Adjacency()
    build = _TaskBuilder(files)
    for batch in reader.batches("task", header.tasks, TaskLine):
        for number, stored in enumerate(batch, reader.line):
            try:
                tasks.append(build.task(stored))
            except GraphError as error:
                error.origin = Origin(reader.file, number, 1)
                raise
        rows = [stored.parents for stored in batch]
        if max(map(max, filter(None, rows)), default=-1) >= min(header.tasks, MOST_NODES):
            raise _unknown_parent_error(batch, header, reader)
        parents.extend([row if len(set(row)) == len(row) else list(dict.fromkeys(row)) for row in rows])
    return tasks, parents


def _unknown_parent_error(batch: Sequence[TaskLine], header: GraphHeader, reader: LineReader) -> GraphError:
    """Error of the first task of a batch with a parent that is no task of the file."""
    return next(
        GraphError(
            f"the task '{stored.name}' waits for the task {max(stored.parents)}, but "
            f"{there_are(header.tasks, 'task')}, counted from 0",
            origin=Origin(reader.file, number, 1),
        )
        for number, stored in enumerate(batch, reader.line)
        if stored.parents and max(stored.parents) >= min(header.tasks, MOST_NODES)
    )


class _TaskBuilder:
    """Builds tasks from their lines; equal values become one object."""

    def __init__(self, files: Sequence[str]) -> None:
        self._files = files
        self._labels: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._numbers: dict[int, int] = {}
        self._data_ids: dict[bytes, DataId] = {}
        self._names: dict[tuple[int, ...], tuple[str, ...]] = {}
        self._no_dimensions: DataId = {}
        self._no_paths: Mapping[str, tuple[str, ...]] = {}

    def task(self, stored: TaskLine) -> Task:
        """The task of a line."""
        label = stored.label
        if stored.command == ():
            raise GraphError(f"the command of the task '{stored.name}' is an empty list")
        return Task(
            name=stored.name,
            label=self._labels.setdefault(label, label),
            data_id=self._no_dimensions if stored.data_id is msgspec.UNSET else self._data_id(stored, stored.data_id),
            command=stored.command,
            inputs=self._file_names(stored, stored.inputs) if stored.inputs else (),
            outputs=self._file_names(stored, stored.outputs) if stored.outputs else (),
            paths=self._paths(stored) if stored.paths else self._no_paths,
            node_id=stored.name if stored.node_id == stored.name else stored.node_id,
            implied=self._no_dimensions if stored.implied is msgspec.UNSET else self._data_id(stored, stored.implied),
        )

    def _data_id(self, stored: TaskLine, raw: msgspec.Raw) -> DataId:
        # Equal text is the same map exactly, which equal values are not: 1, 1.0 and true are equal.
        text = bytes(raw)
        found = self._data_ids.get(text)
        if found is None:
            try:
                values = _data_id(text)
            except DECODE_ERRORS as error:
                message = f"the data ID of the task '{stored.name}' is wrong: {decode_reason(str(error))}"
                raise GraphError(message) from None
            for name, value in values.items():
                if type(value) is str:
                    values[name] = self._texts.setdefault(value, value)
                elif type(value) is int:
                    values[name] = self._numbers.setdefault(value, value)
            found = self._data_ids[text] = values
        return found

    def _file_names(self, stored: TaskLine, numbers: list[int]) -> tuple[str, ...]:
        key = tuple(numbers)
        found = self._names.get(key)
        if found is None:
            found = self._names[key] = tuple(self._file(stored, number) for number in key)
        return found

    def _paths(self, stored: TaskLine) -> dict[str, tuple[str, ...]]:
        return {
            dataset: tuple(self._file(stored, path) if isinstance(path, int) else path for path in paths)
            for dataset, paths in stored.paths.items()
        }

    def _file(self, stored: TaskLine, number: int) -> str:
        try:
            return self._files[number]
        except IndexError:
            raise GraphError(
                f"the task '{stored.name}' names the file {number}, but "
                f"{there_are(len(self._files), 'file')}, counted from 0"
            ) from None


def _dag(tasks: list[Task], parents: Adjacency, header: GraphHeader, origin: Origin) -> Dag[Task]:
    """Build the graph, after a check that the file is complete."""
    edges = len(parents.neighbours)
    if header.edges is not None and edges != header.edges:
        raise GraphError(
            f"the file is damaged: its tasks have {edges:,} edges, and its first line counts {header.edges:,}",
            origin=Origin(origin.file, 1, 1),
            hint=COPY_HINT,
        )
    if not tasks:
        raise GraphError("there is nothing to run: the graph has no tasks", origin=Origin(origin.file, 1, 1))
    first = 2 + header.files
    try:
        return Dag(tasks, parents=parents)
    except CycleError as error:
        at = next(number for number, task in enumerate(tasks, first) if task.name == error.ring[0])
        hint = "Each waits for the one before it."
        raise CycleError(error.ring, origin=Origin(origin.file, at, 1), hint=hint) from None
    except GraphError:
        seen: dict[str, int] = {}
        for number, task in enumerate(tasks, first):
            if (other := seen.setdefault(task.name, number)) != number:
                raise GraphError(
                    f"a second task is named '{task.name}', as the one of line {other:,} is",
                    origin=Origin(origin.file, number, 1),
                    hint="Names must be unique; add what tells the two apart to the name.",
                ) from None
        raise
