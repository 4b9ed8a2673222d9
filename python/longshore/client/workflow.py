"""Workflows written in Python: tasks are commands, and the result is a graph file with a configuration beside it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import yaml

from longshore.client.functions import submit
from longshore.errors import FilesError, GraphError, UsageError
from longshore.graphs.graph_file import GRAPH_KIND, GRAPH_VERSION, FileLine, GraphHeader, write_graph_file
from longshore.model.file_identity import FileIdentity, PathFolders, one_spelling
from longshore.model.tasks import Command, Scalar, is_remote
from longshore.model.values import YamlValue
from longshore.model.wording import count_noun
from longshore.system.atomic import write_atomically
from longshore.system.folder import make_folders
from longshore.system.links import DiskLinks

if TYPE_CHECKING:
    from longshore.client.run import Run

_REQUESTS: Final = {
    "cpus": "requestCpus",
    "memory": "requestMemory",
    "walltime": "requestWalltime",
    "disk": "requestDisk",
    "gpus": "requestGpus",
}
"""Key of the configuration per parameter of `Workflow.task`."""
_LABELS: Final = "pipetask"
"""Key of the configuration with a section per label."""

Paths = str | Path | Iterable[str | Path]
"""One path, or several."""


class WorkflowTask:
    """A task of a workflow: one command.

    Attributes
    ----------
    name, label
        Its unique name, and its label.
    outputs
        Paths of the files that it makes.
    """

    __slots__ = ("index", "label", "name", "outputs")

    def __init__(self, index: int, name: str, label: str, outputs: tuple[str, ...]) -> None:
        self.index = index
        self.name = name
        self.label = label
        self.outputs = outputs

    def __repr__(self) -> str:
        """Return its name."""
        return f"<WorkflowTask {self.name}>"


class _Line(msgspec.Struct, gc=False, omit_defaults=True):
    """A task as a line of the graph file; see `longshore.graphs.graph_file.TaskLine`."""

    name: str
    label: str
    parents: tuple[int, ...] = ()
    data_id: Mapping[str, Scalar] = {}
    command: Command | None = None
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()


class Workflow:
    """A workflow: tasks, their order, and their files.

    Parameters
    ----------
    name
        Name of the payload.
    settings
        Values of the configuration: for all jobs, such as ``{"numberOfRetries": 2}``, and under ``pipetask`` for those
        of a label, such as ``{"pipetask": {"fit": {"memoryMultiplier": 3}}}``.

    Examples
    --------
    >>> wf = longshore.Workflow("study")
    >>> fits = [wf.task("fit", ["fit.py", str(n)], outputs=[f"{n}.json"], data_id={"n": n}) for n in range(3)]
    >>> wf.task("plot", "plot.py *.json", inputs=[path for fit in fits for path in fit.outputs], memory="4 GiB")
    <WorkflowTask plot>
    >>> run = wf.submit()
    """

    def __init__(self, name: str, settings: Mapping[str, YamlValue] | None = None) -> None:
        if not name or "/" in name:
            raise UsageError(f"'{name}' is no name of a workflow", hint="Use a word without a slash.")
        self.name = name
        self.settings = dict(settings or {})
        self._lines: list[_Line] = []
        self._names: set[str] = set()
        self._files: dict[str, int] = {}
        self._maker: dict[int, int] = {}
        """Number of the task that makes a file, by the file's number."""
        self._requests: dict[str, dict[str, YamlValue]] = {}
        """Requests per label."""
        self._counts: dict[str, int] = {}

    def __len__(self) -> int:
        """Return the number of tasks."""
        return len(self._lines)

    def __repr__(self) -> str:
        """Return its name and the number of its tasks."""
        return f"<Workflow {self.name}: {count_noun(len(self), 'task')}>"

    def task(
        self,
        label: str,
        command: str | Sequence[str],
        *,
        name: str | None = None,
        data_id: Mapping[str, Scalar] | None = None,
        inputs: Paths = (),
        outputs: Paths = (),
        after: WorkflowTask | Iterable[WorkflowTask] = (),
        **requests: YamlValue,
    ) -> WorkflowTask:
        """Add a task.

        Parameters
        ----------
        label
            Kind of the task: what settings and reports group by.
        command
            A line for the POSIX shell, or a program and its arguments.
        name
            Unique name; by default the label with the values of `data_id`, or with a number.
        data_id
            Value per dimension, such as ``{"visit": 101}``; reports and clusters use it.
        inputs, outputs
            Paths of files, or one path. A task waits for the makers of its inputs. Folders of outputs are made.
        after
            Further tasks that it waits for, or one.
        **requests
            ``cpus``, ``memory``, ``walltime``, ``disk``, ``gpus``: the request of all tasks of this label, such as
            ``memory="2 GiB"`` (a number is in MB) or ``walltime="1h30m"`` (a number is in s). Wins over `settings`.

        Raises
        ------
        GraphError
            The name is taken, another task makes one of the outputs, or a task in `after` is of another workflow.
        UsageError
            A request is unknown, or differs from that of earlier tasks of the label.
        TypeError
            A path is no path, or a task in `after` is no task.
        """
        # All is checked before anything is changed: a refused task leaves nothing behind.
        chosen, made = name or self._free_name(label, data_id), _texts(outputs)
        found = self._checked_requests(label, requests) if requests else None
        self._refuse_taken(chosen, made)
        line = _Line(
            name=chosen,
            label=label,
            parents=self._numbers_of((after,) if isinstance(after, WorkflowTask) else after),
            data_id=_checked(data_id) if data_id else {},
            command=command if isinstance(command, str) else tuple(command),
            inputs=self._numbers_of_files(_texts(inputs)),
            outputs=self._numbers_of_files(made),
        )
        if found:
            self._requests[label] = found
        if not name and not data_id:
            self._counts[label] = self._counts.get(label, 0) + 1
        return WorkflowTask(self._append(line), line.name, label, made)

    def to_graph_file(self, path: str | Path) -> Path:
        """Write the tasks as a graph file, compressed if the name ends in ``.gz``.

        Raises
        ------
        FilesError
            The file cannot be written.
        """
        target = Path(path)
        write_graph_file(target, self._lines_of_file())
        return target

    def save(self, folder: str | Path = ".") -> Path:
        """Write ``NAME.jsonl.gz`` and ``NAME.yaml``, which names it; return the path of the latter.

        ``longshore submit NAME.yaml`` runs it, also without this program.
        """
        place = Path(folder)
        try:
            make_folders(place)
        except OSError as error:
            raise FilesError(f"the folder '{place}' cannot be made: {error.strerror}") from error
        graph = self.to_graph_file(place / f"{self.name}.jsonl.gz")
        document: dict[str, object] = {"payloadName": self.name, "graphFile": graph.name, **self.settings}
        if self._requests:
            document[_LABELS] = self._label_sections()
        path = place / f"{self.name}.yaml"
        try:
            write_atomically(path, yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
        except OSError as error:
            raise FilesError(f"'{path}' cannot be written: {error.strerror}") from error
        return path

    def submit(
        self,
        *,
        folder: str | Path = ".",
        site: str | None = None,
        service: str | None = None,
        set: Mapping[str, YamlValue] | None = None,  # noqa: A002 - the name of the option
        share_outputs: bool = False,
        progress: bool = False,
    ) -> Run:
        """Save the workflow in `folder`, and submit it; the other parameters are those of `longshore.submit`.

        Commands and relative paths start in the current directory, not in `folder`.

        Raises
        ------
        LongshoreError
            The run cannot be prepared, or is refused.
        """
        return submit(
            self.save(folder), site=site, service=service, set=set, share_outputs=share_outputs, progress=progress
        )

    def _lines_of_file(self) -> Iterator[bytes]:
        encode = msgspec.json.Encoder().encode
        for record in self._records():
            try:
                yield encode(record) + b"\n"
            except UnicodeEncodeError as error:
                raise GraphError(f"a name of the workflow '{self.name}' is no Unicode text: {error}") from None

    def _records(self) -> Iterator[object]:
        """Return the lines of the graph file: header, files and tasks."""
        # Commands start in the directory of the submission, and relative paths of files in that of the run.
        here = str(Path.cwd() / "x")[:-1]
        makers, parts = self._makers_by_any_path(here)
        edges = 0
        for number, line in enumerate(self._lines):
            # A task may read a file in a folder that it fills.
            made = [makers[file] for file in line.inputs if file in makers and parts.get(file) != number]
            if made:
                line.parents = tuple(sorted({*line.parents, *made}))
            edges += len(line.parents)
        yield GraphHeader(
            kind=GRAPH_KIND,
            version=GRAPH_VERSION,
            name=self.name,
            tasks=len(self._lines),
            edges=edges,
            files=len(self._files),
            directories=tuple(self._output_folders(here)),
        )
        for path in self._files:
            yield FileLine(name=path, path="" if path.startswith("/") or is_remote(path) else here + path)
        yield from self._lines

    def _makers_by_any_path(self, here: str) -> tuple[Mapping[int, int], Mapping[int, int]]:
        """Return the number of the task that makes each file, by any path; and of those in a folder that it makes."""
        folders = PathFolders(FileIdentity(here, DiskLinks()))
        folders.add((self._files,))
        paths = list(self._files)
        are_plain = not folders.may_have_two()
        spelling = {} if are_plain else one_spelling([*(paths[file] for file in self._maker), *paths], folders.identity)
        made: dict[str, int] = {}
        for file, number in self._maker.items():
            path = spelling.get(paths[file], paths[file])
            if (other := made.setdefault(path, number)) != number:
                names = [self._lines[each].name for each in (number, other)]
                raise GraphError(f"'{names[0]}' and '{names[1]}' both make '{paths[file]}', by another path '{path}'")
        find_folder = folders.folder_finder(made, plain=are_plain)
        found, parts = dict(self._maker), {}
        for path, file in self._files.items():
            if file not in found and not is_remote(path):
                maker = made.get(spelling.get(path, path))
                if maker is None and (maker := find_folder(path[: path.rfind("/") + 1])) is not None:
                    parts[file] = maker
                if maker is not None:
                    found[file] = maker
        return found, parts

    def _append(self, line: _Line) -> int:
        """Append a line, and return its index."""
        index = len(self._lines)
        self._maker.update(dict.fromkeys(line.outputs, index))
        self._lines.append(line)
        self._names.add(line.name)
        return index

    def _output_folders(self, here: str) -> Iterable[str]:
        """Return the absolute folders of outputs on this host, in the order of the tasks; `here` ends in a slash."""
        paths = list(self._files)
        made = [paths[file] for file in self._maker]
        folders = dict.fromkeys(path.rpartition("/")[0] for path in made if not is_remote(path))
        return [folder if folder.startswith("/") else here + folder for folder in folders if folder]

    def _label_sections(self) -> dict[str, object]:
        """Return the settings per label, with the requests of tasks.

        Raises
        ------
        UsageError
            The settings per label are no maps.
        """
        given = self.settings.get(_LABELS) or {}
        if not isinstance(given, Mapping):
            raise UsageError(f"'{_LABELS}' of the workflow '{self.name}' is no map of labels: {given!r}")
        sections: dict[str, object] = dict(given)
        for label, requests in self._requests.items():
            section = given.get(label) or {}
            if not isinstance(section, Mapping):
                raise UsageError(f"'{_LABELS}.{label}' of the workflow '{self.name}' is no map: {section!r}")
            sections[label] = {**section, **requests}
        return sections

    def _refuse_taken(self, name: str, outputs: tuple[str, ...]) -> None:
        if name in self._names:
            raise GraphError(f"two tasks have the name '{name}'", hint="Give one of them another name.")
        for path in outputs:
            if (other := self._maker.get(self._files.get(path, -1))) is not None:
                raise GraphError(f"'{name}' and '{self._lines[other].name}' both make '{path}'")

    def _numbers_of_files(self, paths: tuple[str, ...]) -> tuple[int, ...]:
        files = self._files
        return tuple([files.setdefault(path, len(files)) for path in paths])

    def _numbers_of(self, tasks: Iterable[WorkflowTask]) -> tuple[int, ...]:
        numbers = []
        for task in tasks:
            if not isinstance(task, WorkflowTask):
                raise TypeError(f"'after' has {task!r}, which is no task: give what `Workflow.task` returned")
            if task.index >= len(self._lines) or self._lines[task.index].name != task.name:
                raise GraphError(f"'{task.name}' is no task of the workflow '{self.name}'")
            numbers.append(task.index)
        return tuple(sorted({*numbers}) if len(numbers) > 1 else numbers)

    def _free_name(self, label: str, data_id: Mapping[str, Scalar] | None) -> str:
        if data_id:
            return "_".join([label, *map(str, data_id.values())])
        number = self._counts.get(label, 0) + 1
        return label if number == 1 else f"{label}_{number}"

    def _checked_requests(self, label: str, requests: Mapping[str, YamlValue]) -> dict[str, YamlValue]:
        if unknown := sorted(requests.keys() - _REQUESTS.keys()):
            raise UsageError(f"a task has no '{unknown[0]}'", hint=f"Its requests are {', '.join(_REQUESTS)}.")
        found = {_REQUESTS[name]: value for name, value in requests.items()}
        if found and self._requests.get(label, found) != found:
            raise UsageError(
                f"tasks of the label '{label}' have different requests: {found} and {self._requests[label]}",
                hint="A request belongs to a label: give these tasks a label of their own.",
            )
        return found


def _texts(paths: Paths) -> tuple[str, ...]:
    """Return paths as text. Raises `TypeError` for anything else, such as a task."""
    return (os.fspath(paths),) if isinstance(paths, (str, Path)) else tuple([os.fspath(path) for path in paths])


def _checked(data_id: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
    """Return a copy of a data ID; raises `GraphError` for a number that JSON cannot hold."""
    for key, value in data_id.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise GraphError(f"the dimension '{key}' has no finite number: {value}")
    return dict(data_id)
