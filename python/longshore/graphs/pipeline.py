"""Builds a graph of tasks from a pipeline in YAML, its tables and a ``dataQuery``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, repeat
from typing import Any, Final

import msgspec
from msgspec import structs

from longshore.config.merge import Node
from longshore.config.templates import column_names
from longshore.contract.service import Problem
from longshore.errors import ErrorCollector, FilesError, GraphError, Origin
from longshore.graphs.declarations import (
    DatasetEntry,
    PipelineDeclaration,
    TaskEntry,
    read_declaration,
    read_intact_parts,
)
from longshore.graphs.dimensions import (
    Dimension,
    Relation,
    Row,
    SkippedRows,
    check_listed_values,
    column_resolver,
    place_of,
    read_dimensions,
    read_relations,
)
from longshore.graphs.path_templates import (
    ExpandTemplate,
    PathTemplate,
    RequestedColumn,
    check_commands,
    check_near_names,
    check_path_columns,
    check_requested_columns,
    dimension_of,
    parse_template,
    path_template,
    read_columns,
)
from longshore.graphs.placeholders import CommandContext
from longshore.graphs.query import bind_conditions, parse_query
from longshore.graphs.tables import Table, Value
from longshore.graphs.universe import Universe, row_projection, too_many_combinations
from longshore.model.file_identity import FEW, FileIdentity, PathFolders, one_spelling
from longshore.model.tasks import Dag, DataId, File, Task, TaskGraph, collection_paused, is_remote
from longshore.model.wording import count_noun, invisible_character, quote_value

# Makes the tasks of one label, with the paths of their files.


class LabelTasks:
    """Tasks of one label, column by column; `sample` limits their number, 0 does not."""

    def __init__(
        self,
        entry: TaskEntry,
        universe: Universe,
        templates: Mapping[str, PathTemplate],
        folders: PathFolders,
        *,
        sample: int = 0,
    ) -> None:
        self.entry = entry
        self.sample = sample
        self.universe = universe
        self.rows = universe.rows(entry.dimensions, f"data IDs of the task '{entry.label}'", sample=sample)
        """Codes of the values of each data ID, sorted."""
        self._codes = _codes_by_dimension(entry.dimensions, self.rows)
        self._folders = folders
        self.inputs = {name: self._paths(templates[name]) for name in entry.inputs}
        self.outputs = {name: self._paths(templates[name]) for name in entry.outputs}
        """Paths per dataset and task."""

    def _paths(self, template: PathTemplate) -> list[tuple[str, ...]]:
        """Paths of a dataset, per task."""
        own = self.entry.dimensions
        texts = template.texts(self.universe.dimensions, self.universe.codes)
        further = [name for name in template.dimensions if name not in own]
        if not further:
            whole = template.paths(texts, self._codes, len(self.rows))
            self._add_folders(whole, template.folders(texts, self._codes))
            # An empty cell of a column is no file.
            return [(path,) if path else () for path in whole] if template.is_column else list(zip(whole, strict=True))
        what = f"files of the dataset '{template.dataset}' for the task '{self.entry.label}'"
        rows = self.universe.rows([*own, *further], what, sample=self.sample)
        codes = _codes_by_dimension([*own, *further], rows)
        paths = template.paths(texts, codes, len(rows))
        self._add_folders(paths, template.folders(texts, codes))
        found: dict[Row, list[str]] = {row: [] for row in self.rows}
        width = len(own)
        for row, path in zip(rows, paths, strict=True):
            if row[:width] in found:  # in a sample, a task may be missing
                found[row[:width]].append(path)
        # In a sample, the files of a task may all be missing, and one stands for them.
        return [tuple(filter(None, dict.fromkeys(these or paths[:1]))) for these in found.values()]

    def _add_folders(self, paths: Sequence[str], folders: Iterable[str] | None) -> None:
        if folders is None or len(paths) <= FEW:
            self._folders.add((paths,))
        else:
            self._folders.add_folders(folders)

    def respell(self, spelling: Mapping[str, str]) -> None:
        """Replace paths by those that are used for their files."""
        for columns in (self.inputs, self.outputs):
            for name, column in columns.items():
                columns[name] = [tuple(dict.fromkeys(spelling.get(path, path) for path in paths)) for paths in column]

    def names(self) -> list[str]:
        """Names of the tasks: the label and all values."""
        texts = self._columns(lambda dimension: [str(value).replace("/", "_") for value in dimension.values])
        pattern = self.entry.label.replace("%", "%%") + "_%s" * len(texts)
        return list(map(pattern.__mod__, zip(*texts, strict=True))) if texts else [self.entry.label]

    def tasks(self, names: Sequence[str]) -> Iterator[Task]:
        """Tasks with the given names."""
        own = self.entry.dimensions
        values = zip(*self._columns(lambda dimension: dimension.values), strict=True) if own else [()]
        label = self.entry.label
        nothing: DataId = {}
        inputs, outputs = list(self.inputs.values()), list(self.outputs.values())
        datasets = [*self.inputs, *self.outputs]
        flat = zip(_merge_columns(inputs, len(names)), _merge_columns(outputs, len(names)), strict=True)
        paths = zip(*inputs, *outputs, strict=True) if datasets else repeat((), len(names))
        for name, value, these, (read, written) in zip(names, values, paths, flat, strict=True):
            yield Task(
                name=name,
                label=label,
                data_id=dict(zip(own, value, strict=True)),
                inputs=read,
                outputs=written,
                paths=dict(zip(datasets, these, strict=True)),
                implied=nothing,
            )

    def _columns(self, table: Callable[[Dimension], Sequence[Any]]) -> list[Iterator[Any]]:
        """Per dimension, the entries of a lookup table for the values of each task."""
        return [
            map(table(self.universe.dimensions[name]).__getitem__, self._codes[name]) for name in self.entry.dimensions
        ]


def _codes_by_dimension(dimensions: Sequence[str], rows: Sequence[Row]) -> dict[str, Sequence[int]]:
    return dict(zip(dimensions, zip(*rows, strict=True), strict=True)) if dimensions else {}


def _merge_columns(columns: Sequence[Sequence[tuple[str, ...]]], rows: int) -> Iterable[tuple[str, ...]]:
    """Paths of each row, each once."""
    if not columns:
        return repeat((), rows)
    if len(columns) == 1:
        return columns[0]
    return (tuple(dict.fromkeys(chain.from_iterable(groups))) for groups in zip(*columns, strict=True))


# Notes about a pipeline that is legal but may be a mistake: in its sheets, and in how its dimensions are joined.


def note_doubts(
    universe: Universe, labels: Sequence[LabelTasks], templates: Mapping[str, PathTemplate]
) -> Iterator[Problem]:
    """Yield a note per doubtful value, skipped row of a relation, task without input, and pair of dimensions."""
    for dimension in universe.dimensions.values():
        yield from _odd_values(dimension)
    for relation in universe.relations:
        if relation.skipped:
            yield _skipped_rows(relation, relation.skipped, universe.dimensions[relation.skipped.dimension])
    for label_tasks in labels:
        yield from _empty_inputs(label_tasks, templates)
    yield from _unjoined_dimensions(universe, labels, templates)


def _odd_values(dimension: Dimension) -> Iterator[Problem]:
    """Values of a table with a blank at an end or an invisible character, or that look like a comment."""
    texts = [value for value in dimension.values if isinstance(value, str)] if dimension.table else []
    with_blank = [text for text in texts if text != text.strip()]
    comments = [text for text in texts if text.startswith("#")]
    invisible = [text for text in texts if invisible_character(text)]
    sign = invisible_character(invisible[0]) if invisible else ""
    for found, what, hint in (
        (
            invisible,
            f"has an invisible character ({sign})",
            "It is a part of the value: paths and names of jobs have it.",
        ),
        (with_blank, "begins or ends with a blank", "It is a part of the value: paths and names of jobs have it."),
        (comments, "looks like a comment", "If such rows are comments, say so beside 'table': comment: '#'."),
    ):
        if found:
            others = f" (and {len(found) - 1:,} more)" if found[1:] else ""
            yield Problem(
                message=f"the value {quote_value(found[0])} of the dimension '{dimension.name}' {what}{others}",
                origin=place_of(found[0], dimension),
                hint=hint,
                fatal=False,
            )


def _skipped_rows(relation: Relation, skipped: SkippedRows, dimension: Dimension) -> Problem:
    near = _without_blanks(skipped.value, dimension)
    return Problem(
        message=f"{relation.name} skips {count_noun(skipped.rows, 'row')}: {quote_value(skipped.value)} is no value of "
        f"'{dimension.name}'",
        origin=skipped.origin,
        hint=near or "No job is made for such a row.",
        fatal=False,
    )


def _without_blanks(value: Value, dimension: Dimension) -> str:
    stripped = str(value).strip()
    if stripped == value or stripped not in map(str, dimension.values):
        return ""
    return f"Did you mean {quote_value(stripped)}? Blanks at the end count."


def _empty_inputs(label_tasks: LabelTasks, templates: Mapping[str, PathTemplate]) -> Iterator[Problem]:
    """Tasks whose inputs all lack a file, because cells of the sheet are empty."""
    names = list(label_tasks.inputs)
    columns = [name for name in names if templates[name].is_column]
    if not columns:
        return
    rows = zip(*label_tasks.inputs.values(), strict=True)
    empty = [position for position, paths in enumerate(rows) if not any(paths)]
    if not empty:
        return
    column = templates[columns[0]].fields[0].name
    others = f" (nor do {len(empty) - 1:,} more of '{label_tasks.entry.label}')" if empty[1:] else ""
    yield Problem(
        message=f"the task '{label_tasks.names()[empty[0]]}' has no input file: '{column}' is empty{others}",
        origin=_row_of(label_tasks, empty[0], dimension_of(column)) or templates[columns[0]].origin,
        hint="The task runs without a file. Fill the cell, or delete the row.",
        fatal=False,
    )


def _row_of(label_tasks: LabelTasks, position: int, name: str) -> Origin | None:
    """The row of the sheet that a task is made from."""
    if name not in label_tasks.entry.dimensions:
        return None
    dimension = label_tasks.universe.dimensions[name]
    code = label_tasks.rows[position][label_tasks.entry.dimensions.index(name)]
    return place_of(dimension.values[code], dimension)


def _unjoined_dimensions(
    universe: Universe, labels: Sequence[LabelTasks], templates: Mapping[str, PathTemplate]
) -> Iterator[Problem]:
    """Pairs of columns of one table with more combinations in a task than in the table."""
    seen: set[frozenset[str]] = set()
    for label_tasks in labels:
        entry = label_tasks.entry
        further = [name for dataset in entry.inputs for name in templates[dataset].dimensions]
        for pair in combinations(dict.fromkeys((*entry.dimensions, *further)), 2):
            one, other = (universe.dimensions[name] for name in pair)
            rows = 0 if frozenset(pair) in seen else _count_pairs(one, other)
            seen.add(frozenset(pair))
            if rows and (count := universe.count(pair)) > rows:
                table = one.table.name if one.table else ""
                yield Problem(
                    message=f"the task '{entry.label}' has {count:,} combinations of '{one.name}' and '{other.name}', "
                    f"and '{table}' has {rows:,}",
                    origin=entry.origin,
                    hint=f"For those alone, add a relation: 'relations: {{rows: {{table: {table}, columns: "
                    f"{{{one.name}: {one.column}, {other.name}: {other.column}}}}}}}'.",
                    fatal=False,
                )


def _count_pairs(one: Dimension, other: Dimension) -> int:
    """Number of different pairs in two columns of one table; 0 if there is no such table."""
    if one.table is None or other.table is None or one.table.name != other.table.name or one.column == other.column:
        return 0
    columns = one.table.columns
    return len(set(zip(columns[one.column], columns[other.column], strict=True)))


# Checks a pipeline as far as it needs no table, and collects all independent errors.


def check_pipeline(node: Node, expand: ExpandTemplate, context: CommandContext | None = None) -> None:
    """Check all of a pipeline that needs no table.

    `expand` parses templates of paths; `context` has the configuration's commands.

    Raises `ConfigError` or `CycleError` with all independent errors, in order of their lines.
    """
    errors = ErrorCollector()
    description = read_intact_parts(node, errors)
    check_listed_values(description, errors)
    read_templates(description, description.dimensions, expand, context or CommandContext(), errors)
    if errors:
        # Else the commands are rendered, with all that the configuration defines for a label.
        check_near_names(description, expand, errors)
    errors.raise_errors()


def read_templates(
    description: PipelineDeclaration,
    dimensions: Collection[str],
    expand: ExpandTemplate,
    context: CommandContext,
    errors: ErrorCollector,
) -> dict[str, PathTemplate]:
    """Parse the paths of datasets, and check the names in commands; errors are collected."""
    templates: dict[str, PathTemplate] = {}
    for entry in description.datasets.values():
        if entry.is_valid:
            with errors.collect():
                template = expand(entry.path, _path_names(entry, dimensions))
                templates[entry.name] = path_template(entry.name, template, dimensions)
    uses = {name: template.dimensions for name, template in templates.items()}
    check_commands(description, uses, context, errors)
    return templates


def _path_names(entry: DatasetEntry, dimensions: Collection[str]) -> frozenset[str]:
    """Names that stay fields in the path of a dataset: dimensions, and columns of their tables."""
    columns = (name for name in column_names(entry.path.text) if dimension_of(name) in dimensions)
    return frozenset((*dimensions, *columns))


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
