"""Builds a graph of tasks from a pipeline in YAML, its tables and a ``dataQuery``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec
from msgspec import structs

from longshore.config.merge import Node
from longshore.contract.context import Problem
from longshore.errors import FilesError, GraphError
from longshore.graph.declaration.description import (
    PipelineDeclaration,
    TaskEntry,
    read_declaration,
)
from longshore.graph.dimensions.dimensions import (
    Dimension,
    Row,
    column_resolver,
    read_dimensions,
    read_relations,
)
from longshore.graph.dimensions.universe import Universe, row_projection, too_many_combinations
from longshore.graph.pipeline.check_pipeline import read_templates
from longshore.graph.pipeline.doubts import note_doubts
from longshore.graph.pipeline.label_tasks import LabelTasks
from longshore.graph.pipeline.path_templates import (
    ExpandTemplate,
    PathTemplate,
    RequestedColumn,
    check_path_columns,
    check_requested_columns,
    parse_template,
    read_columns,
)
from longshore.graph.pipeline.placeholders import CommandContext
from longshore.graph.query.conditions import bind_conditions
from longshore.graph.query.query import parse_query
from longshore.graph.query.tables import Table
from longshore.model.error_collector import ErrorCollector
from longshore.model.tasks.dag import Dag
from longshore.model.tasks.file import File, is_remote
from longshore.model.tasks.file_identity import FileIdentity, PathFolders, one_spelling
from longshore.model.tasks.task import Task, TaskGraph
from longshore.model.wording import quote_value
from longshore.model.workflow.collection_pause import collection_paused
from longshore.origin import Origin

DEFAULT_LIMIT: Final = 1_000_000
"""Tasks of a pipeline, unless more are asked for."""
_ROWS_PER_TASK: Final = 10
"""How many times the limit of tasks the rows of a join, and what tasks wait for, may be."""


class ExternalFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Files of a dataset that no task produces; they must exist."""

    dataset: str
    paths: Mapping[str, str]
    """Per path, the first task that reads it."""
    origin: Origin
    """Origin of the dataset's path."""


class SpreadOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset with several files from one task, which lacks dimensions of their path."""

    label: str
    dataset: str
    dimensions: Sequence[str]
    """The dimensions that the task lacks."""
    files: int
    """Number of files of one task; 0 if only a sample of the tasks was made."""
    origin: Origin


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks of a pipeline, their commands and their external files."""

    graph: TaskGraph
    """The tasks, without commands."""
    commands: Mapping[str, Node]
    """Per label, the command as written: text or a list of texts. `Task.data_id` and `Task.paths` fill in its names."""
    external: Sequence[ExternalFiles]
    tasks: int
    """Number of tasks; the graph has fewer if it is a sample."""
    spread: Sequence[SpreadOutput] = ()
    doubts: Sequence[Problem] = ()
    """What is legal but may be a mistake; only of a pipeline that may be a sample, for a check."""


class PipelineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a task graph beside the pipeline itself."""

    query: str = ""
    """The ``dataQuery``; an empty one selects everything."""
    query_origin: Origin | None = None
    limit: int = DEFAULT_LIMIT
    """Maximum number of tasks."""
    sample: int = 0
    """Number of tasks above which only some are made, with tasks of each label; 0 makes all."""
    name: str = "pipeline"
    directory: str = ""
    """Base of relative paths. Without it, paths stay relative and no directories are listed."""
    identity: FileIdentity = msgspec.field(default_factory=FileIdentity)
    """Which paths name one file."""
    expand: ExpandTemplate = parse_template
    """Parses templates of paths; fills in variables that are not dimensions."""
    columns: frozenset[str] = frozenset()
    """Names beside those in commands that may be columns of tables, such as ``sample.size``."""
    requested: Mapping[str, RequestedColumn] = {}
    """Of these, the names in requests of resources."""
    context: CommandContext = msgspec.field(default_factory=CommandContext)
    """What the configuration has for commands."""


def read_pipeline(node: Node, tables: Mapping[str, Table], settings: PipelineSettings | None = None) -> Pipeline:
    """Build the task graph of a pipeline.

    `tables` holds a table per needed file, by `NeededFile.key`.

    Raises `ConfigError` if the pipeline, a table or the query is invalid, `GraphError` if the graph has no tasks, too
    many tasks, or two tasks that write one file, and `CycleError` if tasks wait for each other.
    """
    settings = settings or PipelineSettings()
    description = read_declaration(node)
    # Hundreds of thousands of records are made and none is dropped: looking for garbage among them took a third of the
    # time (measured: 1.6 s, not 1.0 s, for 100,000 tasks).
    with collection_paused():
        dimensions = read_dimensions(description, tables, limit=settings.limit * _ROWS_PER_TASK)
        errors = ErrorCollector()
        templates = read_templates(description, dimensions, settings.expand, settings.context, errors)
        errors.raise_errors()
        check_path_columns(description, templates, dimensions)
        check_requested_columns(settings.requested, dimensions)
        columns = read_columns(description, dimensions, settings.columns, settings.context)
        try:
            universe = _make_universe(description, dimensions, tables, settings)
            folders = PathFolders(settings.identity)
            labels = _label_tasks(description, universe, templates, settings, folders)
            universe.refuse_empty()
        except GraphError as error:
            error.origin = error.origin or description.origin
            raise
        pipeline = _make_pipeline(description, universe, _FilesOfTasks(labels, folders), templates, settings)
        if columns:
            pipeline = structs.replace(pipeline, graph=structs.replace(pipeline.graph, columns=columns))
        if not settings.sample:
            return pipeline
        doubts = note_doubts(universe, labels, templates)
        return structs.replace(pipeline, doubts=list(doubts))


def _make_universe(
    description: PipelineDeclaration,
    dimensions: Mapping[str, Dimension],
    tables: Mapping[str, Table],
    settings: PipelineSettings,
) -> Universe:
    """Combinations of values, after a check of the number of tasks."""
    origin = settings.query_origin
    relations = read_relations(description, dimensions, tables)
    conditions = bind_conditions(parse_query(settings.query, origin), column_resolver(dimensions, origin), origin)
    universe = Universe(dimensions, relations, conditions, limit=settings.limit * _ROWS_PER_TASK, query_origin=origin)
    _check_count(description, universe, settings.limit)
    return universe


def _label_tasks(
    description: PipelineDeclaration,
    universe: Universe,
    templates: Mapping[str, PathTemplate],
    settings: PipelineSettings,
    folders: PathFolders,
) -> list[LabelTasks]:
    """Tasks of each label; of many, only some if a sample is wanted."""
    tasks = description.tasks.values()
    total = sum(universe.count(task.dimensions) for task in tasks)
    most = max(1, settings.sample // len(tasks)) if 0 < settings.sample < total else 0
    return [
        LabelTasks(task, universe, templates, folders, sample=0 if _writes_twice(task, universe, templates) else most)
        for task in tasks
    ]


def _writes_twice(task: TaskEntry, universe: Universe, templates: Mapping[str, PathTemplate]) -> bool:
    """Whether tasks of one label write one file, because a path lacks a dimension: no sample may hide that."""
    count = universe.count(task.dimensions)
    return any(
        universe.count([name for name in templates[output].dimensions if name in task.dimensions]) < count
        for output in task.outputs
    )


def missing_files(pipeline: Pipeline, absent: Collection[str]) -> FilesError | None:
    """Error for external files that are absent; ``None`` if none is."""
    for external in pipeline.external:
        gone = [path for path in external.paths if path in absent]
        if gone:
            looked = _where_looked(gone[0], pipeline.graph.directory)
            others = f" (and {len(gone) - 1:,} more of '{external.dataset}')" if gone[1:] else ""
            return FilesError(
                f"the file {quote_value(gone[0], 200)} does not exist{others}; '{external.paths[gone[0]]}' reads it",
                origin=external.origin,
                hint=f"No task makes the dataset '{external.dataset}'.{looked}",
            )
    return None


def _where_looked(path: str, directory: str) -> str:
    if path.startswith("/") or not directory:
        return ""
    looked = quote_value(f"{directory.rstrip('/')}/{path}", 300)
    return f" Looked for {looked}: relative paths start at the directory in which you submit."


def _check_count(description: PipelineDeclaration, universe: Universe, limit: int) -> None:
    """Refuse too many tasks before any is made."""
    total = 0
    for task in description.tasks.values():
        count = universe.count(task.dimensions)
        total += count
        if count > limit:
            raise too_many_combinations(
                count, f"the task '{task.label}' by {' and '.join(task.dimensions)}", limit, task.origin
            )
    if total > limit:
        raise too_many_combinations(total, "all tasks together", limit)


# ------------------------------------------------------------------------------------------------------------ the graph


def _make_pipeline(
    description: PipelineDeclaration,
    universe: Universe,
    files: _FilesOfTasks,
    templates: Mapping[str, PathTemplate],
    settings: PipelineSettings,
) -> Pipeline:
    labels = files.labels
    names = _unique_names([each for label_tasks in labels for each in label_tasks.names()])
    position = iter(names)
    tasks = [task for label_tasks in labels for task in label_tasks.tasks([next(position) for _ in label_tasks.rows])]
    producers = _find_producers(tasks, labels, templates, files)
    find_folder = files.folders.folder_finder(producers, plain=files.are_plain)
    _refuse_folders(producers, tasks, files, find_folder)
    in_folders: dict[str, int] = {}
    edges = [*_edges_by_files(tasks, producers, find_folder, in_folders), *_edges_by_order(labels, universe)]
    directory = settings.directory
    prefix = directory.rstrip("/") + "/" if directory else ""
    columns = [
        column for label_tasks in labels for column in (*label_tasks.inputs.values(), *label_tasks.outputs.values())
    ]
    paths = {
        path: File(name=path, path=path if path.startswith("/") or is_remote(path) else prefix + path)
        for path in dict.fromkeys(chain.from_iterable(chain.from_iterable(columns)))
    }
    for path, maker in in_folders.items():
        paths[path] = structs.replace(paths[path], part_of=files.folder_among(tasks[maker].outputs, path))
    graph = TaskGraph(
        name=settings.name,
        dag=Dag(tasks, edges),
        files=paths,
        directory=directory,
        directories=_folders(producers, prefix) if prefix else (),
    )
    return Pipeline(
        graph=graph,
        commands={label: task.command for label, task in description.tasks.items()},
        external=_external_files(labels, names, {**producers, **in_folders} if in_folders else producers, templates),
        tasks=sum(universe.count(label_tasks.entry.dimensions) for label_tasks in labels),
        spread=list(_spread_outputs(labels, templates)),
    )


def _spread_outputs(labels: Sequence[LabelTasks], templates: Mapping[str, PathTemplate]) -> Iterator[SpreadOutput]:
    for label_tasks in labels:
        entry = label_tasks.entry
        for dataset, column in label_tasks.outputs.items():
            lacking = [name for name in templates[dataset].dimensions if name not in entry.dimensions]
            files = max(map(len, column), default=0) if lacking else 0
            if files > 1:
                yield SpreadOutput(
                    label=entry.label,
                    dataset=dataset,
                    dimensions=lacking,
                    files=0 if label_tasks.sample else files,
                    origin=templates[dataset].origin,
                )


def _unique_names(names: list[str]) -> list[str]:
    """Make names unique: a repeated name gets a number at its end."""
    taken = set(names)
    if len(taken) == len(names):
        return names
    numbers: dict[str, int] = {}
    found: list[str] = []
    for name in names:
        if name not in numbers:
            numbers[name] = 1
            found.append(name)
            continue
        another = name
        while another in taken:
            numbers[name] += 1
            another = f"{name}_{numbers[name]}"
        taken.add(another)
        found.append(another)
    return found


# ------------------------------------------------------------------------------------------------------ who makes what


class _FilesOfTasks:
    """Files of all tasks: each with one path, for which those of its datasets are replaced."""

    def __init__(self, labels: Sequence[LabelTasks], folders: PathFolders) -> None:
        self.labels = labels
        self.folders = folders
        self.identity = folders.identity
        self.spelling: dict[str, str] = {}
        """The path that is used, per path that is not."""
        self.are_plain = not self.folders.may_have_two()
        if self.are_plain:
            return
        # The path of the task that makes it is as good as any, and is that of its checks.
        columns_in_order = chain((each.outputs for each in labels), (each.inputs for each in labels))
        paths = chain.from_iterable(chain.from_iterable(each.values()) for each in columns_in_order)
        self.spelling = one_spelling(chain.from_iterable(paths), self.identity)
        for label_tasks in labels if self.spelling else ():
            label_tasks.respell(self.spelling)

    def folder_among(self, outputs: Iterable[str], path: str) -> str:
        """Return the output that is a folder in which a path is."""
        whole = self.identity.of(path)
        return next(each for each in outputs if whole.startswith(f"{self.identity.of(each)}/"))


def _find_producers(
    tasks: Sequence[Task], labels: Sequence[LabelTasks], templates: Mapping[str, PathTemplate], files: _FilesOfTasks
) -> dict[str, int]:
    """Per path, the position of the task that produces it.

    Raises `GraphError` if two tasks write one file.
    """
    producers: dict[str, int] = {}
    begins = 0
    for label_tasks in labels:
        for dataset, column in label_tasks.outputs.items():
            before = len(producers)
            for position, paths in enumerate(column, begins):
                for path in paths:
                    if producers.setdefault(path, position) != position:
                        error = _two_writers_error(path, tasks[producers[path]], tasks[position], templates[dataset])
                        if other := next((each for each, used in files.spelling.items() if used == path), ""):
                            error.hint += f" The path {quote_value(other, 200)} names the same file."
                        raise error
            if len(producers) - before < sum(map(len, column)):
                message = f"each task '{label_tasks.entry.label}' writes files of the dataset '{dataset}' twice"
                raise GraphError(message, origin=templates[dataset].origin, hint="Give each a path of its own.")
        begins += len(label_tasks.rows)
    return producers


def _two_writers_error(path: str, one: Task, other: Task, template: PathTemplate) -> GraphError:
    lacking = [f"'{{{name}}}'" for name in other.data_id if name not in template.dimensions]
    hint = "Give each a path of its own."
    if one.label == other.label and lacking:
        hint = f"The path of the dataset '{template.dataset}' needs {' and '.join(lacking)} in it to tell them apart."
    message = f"the tasks '{one.name}' and '{other.name}' both write the file {quote_value(path, 200)}"
    return GraphError(message, origin=template.origin, hint=hint)


def _refuse_folders(
    producers: Mapping[str, int],
    tasks: Sequence[Task],
    files: _FilesOfTasks,
    find_folder: Callable[[str], int | None],
) -> None:
    """Refuse files whose folder is itself an output file."""
    if all(find_folder(folder) is None for folder in files.folders):
        return
    for path, position in producers.items():
        maker = None if is_remote(path) else find_folder(path[: path.rfind("/") + 1])
        if maker is not None:
            folder = files.folder_among(tasks[maker].outputs, path)
            message = (
                f"the file {quote_value(folder, 200)} is in the way of {quote_value(path, 200)}: it cannot be "
                "a folder as well"
            )
            one, other = tasks[maker].name, tasks[position].name
            raise GraphError(message, hint=f"The first is written by '{one}', the second by '{other}'.")


def _folders(paths: Iterable[str], prefix: str) -> list[str]:
    """Folders of files, without those that are parents of others."""
    folders = {path.rpartition("/")[0] for path in paths if not is_remote(path)} - {""}
    above = {folder.rpartition("/")[0] for folder in folders}
    return sorted(folder if folder.startswith("/") else prefix + folder for folder in folders - above)


def _edges_by_files(
    tasks: Sequence[Task],
    producers: Mapping[str, int],
    find_folder: Callable[[str], int | None],
    in_folders: dict[str, int],
) -> Iterator[tuple[int, int]]:
    """Edges from the producer of a file, or of a folder that it is in, to its readers.

    `in_folders` gets the position of the producer per file that is only in a folder of it.
    """
    for position, task in enumerate(tasks):
        for path in task.inputs:
            producer = producers.get(path)
            if producer is None:
                # A task may find a file in the folder that it fills.
                maker = None if is_remote(path) else find_folder(path[: path.rfind("/") + 1])
                if maker is not None:
                    in_folders[path] = maker
                    if maker != position:
                        yield maker, position
                continue
            if producer == position:
                message = f"the task '{task.name}' reads the file {quote_value(path, 200)}, which it writes itself"
                raise GraphError(message, hint="Give what it writes a path of its own.")
            yield producer, position


def _edges_by_order(labels: Sequence[LabelTasks], universe: Universe) -> Iterator[tuple[int, int]]:
    """Edges of ``after``: from the tasks of a label to those of another with joined values."""
    positions: dict[str, dict[Row, int]] = {}
    begins = 0
    for label_tasks in labels:
        positions[label_tasks.entry.label] = {row: position for position, row in enumerate(label_tasks.rows, begins)}
        begins += len(label_tasks.rows)
    dimensions = {label_tasks.entry.label: label_tasks.entry.dimensions for label_tasks in labels}
    for label_tasks in labels:
        child, own = label_tasks.entry.label, label_tasks.entry.dimensions
        for parent in label_tasks.entry.after:
            both = tuple(dict.fromkeys((*own, *dimensions[parent])))
            rows = universe.rows(both, f"tasks '{child}' after tasks '{parent}'", sample=label_tasks.sample)
            parents = map(positions[parent].get, map(row_projection(both, dimensions[parent]), rows))
            children = map(positions[child].get, map(row_projection(both, own), rows))
            # In a sample, a task on either side may be missing.
            yield from (
                (before, after)
                for before, after in zip(parents, children, strict=True)
                if before is not None and after is not None
            )


def _external_files(
    labels: Sequence[LabelTasks],
    names: Sequence[str],
    producers: Mapping[str, int],
    templates: Mapping[str, PathTemplate],
) -> list[ExternalFiles]:
    made = {dataset for label_tasks in labels for dataset in label_tasks.outputs}
    found: dict[str, dict[str, str]] = {}
    begins = 0
    for label_tasks in labels:
        for dataset, column in label_tasks.inputs.items():
            if dataset in made:
                continue
            readers = found.setdefault(dataset, {})
            for name, paths in zip(names[begins:], column, strict=False):
                for path in paths:
                    if path not in producers and not is_remote(path):
                        readers.setdefault(path, name)
        begins += len(label_tasks.rows)
    return [
        ExternalFiles(dataset=dataset, paths=paths, origin=templates[dataset].origin)
        for dataset, paths in found.items()
        if paths
    ]
