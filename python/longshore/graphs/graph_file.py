"""Tasks of a payload, and the format of graph files that keep them: a header, then files, tasks, programs, by line."""

from __future__ import annotations

import codecs
import gzip
import io
import math
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Annotated, Any, Final, NoReturn, TypeVar

import msgspec

from longshore.config.merge import Node
from longshore.errors import DECODE_ERRORS, CycleError, FilesError, GraphError, LongshoreError, Origin
from longshore.graphs.quantum_graph import RUN_GRAPH
from longshore.model.tasks import (
    MOST_NODES,
    Adjacency,
    Command,
    Dag,
    DataId,
    File,
    Scalar,
    Task,
    TaskGraph,
    collection_paused,
)
from longshore.model.wording import count_noun, did_you_mean, name_all, there_are
from longshore.progress import Progress
from longshore.system.atomic import atomic_file

# Payload that was read: the result of the sources in stage `acquire`.


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
    columns: Mapping[str, list[tuple[msgspec.Raw, msgspec.Raw]]] = msgspec.field(default_factory=dict)
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
        columns={
            name: [(_encode_scalar(value), _encode_scalar(cell)) for value, cell in cells.items()]
            for name, cells in graph.columns.items()
        },
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
    if any(isinstance(value, float | bool) for value in values.values()):
        return msgspec.Raw(_encode({name: _encode_scalar(value) for name, value in values.items()}))
    return msgspec.Raw(_encode(values))


def _encode_scalar(value: Scalar) -> msgspec.Raw:
    """JSON text of a value, with the text that names and commands have."""
    if isinstance(value, float):
        return msgspec.Raw(repr(value).encode())
    return msgspec.Raw(_encode(str(value) if isinstance(value, bool) else value))


_encode: Final = msgspec.json.Encoder(enc_hook=dict).encode


# Decodes lines of JSON into records, a batch at a time, with the line number of each error.


_BATCH: Final = 4096
"""Lines that are taken together: enough that Python's own work per line does not count."""
_NUL: Final = b"\\u0000"
COPY_HINT: Final = "Copy or make it again."
"""Hint for a damaged file."""

T = TypeVar("T", bound=msgspec.Struct)


class LineReader:
    """Reads records from the lines of a file and counts the lines."""

    def __init__(self, lines: Iterable[bytes], origin: Origin, line: int = 1) -> None:
        self.lines = iter(lines)
        self.file = origin.file
        self.line = line
        """Number of the first line of the batch that was taken last."""
        self.next = line

    def of(self, what: str, count: int, kind: type[T]) -> list[T]:
        """Read `count` records."""
        return [record for batch in self.batches(what, count, kind) for record in batch]

    def batches(self, what: str, count: int, kind: type[T]) -> Iterator[list[T]]:
        """Read `count` records, in batches."""
        decoder = msgspec.json.Decoder(kind)
        taken = 0
        while taken < count:
            lines = list(islice(self.lines, min(_BATCH, count - taken)))
            self.line = self.next
            self.next += len(lines)
            if not lines:
                raise GraphError(
                    f"the file is cut short: it has {taken:,} of its {count:,} {what}s",
                    origin=Origin(self.file, self.line, 1),
                    hint=COPY_HINT,
                )
            yield self._decode_batch(lines, decoder, what)
            taken += len(lines)

    def _decode_batch(self, lines: list[bytes], decoder: msgspec.json.Decoder[T], what: str) -> list[T]:
        whole = b"".join(lines)
        try:
            # NUL is told of in words of our own; programs may hold it, and are few.
            if _NUL not in whole and len(records := decoder.decode_lines(whole)) == len(lines):
                return records
        except DECODE_ERRORS:
            pass  # one of them is wrong, and found below
        return [self._decode_line(line, decoder.decode, what, number) for number, line in enumerate(lines, self.line)]

    def _decode_line(self, line: bytes, decode: Callable[[bytes], T], what: str, number: int) -> T:
        try:
            record = decode(line)
        except msgspec.ValidationError as error:
            self._raise_invalid(what, str(error), number)
        except msgspec.DecodeError as error:
            self._raise_malformed(what, line, str(error), number)
        except UnicodeDecodeError:
            origin = Origin(self.file, number, _utf8_error_column(line))
            raise GraphError("this is not UTF-8, as JSON has to be", origin=origin) from None
        except RecursionError:
            raise GraphError(f"this {what} is nested too deeply", origin=Origin(self.file, number, 1)) from None
        if _NUL in line and what != "program" and _has_nul(msgspec.json.decode(line)):
            message = f"this {what} holds the character NUL, which no name and no command can have"
            raise GraphError(message, origin=Origin(self.file, number, 1))
        return record

    def _raise_invalid(self, what: str, error: str, number: int) -> NoReturn:
        """Report JSON that is not a record of this kind."""
        hint = ""
        if found := re.fullmatch(r"Object contains unknown field `(.*)`", error):
            known = LINE_KEYS[what]
            hint = did_you_mean(found[1], known) or name_all(known)
        message = f"this is not a valid {what}: {decode_reason(error)}"
        raise GraphError(message, origin=Origin(self.file, number, 1), hint=hint)

    def _raise_malformed(self, what: str, line: bytes, error: str, number: int) -> NoReturn:
        """Report text that is not JSON."""
        if not line.strip():
            message = f"this line is empty, and should be a {what}"
            raise GraphError(message, origin=Origin(self.file, number, 1), hint="Take it out.")
        if found := re.fullmatch(r"JSON is malformed: (.*) \(byte (\d+)\)", error):
            column = len(line[: int(found[2])].decode(errors="replace")) + 1
            raise GraphError(f"this is not JSON: {found[1]}", origin=Origin(self.file, number, column))
        column = len(line.rstrip().decode(errors="replace")) + 1
        raise GraphError(
            f"the line of this {what} is cut short: its JSON has no end",
            origin=Origin(self.file, number, column),
            hint=COPY_HINT,
        )

    def refuse_more(self, header: GraphHeader) -> None:
        """Refuse lines beyond the header's count."""
        self.line = self.next
        for line in self.lines:
            if line.strip():
                sizes = {"file": header.files, "task": header.tasks, "program": header.programs}
                files, tasks, programs = (count_noun(number, noun) for noun, number in sizes.items())
                counted = f"{files}, {tasks} and {programs}"
                raise GraphError(
                    f"there is more in the file than the {counted} that its first line counts",
                    origin=Origin(self.file, self.line, 1),
                )
            self.line += 1


def _utf8_error_column(line: bytes) -> int:
    """Column of the first byte that is not UTF-8."""
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return len(line[: error.start].decode()) + 1
    return 1


def decode_reason(error: str) -> str:
    """Reason of a decoding error, with the JSON path in front."""
    reason, _, where = error.replace("`", "'").partition(" - at '$")
    where = where.removesuffix("'").removeprefix(".")
    return (f"'{where}': " if where else "") + reason[:1].lower() + reason[1:]


def _has_nul(value: object) -> bool:
    if isinstance(value, dict):
        return any(_has_nul(item) for pair in value.items() for item in pair)
    if isinstance(value, list):
        return any(map(_has_nul, value))
    return isinstance(value, str) and "\0" in value


# Reads a graph file into a graph of tasks, a batch of lines at a time.


_data_id: Final = msgspec.json.Decoder(dict[str, Scalar]).decode
_texts: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_scalar: Final = msgspec.json.Decoder(Scalar).decode


def _as_written(value: Scalar, written: msgspec.Raw) -> Scalar:
    """A value of a graph file: its text, if Python would write the number or the truth value in another way."""
    if isinstance(value, str):
        return value
    text = bytes(written).decode()
    return value if str(value) == text else text


def _read_columns(header: GraphHeader, origin: Origin) -> dict[str, dict[Scalar, Scalar]]:
    """The values of further names."""
    try:
        return {
            name: {_as_written(_scalar(value), value): _as_written(_scalar(cell), cell) for value, cell in cells}
            for name, cells in header.columns.items()
        }
    except DECODE_ERRORS as error:
        message = f"this is not a valid header: 'columns': {decode_reason(str(error))}"
        raise GraphError(message, origin=Origin(origin.file, 1, 1)) from None


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
        columns = _read_columns(header, origin)
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
            columns=columns,
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
            if any(type(value) in {float, bool} for value in values.values()):
                values = {name: _as_written(values[name], each) for name, each in _texts(text).items()}
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


# Streaming reader and writer of graph files (JSON lines), plain or compressed with gzip.


_GZIP_MAGIC: Final = b"\x1f\x8b"
_BUFFER_B: Final = 1 << 20
_GZIP_LEVEL: Final = 3
"""gzip level: the levels above take several times as long, for a tenth less."""
GZIP_SUFFIX: Final = ".gz"
"""Suffix of a file that is written compressed; a file that is read is recognized by its first bytes."""


@contextmanager
def open_graph_file(path: Path, origin: Origin | None = None) -> Iterator[Iterator[bytes]]:
    """Open a graph file and iterate over its lines, decompressing where needed.

    Raises `FilesError` when the file is unreadable, and `GraphError` when it is compressed and damaged.
    """
    try:
        with path.open("rb", _BUFFER_B) as file:
            compressed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
            file.seek(0)
            yield _decompressed_lines(file, path) if compressed else iter(file)
    except OSError as error:
        raise FilesError(f"'{path}' cannot be read: {error.strerror}", origin=origin) from error


def _decompressed_lines(file: IO[bytes], path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(file) as decompressed:
            yield from io.BufferedReader(decompressed, _BUFFER_B)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        why = "it was cut short" if isinstance(error, EOFError) else str(error)
        raise GraphError(
            f"the packed file is damaged: {why}", origin=Origin(str(path)), hint="Copy or make it again."
        ) from error


def write_graph_file(path: Path, lines: Iterable[bytes]) -> None:
    """Write a graph file atomically; the same lines always give the same bytes.

    Raises `FilesError` when the file cannot be written.
    """
    try:
        with atomic_file(path, durable=True) as file:
            if path.suffix == GZIP_SUFFIX:
                # No name and no time in the gzip header.
                with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as compressed:
                    compressed.writelines(_join_lines(lines))
            else:
                file.writelines(lines)
    except OSError as error:
        raise FilesError(f"'{path}' cannot be written: {error.strerror}") from error


def _join_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Join lines into larger chunks, because each write to gzip has a cost."""
    chunk: list[bytes] = []
    size = 0
    for line in lines:
        chunk.append(line)
        size += len(line)
        if size >= _BUFFER_B:
            yield b"".join(chunk)
            chunk, size = [], 0
    yield b"".join(chunk)


# Reads the tasks of a payload from a graph file, and writes them to one.


def read_tasks(path: Path, name: str, origin: Origin | None) -> AcquiredPayload:
    """Read the tasks of a graph file; an empty `name` keeps the payload name of the file.

    `origin` is where the file was named. Raises `FilesError` or `GraphError` if it cannot be read or is wrong.
    """
    place = Origin(str(path))
    with open_graph_file(path, origin) as lines:
        content = read_graph_file(lines, place)
    graph = msgspec.structs.replace(content.graph, name=name or content.graph.name)
    start = Origin(place.file, 1, 1)
    commands = {label: _to_node(command, start) for label, command in content.commands.items()}
    return AcquiredPayload(graph=graph, files=(path,), commands=commands, values=content.values)


def write_tasks(acquired: AcquiredPayload, path: Path, root: Path) -> None:
    """Write the tasks of a payload to a graph file.

    Files in the run directory `root` are named by absolute paths. Raises `FilesError` or `GraphError` if the file
    cannot be written, or if a value does not fit into JSON.
    """
    commands = {label: _to_command(node) for label, node in acquired.commands.items()}
    write_graph_file(path, graph_lines(_with_absolute_paths(acquired, root), commands=commands, values=acquired.values))


def holds_quanta(path: Path) -> bool:
    """Tell whether a graph file's tasks are quanta; an unreadable file is not (its reader reports the error)."""
    try:
        with open_graph_file(path) as lines:
            return RUN_GRAPH in read_header(next(lines, b""), Origin(str(path))).values
    except LongshoreError:
        return False


def _with_absolute_paths(acquired: AcquiredPayload, root: Path) -> TaskGraph:
    """Return the graph with absolute paths, for use by another run in another directory."""
    kept_files = frozenset(acquired.kept_files)
    graph = acquired.graph
    files = {
        name: msgspec.structs.replace(file, path=str(root / file.path)) if file.path in kept_files else file
        for name, file in graph.files.items()
    }
    return msgspec.structs.replace(graph, files=files) if kept_files else graph


def _to_command(node: Node) -> Command:
    return tuple(word.text for word in node.value) if isinstance(node.value, list) else node.text


def _to_node(command: Command, origin: Origin) -> Node:
    if isinstance(command, str):
        return Node(command, origin)
    return Node([Node(word, origin) for word in command], origin)
