"""Reads WfFormat 1.5 and 1.6, the JSON of recorded workflows (WfCommons), into a graph of tasks that replay them."""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import msgspec

from longshore.errors import ConfigError, CycleError, GraphError, Origin
from longshore.model.tasks import Dag, File, Task, TaskGraph
from longshore.model.values import YamlValue
from longshore.model.wording import NAME_LIKENESS, did_you_mean, name_all

# Builds the command line of the replay program (``bin/replay.py``) from a recorded task, scaled.


ROOT = "data"
"""Folder of the run directory for the inputs and outputs of replayed tasks."""

LARGEST_AMOUNT = 2**63 - 1
"""Upper bound of amounts: the largest signed 64-bit integer."""

SCALES: Mapping[str, float] = {"timeScale": 0.01, "memoryScale": 0, "outputScale": 0.001}
"""Defaults of the numbers that the recorded amounts are multiplied by, per key of the ``replay`` map."""

PROGRAMS: Mapping[str, str] = {"python": "python3", "program": "replay.py"}
"""Default interpreter and path of the replay program; the caller usually replaces both."""

_LONGEST_COMMAND_B = 100_000
"""Longer commands go into a file: Linux limits one word to 128 KiB, and a wrapper may make the line one word."""


class ReplaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the replay: the ``replay`` map of the configuration, checked."""

    python: str
    program: str
    time_scale: float
    memory_scale: float
    output_scale: float

    def command(
        self,
        *,
        name: str,
        run_s: float | None,
        cpu_percent: float | None,
        memory_b: float | None,
        inputs: Iterable[tuple[str, int]],
        outputs: Iterable[tuple[str, int]],
        words_file: str,
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Command that repeats a task, and the argument file if the command is too long.

        Recorded amounts are ``None`` if unknown. `inputs` and `outputs` are paths relative to `ROOT` with recorded
        sizes in bytes; the command checks the first and makes the second. `words_file` is the path of the argument
        file, relative to the run directory.
        """
        seconds = min(max(run_s or 0.0, 0.0) * self.time_scale, float(LARGEST_AMOUNT))
        cpu = min(max(cpu_percent or 0.0, 0.0) / 100, 1.0)
        memory = _scale_amount(memory_b or 0.0, self.memory_scale)
        words = ["--name", name, "--seconds", _format_number(seconds), "--cpu", _format_number(cpu)]
        if memory:
            words += "--memory", str(memory)
        words += "--root", ROOT
        for option, files in (("--input", inputs), ("--output", outputs)):
            for path, size_b in files:
                words += option, f"{_scale_amount(size_b, self.output_scale)}:{path}"
        program = (self.python, "-I", "-S", self.program)
        if sum(len(word.encode()) + 1 for word in words) <= _LONGEST_COMMAND_B:
            return (*program, *words), {}
        text = msgspec.json.format(msgspec.json.encode(words), indent=1).decode()
        return (*program, f"@{words_file}"), {words_file: text + "\n"}


def read_replay_settings(settings: Mapping[str, YamlValue]) -> ReplaySettings:
    """Check a ``replay`` map.

    Raises `ConfigError` if a key is unknown or a scale is not a number of at least 0.
    """
    known = [*SCALES, *PROGRAMS]
    for key in settings:
        if key not in known:
            hint = did_you_mean(str(key), known, likeness=NAME_LIKENESS) or name_all(SCALES)
            raise ConfigError(f"unknown key 'replay.{key}'", hint=hint)
    return ReplaySettings(
        python=str(settings.get("python", PROGRAMS["python"])),
        program=str(settings.get("program", PROGRAMS["program"])),
        time_scale=_read_scale(settings, "timeScale"),
        memory_scale=_read_scale(settings, "memoryScale"),
        output_scale=_read_scale(settings, "outputScale"),
    )


def _read_scale(settings: Mapping[str, YamlValue], key: str) -> float:
    default = SCALES[key]
    given = settings.get(key, default)
    # Text is tried as well, because a value that was put together from variables is text.
    try:
        value = float(given) if isinstance(given, int | float | str) and not isinstance(given, bool) else math.nan
    except (ValueError, OverflowError):
        value = math.nan
    if not 0 <= value < math.inf:
        raise ConfigError(
            f"'replay.{key}' must be a number, 0 or more, not {given!r}",
            hint=f"It multiplies what was recorded; 1 repeats it in full, and the default is {default}.",
        )
    return value


def _scale_amount(amount: float, scale: float) -> int:
    exact = min(max(amount, 0) * scale, float(LARGEST_AMOUNT))
    nearest = round(exact)
    # 100 * 0.07 is 7.000000000000001, and still means 7.
    return nearest if math.isclose(exact, nearest, rel_tol=1e-12) else math.ceil(exact)


def _format_number(number: float) -> str:
    return f"{round(number, 6):.15g}"


VERSION = "1.5"
"""Version of WfFormat that is written."""
VERSIONS = (VERSION, "1.6")
"""Versions that are read: what is read of them is the same."""

_BATCH = 4096
"""Bits of one number; more would take too much memory in a large graph."""

_NUMBER = re.compile(r"[-_.:#](?:ID)?[0-9]+$")
"""The number of a task at the end of its name, as in ``mProject_ID0000001``; ``bowtie2`` has none."""
_INTERPRETERS = frozenset(
    {"bash", "sh", "env", "java", "node", "perl", "python", "python2", "python3", "ruby", "R", "Rscript"}
)
"""Programs that run other programs, and so do not tell kinds of tasks apart."""

_Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
_Amount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_AMOUNT)]


class _Version(msgspec.Struct):
    schema_version: Any = msgspec.field(name="schemaVersion", default=None)


class _RecordedTask(msgspec.Struct):
    # In the model's words, so that these can be nodes of a graph: WfFormat's id is the name of the task.
    name: _Text = msgspec.field(name="id")
    recorded_name: _Text = msgspec.field(name="name")
    parents: list[str] = msgspec.field(default_factory=list)
    children: list[str] = msgspec.field(default_factory=list)
    inputs: list[str] = msgspec.field(name="inputFiles", default_factory=list)
    outputs: list[str] = msgspec.field(name="outputFiles", default_factory=list)


class _RecordedFile(msgspec.Struct):
    id: _Text
    size_b: _Amount = msgspec.field(name="sizeInBytes")


class _Execution(msgspec.Struct):
    # The number of cores (coreCount) is not read: what a job asks for is the user's to say, and the replay of a task
    # keeps one core busy at most.
    id: _Text
    run_s: float | None = msgspec.field(name="runtimeInSeconds", default=None)
    cpu_percent: float | None = msgspec.field(name="avgCPU", default=None)
    memory_b: float | None = msgspec.field(name="memoryInBytes", default=None)
    # Decoded by `_program`: what a recorder wrote there is no reason to refuse the workflow.
    command: Any = None


class _Specification(msgspec.Struct):
    tasks: list[_RecordedTask]
    files: list[_RecordedFile] = msgspec.field(default_factory=list)


class _Executions(msgspec.Struct):
    tasks: list[_Execution] = msgspec.field(default_factory=list)


class _Workflow(msgspec.Struct):
    specification: _Specification
    execution: _Executions | None = None


class _Document(msgspec.Struct):
    name: _Text
    workflow: _Workflow


def read_wfformat(text: bytes, settings: Mapping[str, YamlValue], origin: Origin) -> TaskGraph:
    """Read a recorded workflow.

    `settings` is the ``replay`` map: ``timeScale``, ``memoryScale``, ``outputScale``, and ``python`` and ``program``,
    the interpreter and the absolute path of the replay program. ``origin.file`` is the payload's path.

    Raises `ConfigError` if the ``replay`` map is invalid, `GraphError` if the document is not valid WfFormat, and
    `CycleError` if tasks wait for each other.
    """
    replay = read_replay_settings(settings)
    place = Origin(origin.file, layer=origin.layer)
    document = _decode(text.removeprefix(codecs.BOM_UTF8), place)
    specification, execution = document.workflow.specification, document.workflow.execution
    dag = _make_dag(specification.tasks, place)
    sizes = _sizes(specification.files, place)
    paths = _paths(dag.nodes, place)
    executions = _executions(execution.tasks if execution else [], dag.index, place)
    programs: dict[str, str] = {}

    def task(position: int, recorded: _RecordedTask, awaited: list[str]) -> Task:
        execution = executions.get(recorded.name, _Execution(recorded.name))
        command, program = replay.command(
            name=recorded.name,
            run_s=execution.run_s,
            cpu_percent=execution.cpu_percent,
            memory_b=execution.memory_b,
            inputs=[(paths[name], sizes.get(name, 0)) for name in awaited],
            outputs=[(paths[name], sizes.get(name, 0)) for name in dict.fromkeys(recorded.outputs)],
            words_file=f"programs/replay/{position}.args",
        )
        programs.update(program)
        return Task(
            name=recorded.name,
            label=_label(recorded.recorded_name, execution),
            command=command,
            inputs=tuple(dict.fromkeys(recorded.inputs)),
            outputs=tuple(dict.fromkeys(recorded.outputs)),
        )

    tasks = [task(position, dag.nodes[position], awaited) for position, awaited in enumerate(_awaited_inputs(dag))]
    files = {name: File(name=name, path=f"{ROOT}/{path}", size_b=sizes.get(name)) for name, path in paths.items()}
    return TaskGraph(name=document.name, dag=Dag(tasks, dag.edges()), files=files, programs=programs)


# ------------------------------------------------------------------------------------------------------ from the text


def _decode(text: bytes, place: Origin) -> _Document:
    """Decode a document, after a check of its version."""
    try:
        text.decode()
        found = msgspec.json.decode(text, type=_Version).schema_version
        if found not in VERSIONS:
            raise _version_error(found, place)
        document = msgspec.json.decode(text, type=_Document)
    except msgspec.ValidationError as error:
        raise _validation_error(error, place) from None
    except msgspec.DecodeError as error:
        raise _json_error(error, text, place) from None
    except UnicodeDecodeError as error:
        raise GraphError("this is not UTF-8, as JSON has to be", origin=_position(text, error.start, place)) from None
    except RecursionError:
        raise GraphError("this is nested too deeply to be WfFormat", origin=place) from None
    if not document.workflow.specification.tasks:
        raise GraphError("'workflow.specification.tasks' is empty: there is nothing to run", origin=place)
    return document


def _version_error(found: object, place: Origin) -> GraphError:
    versions = " and ".join(VERSIONS)
    if found is None:
        message = f"there is no 'schemaVersion' in this document; Longshore reads WfFormat {versions}"
    else:
        shown = msgspec.json.encode(found).decode()
        shown = shown if len(shown) <= 40 else shown[:40] + "..."
        message = f"'schemaVersion' is {shown}; Longshore reads WfFormat {versions}"
    hint = f"Take the trace from https://github.com/wfcommons/WfInstances, or convert it to version {VERSIONS[-1]}."
    return GraphError(message, origin=place, hint=hint)


def _validation_error(error: msgspec.ValidationError, place: Origin) -> GraphError:
    """Error for JSON that is not WfFormat; the place is a JSON path, because msgspec reports no other."""
    what, _, where = str(error).partition(" - at `$")
    where = where.strip("`.") or "the document"
    what = what.replace("`", "'")
    return GraphError(f"{where}: {what[:1].lower()}{what[1:]}", origin=place)


def _json_error(error: msgspec.DecodeError, text: bytes, place: Origin) -> GraphError:
    """Error for text that is not JSON, with line and column."""
    if not text.strip():
        return GraphError("the file is empty", origin=place)
    if found := re.fullmatch(r"JSON is malformed: (.*) \(byte (\d+)\)", str(error)):
        return GraphError(f"this is not JSON: {found[1]}", origin=_position(text, int(found[2]), place))
    return GraphError(
        "the file is cut short: its JSON has no end",
        origin=_position(text, len(text.rstrip()), place),
        hint="Copy or fetch it again.",
    )


def _position(text: bytes, offset: int, place: Origin) -> Origin:
    begin = text.rfind(b"\n", 0, offset) + 1
    column = len(text[begin:offset].decode(errors="replace")) + 1
    return Origin(place.file, text.count(b"\n", 0, offset) + 1, column, place.layer)


# ------------------------------------------------------------------------------------------------- from the document


def _make_dag(tasks: Sequence[_RecordedTask], place: Origin) -> Dag[_RecordedTask]:
    """Graph of the tasks, from parents and children together."""
    index: dict[str, int] = {}
    for position, task in enumerate(tasks):
        where = f"workflow.specification.tasks[{position}]"
        if index.setdefault(task.name, position) != position:
            first = f"workflow.specification.tasks[{index[task.name]}]"
            raise GraphError(f"{where}: '{task.name}' is the id of {first} already", origin=place)
        if "\0" in task.name + task.recorded_name:
            raise GraphError(f"{where}: an id or name must not contain a NUL character", origin=place)

    try:
        return Dag(tasks, _edges(tasks, index, place))
    except CycleError as error:
        raise CycleError(error.ring, origin=place, hint="Each waits for the one before it.") from None


def _edges(tasks: Sequence[_RecordedTask], index: Mapping[str, int], place: Origin) -> Iterator[tuple[int, int]]:
    for position, task in enumerate(tasks):
        for number, parent in enumerate(task.parents):
            if parent not in index:
                raise _unknown_task_error(f"tasks[{position}].parents[{number}]", task.name, parent, index, place)
            yield index[parent], position
        for number, child in enumerate(task.children):
            if child not in index:
                raise _unknown_task_error(f"tasks[{position}].children[{number}]", task.name, child, index, place)
            yield position, index[child]


def _unknown_task_error(where: str, task: str, missing: str, index: Mapping[str, int], place: Origin) -> GraphError:
    message = f"workflow.specification.{where}: '{task}' names the unknown task '{missing}'"
    return GraphError(message, origin=place, hint=did_you_mean(missing, index, likeness=NAME_LIKENESS))


def _label(recorded_name: str, execution: _Execution) -> str:
    """Kind of a task: its program, else its name without its number."""
    return _program(execution) or _NUMBER.sub("", recorded_name) or recorded_name


def _program(execution: _Execution) -> str:
    """Name of the recorded program; empty if it does not tell the kind: an interpreter, or a whole script."""
    program = execution.command.get("program") if isinstance(execution.command, dict) else None
    name = program.rpartition("/")[2] if isinstance(program, str) else ""
    return name if name.isprintable() and " " not in name and name not in _INTERPRETERS else ""


def _sizes(files: Sequence[_RecordedFile], place: Origin) -> dict[str, int]:
    """Recorded size per file; unlisted files have no size."""
    sizes: dict[str, int] = {}
    for position, file in enumerate(files):
        if file.id in sizes:
            message = f"workflow.specification.files[{position}]: the file '{file.id}' is listed twice"
            raise GraphError(message, origin=place)
        sizes[file.id] = file.size_b
    return sizes


def _executions(records: Sequence[_Execution], index: Mapping[str, int], place: Origin) -> dict[str, _Execution]:
    """Recorded execution per task."""
    executions: dict[str, _Execution] = {}
    for position, record in enumerate(records):
        where = f"workflow.execution.tasks[{position}]"
        if record.id not in index:
            message = f"{where}: the task '{record.id}' is not in the specification"
            raise GraphError(message, origin=place, hint=did_you_mean(record.id, index))
        if executions.setdefault(record.id, record) is not record:
            raise GraphError(f"{where}: the task '{record.id}' was recorded twice", origin=place)
    return executions


def _paths(tasks: Sequence[_RecordedTask], place: Origin) -> dict[str, str]:
    """Path, relative to `ROOT`, of each file that a task reads or writes."""
    paths: dict[str, str] = {}
    names: dict[str, str] = {}
    for task in tasks:
        for name in (*task.inputs, *task.outputs):
            if name in paths:
                continue
            path = paths[name] = _path(name, task.name, place)
            if names.setdefault(path, name) != name:
                message = f"the files '{names[path]}' and '{name}' would both be '{ROOT}/{path}'"
                raise GraphError(message, origin=place, hint="Give them different ids.")
    made = {paths[name] for task in tasks for name in task.outputs}
    for path in made:
        end = path.rfind("/")
        while end > 0:
            if (folder := path[:end]) in made:
                message = f"the file '{names[folder]}' is in the way of '{names[path]}': it cannot be a folder as well"
                raise GraphError(message, origin=place, hint="Remove one of the two, or give it another id.")
            end = path.rfind("/", 0, end)
    return paths


def _path(name: str, task: str, place: Origin) -> str:
    parts = [part for part in name.split("/") if part not in {"", "."}]
    if not parts or ".." in parts or "\0" in name:
        message = f"the task '{task}' has a file of the id {name!r}, which is no path inside the run directory"
        raise GraphError(message, origin=place, hint="Remove '..' and NUL characters, and let every id name a file.")
    return "/".join(parts)


# ------------------------------------------------------------------------------------------------------ for the replay


def _awaited_inputs(dag: Dag[_RecordedTask]) -> list[list[str]]:
    """Per task, the inputs that an ancestor certainly makes before the task starts.

    The replay checks these, and so proves the order. It checks no others: external files are absent, and a task may
    update a file that a later task updates again.
    """
    makers: dict[str, set[int]] = {}
    for position, task in enumerate(dag.nodes):
        for name in task.outputs:
            makers.setdefault(name, set()).add(position)
    made = [[name for name in dict.fromkeys(task.inputs) if name in makers] for task in dag.nodes]
    wanted = [{maker for name in names for maker in makers[name]} for names in made]
    before = _ancestors_among(dag, wanted)
    return [
        [name for name in names if not makers[name].isdisjoint(ancestors)]
        for names, ancestors in zip(made, before, strict=True)
    ]


def _ancestors_among(dag: Dag[_RecordedTask], wanted: Sequence[set[int]]) -> list[set[int]]:
    """Per node, the wanted nodes that are its ancestors."""
    found = [these.intersection(parents) for these, parents in zip(wanted, dag.parents, strict=True)]
    # Few are left as a rule. A bit stands for each, and goes down the graph with all others of its batch at once.
    distant = {node: rest for node, these in enumerate(wanted) if (rest := these - found[node])}
    far = sorted(set().union(*distant.values()))
    for start in range(0, len(far), _BATCH):
        bits = {node: 1 << number for number, node in enumerate(far[start : start + _BATCH])}
        above = [0] * len(dag)
        for node in dag.order:
            reached = 0
            for parent in dag.parents[node]:
                reached |= above[parent]
            found[node].update(other for other in distant.get(node, ()) if reached & bits.get(other, 0))
            above[node] = reached | bits.get(node, 0)
    return found
