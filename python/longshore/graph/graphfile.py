"""Turns the lines of a graph file into a graph of tasks, a batch of lines at a time."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from longshore.config.search import did_you_mean
from longshore.errors import CycleError, GraphError
from longshore.graph.graphlines import KIND, VERSION, GraphHeader, StoredFile, StoredProgram, StoredTask
from longshore.model.dag import Dag
from longshore.model.file import File
from longshore.model.garbage import collection_paused
from longshore.model.task import Command, DataId, Scalar, Task, TaskGraph
from longshore.origin import Origin

_BATCH: Final = 4096
"""Lines that are taken together: enough that Python's own work per line does not count."""
_NUL: Final = b"\\u0000"
_AGAIN: Final = "Copy or make it again."

_data_id: Final = msgspec.json.Decoder(dict[str, Scalar]).decode

T = TypeVar("T")


class _Start(msgspec.Struct, frozen=True):
    """The little of a header that tells whether the rest can be read."""

    kind: Any = None
    version: Any = None


class GraphFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a graph file holds.

    Attributes
    ----------
    graph
        The tasks.
    commands
        What tasks run that have no command of their own, per label.
    values
        What further names stand for in commands.
    """

    graph: TaskGraph
    commands: Mapping[str, Command]
    values: Mapping[str, str]


def read_header(line: bytes, origin: Origin) -> GraphHeader:
    """The header of a graph file, from its first line.

    Raises
    ------
    GraphError
        It is none, or of a newer version.
    """
    line = line.removeprefix(codecs.BOM_UTF8)
    place = Origin(origin.file, 1, 1)
    try:
        start = msgspec.json.decode(line, type=_Start)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        start = _Start()
    if start.kind != KIND:
        hint = f'The first line of one begins with {{"kind":"{KIND}","version":{VERSION}, and counts what follows.'
        raise GraphError("this is no graph file" if line.strip() else "the file is empty", origin=place, hint=hint)
    version = start.version
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise GraphError("the graph file does not say its 'version', a whole number", origin=place)
    if version > VERSION:
        raise GraphError(
            f"this graph file has version {version}; this Longshore reads up to {VERSION}",
            origin=place,
            hint="Use the version of Longshore that wrote it, or a newer one.",
        )
    return _Lines([line], origin).of("header", 1, GraphHeader)[0]


def read_graph_file(lines: Iterable[bytes], origin: Origin) -> GraphFile:
    """Read a graph file.

    Parameters
    ----------
    lines
        Its lines, each with its line feed.
    origin
        Its ``file`` is the file's path.

    Raises
    ------
    GraphError
        It is no graph file, one of a newer version, or wrong; the error names the line.
    CycleError
        Tasks wait for each other.
    """
    lines = iter(lines)
    with collection_paused():
        header = read_header(next(lines, b""), origin)
        reader = _Lines(lines, origin, line=2)
        files = _files(reader, header)
        tasks, parents = _tasks(reader, header, list(files))
        programs = {
            program.path: program.text
            for batch in reader.batches("program", header.programs, StoredProgram)
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
        )
    return GraphFile(graph=graph, commands=header.commands, values=header.values)


class _Lines:
    """Lines of a file, taken a batch at a time, of which it is known where they are."""

    def __init__(self, lines: Iterable[bytes], origin: Origin, line: int = 1) -> None:
        self.lines = iter(lines)
        self.file = origin.file
        self.line = line
        """Number of the first line of the batch that was taken last."""
        self.next = line

    def of(self, what: str, count: int, kind: type[T]) -> list[T]:
        """That many records."""
        return [record for batch in self.batches(what, count, kind) for record in batch]

    def batches(self, what: str, count: int, kind: type[T]) -> Iterator[list[T]]:
        """That many records, in batches."""
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
                    hint=_AGAIN,
                )
            yield self._decoded(lines, decoder, what)
            taken += len(lines)

    def _decoded(self, lines: list[bytes], decoder: msgspec.json.Decoder[T], what: str) -> list[T]:
        whole = b"".join(lines)
        try:
            # NUL is told of in words of our own; programs may hold it, and are few.
            if _NUL not in whole and len(records := decoder.decode_lines(whole)) == len(lines):
                return records
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass  # one of them is wrong, and found below
        return [self._one(line, decoder.decode, what, number) for number, line in enumerate(lines, self.line)]

    def _one(self, line: bytes, decode: Callable[[bytes], T], what: str, number: int) -> T:
        try:
            record = decode(line)
        except msgspec.ValidationError as error:
            self._refuse(what, str(error), number)
        except msgspec.DecodeError as error:
            self._malformed(what, line, str(error), number)
        except UnicodeDecodeError:
            origin = Origin(self.file, number, _not_utf8(line))
            raise GraphError("this is not UTF-8, as JSON has to be", origin=origin) from None
        except RecursionError:
            raise GraphError(f"this {what} is nested too deeply", origin=Origin(self.file, number, 1)) from None
        if _NUL in line and what != "program" and _has_nul(msgspec.json.decode(line)):
            message = f"this {what} holds the character NUL, which no name and no command can have"
            raise GraphError(message, origin=Origin(self.file, number, 1))
        return record

    def _refuse(self, what: str, error: str, number: int) -> NoReturn:
        """JSON, but no such record."""
        hint = ""
        if found := re.fullmatch(r"Object contains unknown field `(.*)`", error):
            known = KNOWN[what]
            hint = did_you_mean(found[1], known) or f"Known are {', '.join(known)}."
        message = f"this is no {what}: {_reason(error)}"
        raise GraphError(message, origin=Origin(self.file, number, 1), hint=hint)

    def _malformed(self, what: str, line: bytes, error: str, number: int) -> NoReturn:
        """No JSON."""
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
            hint=_AGAIN,
        )

    def refuse_more(self, header: GraphHeader) -> None:
        """Refuse lines that the header does not count."""
        self.line = self.next
        for line in self.lines:
            if line.strip():
                counted = f"{header.files:,} files, {header.tasks:,} tasks and {header.programs:,} programs"
                raise GraphError(
                    f"there is more in the file than the {counted} that its first line counts",
                    origin=Origin(self.file, self.line, 1),
                )
            self.line += 1


def _not_utf8(line: bytes) -> int:
    """The column of the first byte that is no UTF-8."""
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return len(line[: error.start].decode()) + 1
    return 1


def _reason(error: str) -> str:
    """What msgspec says is wrong, the place in front."""
    reason, _, where = error.replace("`", "'").partition(" - at '$")
    where = where.removesuffix("'").removeprefix(".")
    return (f"'{where}': " if where else "") + reason[:1].lower() + reason[1:]


KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "header": GraphHeader.__struct_fields__,
    "file": StoredFile.__struct_fields__,
    "task": StoredTask.__struct_fields__,
    "program": StoredProgram.__struct_fields__,
}
"""Keys that each kind of line may have."""


def _has_nul(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_nul(item) for pair in value.items() for item in pair)
    if isinstance(value, list):
        return any(map(_has_nul, value))
    return isinstance(value, str) and "\0" in value


# ------------------------------------------------------------------------------------------------------ from the lines


def _files(reader: _Lines, header: GraphHeader) -> dict[str, File]:
    files: dict[str, File] = {}
    for batch in reader.batches("file", header.files, StoredFile):
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


def _tasks(reader: _Lines, header: GraphHeader, files: Sequence[str]) -> tuple[list[Task], list[list[int]]]:
    """The tasks, and the numbers of each one's parents."""
    tasks: list[Task] = []
    parents: list[list[int]] = []
    build = _Builder(header.tasks, files)
    for batch in reader.batches("task", header.tasks, StoredTask):
        for number, stored in enumerate(batch, reader.line):
            try:
                tasks.append(build.task(stored))
                parents.append(build.parents(stored))
            except GraphError as error:
                error.origin = Origin(reader.file, number, 1)
                raise
    return tasks, parents


class _Builder:
    """Makes tasks of their lines, in which equal things become one."""

    def __init__(self, count: int, files: Sequence[str]) -> None:
        self._numbers = list(range(count))
        self._files = files
        self._labels: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._data_ids: dict[bytes, DataId] = {}
        self._names: dict[tuple[int, ...], tuple[str, ...]] = {}
        self._nothing: DataId = {}
        self._no_paths: Mapping[str, tuple[str, ...]] = {}

    def task(self, stored: StoredTask) -> Task:
        """The task of a line."""
        label = stored.label
        return Task(
            name=stored.name,
            label=self._labels.setdefault(label, label),
            data_id=self._data_id(stored, stored.data_id),
            command=stored.command,
            inputs=self._named(stored, stored.inputs),
            outputs=self._named(stored, stored.outputs),
            paths=self._paths(stored) if stored.paths else self._no_paths,
            node_id=stored.name if stored.node_id == stored.name else stored.node_id,
            implied=self._data_id(stored, stored.implied),
        )

    def parents(self, stored: StoredTask) -> list[int]:
        """The numbers of a task's parents, each once."""
        parents = stored.parents
        if not parents:
            return parents
        try:
            # One object per number, whoever names it: a graph has several times as many edges as tasks.
            found = [self._numbers[parent] for parent in parents]
        except IndexError:
            nowhere = next(parent for parent in parents if parent >= len(self._numbers))
            raise GraphError(
                f"the task '{stored.name}' waits for the task {nowhere}, which is not there: "
                f"there are {len(self._numbers):,}, counted from 0"
            ) from None
        return found if len(found) == 1 or len(set(found)) == len(found) else list(dict.fromkeys(found))

    def _data_id(self, stored: StoredTask, raw: msgspec.Raw | msgspec.UnsetType) -> DataId:
        if raw is msgspec.UNSET:
            return self._nothing
        # Equal text is the same map exactly, which equal values are not: 1, 1.0 and true are equal.
        text = bytes(raw)
        found = self._data_ids.get(text)
        if found is None:
            try:
                values = _data_id(text)
            except msgspec.MsgspecError as error:
                message = f"the data ID of the task '{stored.name}' is wrong: {_reason(str(error))}"
                raise GraphError(message) from None
            for name, value in values.items():
                if type(value) is str:
                    values[name] = self._texts.setdefault(value, value)
            found = self._data_ids[text] = values
        return found

    def _named(self, stored: StoredTask, numbers: list[int]) -> tuple[str, ...]:
        if not numbers:
            return ()
        key = tuple(numbers)
        found = self._names.get(key)
        if found is None:
            found = self._names[key] = tuple(self._file(stored, number) for number in key)
        return found

    def _paths(self, stored: StoredTask) -> dict[str, tuple[str, ...]]:
        return {
            dataset: tuple(self._file(stored, path) if isinstance(path, int) else path for path in paths)
            for dataset, paths in stored.paths.items()
        }

    def _file(self, stored: StoredTask, number: int) -> str:
        try:
            return self._files[number]
        except IndexError:
            raise GraphError(
                f"the task '{stored.name}' names the file {number}, which is not there: "
                f"there are {len(self._files):,}, counted from 0"
            ) from None


def _dag(tasks: list[Task], parents: list[list[int]], header: GraphHeader, origin: Origin) -> Dag[Task]:
    """The graph, once it is certain that it is whole."""
    edges = sum(map(len, parents))
    if header.edges is not None and edges != header.edges:
        raise GraphError(
            f"the file is damaged: its tasks have {edges:,} edges, and its first line counts {header.edges:,}",
            origin=Origin(origin.file, 1, 1),
            hint=_AGAIN,
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
