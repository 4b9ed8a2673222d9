"""What the YAML of a pipeline declares, after its imports were joined, its parameters substituted and labels chosen."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from longshore.config.merge import Node, drop_deleted_keys, plain_value, written_value
from longshore.config.quantities import is_placeholder, quote_node, quoting_hint
from longshore.config.search import SPECIAL_LABELS
from longshore.config.templates import split_fields, substitute_values
from longshore.errors import ConfigError, CycleError, ErrorCollector, Origin
from longshore.graphs.file_patterns import captured_names
from longshore.graphs.query import RESERVED
from longshore.graphs.tables import is_value
from longshore.model.tasks import adjacency, find_cycle, topological_order
from longshore.model.wording import did_you_mean, name_all, own_word, quote_value

# Reads the YAML of a pipeline into declarations: dimensions, relations, datasets and tasks.


PIPELINE_KEYS: Final = ("description", "dimensions", "relations", "datasets", "tasks", "subsets")
"""Keys of a pipeline after its imports were joined."""
_TASK_KEYS: Final = ("description", "dimensions", "command", "inputs", "outputs", "after")
PER_JOB: Final = frozenset({"label", "jobName", "jobLabel"})
"""Names with a value per job, beside the dimensions of its data ID."""
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LABEL = re.compile(r"[^\s/,#\x00-\x1f\x7f]+")


class FileKind(StrEnum):
    """How a file yields values: as a table, or by its name."""

    TABLE = "table"
    GLOB = "glob"


class NeededFile(msgspec.Struct, frozen=True):
    """A table to read, or a glob pattern to list, before the pipeline is read."""

    kind: FileKind
    name: str
    """The path or pattern as it was written."""
    origin: Origin
    comment: str = ""
    """How lines of a table begin that do not count."""

    @property
    def key(self) -> str:
        """The text by which `read_pipeline` asks for the table."""
        return f"{self.name} without {self.comment}" if self.comment else self.name


class DimensionEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A dimension and the source of its values: the YAML, a range (both ends included, and a step), or a file."""

    name: str
    origin: Origin
    values: tuple[Node, ...] = ()
    range: tuple[int, int, int] | None = None
    file: NeededFile | None = None
    column: str = ""
    implied: bool = False
    """Whether it is declared by nothing but the pattern that captures it."""


class RelationEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A table that joins dimensions; columns by dimension, or ``None`` if every column is a dimension."""

    name: str
    origin: Origin
    rows: tuple[Node, ...] = ()
    file: NeededFile | None = None
    columns: Mapping[str, str] | None = None


class DatasetEntry(msgspec.Struct, frozen=True):
    """A kind of file, and the template of its path."""

    name: str
    path: Node
    is_valid: bool = True
    """Whether the path is text; else it is an error that was collected."""


class TaskEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks of one label. Each name has its origin."""

    label: str
    origin: Origin
    command: Node
    dimensions: tuple[str, ...]
    inputs: Mapping[str, Origin]
    outputs: Mapping[str, Origin]
    after: Mapping[str, Origin]


class PipelineDeclaration(msgspec.Struct, frozen=True, kw_only=True):
    """Declarations of a pipeline; all names are checked but those in templates."""

    origin: Origin
    dimensions: Mapping[str, DimensionEntry]
    relations: Mapping[str, RelationEntry]
    datasets: Mapping[str, DatasetEntry]
    tasks: Mapping[str, TaskEntry]

    @property
    def makers(self) -> dict[str, str]:
        """Per dataset, the label of the tasks that produce it."""
        return {dataset: task.label for task in self.tasks.values() for dataset in task.outputs}

    @property
    def files(self) -> list[NeededFile]:
        """Needed files and patterns, each once."""
        named = [entry.file for entry in self.dimensions.values()] + [entry.file for entry in self.relations.values()]
        return list({(file.kind, file.key): file for file in named if file}.values())


def read_declaration(node: Node) -> PipelineDeclaration:
    """Read the declarations of a pipeline.

    Raises `ConfigError` if declarations are malformed or names unknown, and `CycleError` if labels form a cycle.
    """
    errors = ErrorCollector()
    description = read_intact_parts(node, errors)
    errors.raise_errors()
    return description


def read_intact_parts(node: Node, errors: ErrorCollector) -> PipelineDeclaration:
    """Read the declarations of a pipeline, and collect the errors of those that are malformed.

    A malformed task or relation is left out; a malformed dimension or dataset stays as a name without a value.
    """
    top = map_items(drop_deleted_keys(node), "the pipeline")
    with errors.collect():
        check_keys(top, PIPELINE_KEYS, "a pipeline")
    dimensions = _dimensions(top.get("dimensions"), errors)
    tasks = map_items(top.get("tasks"), "'tasks'")
    if not tasks:
        errors.raise_errors()
        raise ConfigError("the pipeline has no 'tasks'", origin=node.origin)
    datasets: dict[str, DatasetEntry] = {}
    for name, item in _named_items(top.get("datasets"), "datasets", errors):
        datasets[name] = _dataset(name, item, errors)
    for task in tasks.values():
        _add_inline_datasets(task, datasets, errors)
    for name in datasets.keys() & dimensions.keys():
        with errors.collect():
            origin = datasets[name].path.origin
            raise ConfigError(f"'{name}' is a dimension and cannot be a dataset as well", origin=origin)
    relations: dict[str, RelationEntry] = {}
    for name, item in _named_items(top.get("relations"), "relations", errors):
        with errors.collect():
            relations[name] = _relation(name, item, dimensions)
    entries: dict[str, TaskEntry] = {}
    for label, item in tasks.items():
        with errors.collect():
            entries[label] = _task(label, item, dimensions, datasets, tasks)
    description = PipelineDeclaration(
        origin=node.origin, dimensions=dimensions, relations=relations, datasets=datasets, tasks=entries
    )
    with errors.collect():
        _check_label_order(description)
    return description


# ---------------------------------------------------------------------------------------------------- shapes of values


def map_items(node: Node | None, what: str) -> dict[str, Node]:
    """Items of a map; none for an absent node."""
    if node is None or node.value is None:
        return {}
    if not isinstance(node.value, dict):
        raise ConfigError(f"{what} must be a map, not {quote_value(plain_value(node))}", origin=node.origin)
    return node.value


def read_names(node: Node | None, what: str) -> dict[str, Origin]:
    """Names in a list, or a single name, with their origins; none for an absent node."""
    if node is None or node.value is None:
        return {}
    found: dict[str, Origin] = {}
    for item in node.value if isinstance(node.value, list) else [node]:
        if not item.has_text or not item.text:
            raise ConfigError(
                f"{what} must be a list of names, not {quote_node(item)}", origin=item.origin, hint=quoting_hint(item)
            )
        if item.text in found:
            raise ConfigError(f"{what} names '{item.text}' twice", origin=item.origin)
        found[item.text] = item.origin
    return found


def read_text(node: Node, what: str) -> str:
    """Text that is not blank."""
    if not node.has_text or not node.text.strip() or "\0" in node.text:
        raise ConfigError(f"{what} must be text, not {quote_node(node)}", origin=node.origin, hint=quoting_hint(node))
    return node.text


def check_keys(items: Mapping[str, Node], known: Collection[str], what: str, hint: str = "") -> None:
    """Refuse unknown keys."""
    for key, item in items.items():
        if key not in known:
            own = own_word(key)
            otherwise = (f"The key is '{own}'. " if own and hint else "") + hint or name_all(known)
            error = ConfigError(
                f"{what} has no key '{key}'", origin=item.origin, hint=did_you_mean(key, known) or otherwise
            )
            error.part = key
            raise error


def _named_items(node: Node | None, section: str, errors: ErrorCollector) -> Iterator[tuple[str, Node]]:
    """Yield the items of a section; errors of their names are collected."""
    for name, item in map_items(node, f"'{section}'").items():
        with errors.collect():
            check_identifier(name, section, item.origin)
        yield name, item


def check_identifier(name: str, section: str, origin: Origin) -> str:
    """Refuse a name that commands and paths cannot use."""
    if not _IDENTIFIER.fullmatch(name):
        hint = "Names are letters, digits and underscores, and do not begin with a digit."
        raise ConfigError(f"{quote_value(name)} cannot be a name in '{section}'", origin=origin, hint=hint)
    if name in PER_JOB or (name.upper() in RESERVED and section == "dimensions"):
        raise ConfigError(f"'{name}' means something else and cannot be a name in '{section}'", origin=origin)
    return name


def unknown_name(kind: str, name: str, known: Iterable[str], origin: Origin | None, where: str) -> ConfigError:
    """Error for an unknown name."""
    known = list(known)
    hint = did_you_mean(name, known) or name_all(known[:20])
    if kind == "dataset" and "/" in name:
        hint = f"A file has a name here: {{NAME: {quote_value(name)}}}. {hint}"
    return ConfigError(f"{where} names the unknown {kind} {quote_value(name)}", origin=origin, hint=hint)


# ------------------------------------------------------------------------------------------- dimensions and relations


def _dimensions(node: Node | None, errors: ErrorCollector) -> dict[str, DimensionEntry]:
    declared: dict[str, DimensionEntry] = {}
    for name, item in _named_items(node, "dimensions", errors):
        declared[name] = DimensionEntry(name=name, origin=item.origin)
        with errors.collect():
            declared[name] = _dimension(name, item)
    for entry in list(declared.values()):
        if entry.file and entry.file.kind is FileKind.GLOB:
            for name in captured_names(entry.file.name, entry.origin):
                with errors.collect():
                    check_identifier(name, "dimensions", entry.origin)
                implied = DimensionEntry(name=name, origin=entry.origin, file=entry.file, column=name, implied=True)
                declared.setdefault(name, implied)
    return declared


def _dimension(name: str, node: Node) -> DimensionEntry:
    what = f"the dimension '{name}'"
    value = node.value
    if isinstance(value, list) and value:
        return DimensionEntry(name=name, origin=node.origin, values=tuple(value))
    if value is None or value == []:
        raise ConfigError(
            f"{what} has no values", origin=node.origin, hint="Give a list, or 'range', 'glob' or 'table'."
        )
    if not isinstance(value, dict):
        return DimensionEntry(name=name, origin=node.origin, values=(node,))
    kinds = [key for key in ("range", "glob", "table") if key in value]
    check_keys(value, ("range", "glob", "table", "column", "comment"), what)
    if len(kinds) != 1:
        raise ConfigError(f"{what} needs one of 'range', 'glob' and 'table'", origin=node.origin)
    _refuse_without_table(value, what, "column", "comment")
    if kinds == ["range"]:
        return DimensionEntry(name=name, origin=node.origin, range=_range(what, value["range"]))
    file = _file(value, what)
    if file.kind is FileKind.GLOB and name not in captured_names(file.name, file.origin):
        message = f"the pattern of {what} does not capture it: '{{{name}}}' is not in {quote_value(file.name)}"
        raise ConfigError(message, origin=file.origin)
    column = read_text(value["column"], f"'column' of {what}") if "column" in value else name
    return DimensionEntry(name=name, origin=file.origin, file=file, column=column)


def _range(what: str, node: Node) -> tuple[int, int, int]:
    values = [item.value for item in node.value] if isinstance(node.value, list) else []
    numbers = [value for value in values if isinstance(value, int) and is_value(value)]
    if len(numbers) != len(values) or len(numbers) not in {2, 3}:
        hint = "For example [0, 188], with both ends included, or [0, 188, 2], where 2 is the step."
        raise ConfigError(f"'range' of {what} must be two or three whole numbers", origin=node.origin, hint=hint)
    first, last, step = (*numbers, 1)[:3]
    if step < 1:
        raise ConfigError(f"the step in 'range' of {what} must be at least 1, not {step}", origin=node.origin)
    if last < first:
        raise ConfigError(f"{what} has no values: {last} is below {first}", origin=node.origin)
    return first, last, step


def _refuse_without_table(items: Mapping[str, Node], what: str, *keys: str) -> None:
    for key in keys:
        if key in items and "table" not in items:
            raise ConfigError(f"{what} has '{key}' without 'table'", origin=items[key].origin)


def _file(items: Mapping[str, Node], what: str) -> NeededFile:
    kind = FileKind.TABLE if "table" in items else FileKind.GLOB
    node = items[kind]
    name = read_text(node, f"'{kind}' of {what}")
    if kind is FileKind.GLOB and not captured_names(name, node.origin):
        message = f"the pattern {quote_value(name)} captures nothing"
        raise ConfigError(message, origin=node.origin, hint="Write '{name}' where a value of the dimension stands.")
    return NeededFile(kind, name, node.origin, _comment(items["comment"], what) if "comment" in items else "")


def _comment(node: Node, what: str) -> str:
    sign = node.value
    if not isinstance(sign, str) or not sign or any(each.isspace() or each in ',"' for each in sign):
        hint = "For example comment: '#'. Without quotation marks, YAML takes what begins with '#' for its own comment."
        message = f"'comment' of {what} must be what the lines begin with, not {quote_node(node)}"
        raise ConfigError(message, origin=node.origin, hint=hint)
    return sign


def _relation(name: str, node: Node, dimensions: Collection[str]) -> RelationEntry:
    what = f"the relation '{name}'"
    items = map_items(node, what)
    kinds = [key for key in ("rows", "glob", "table") if key in items]
    check_keys(items, ("rows", "glob", "table", "columns", "comment"), what)
    if len(kinds) != 1:
        raise ConfigError(f"{what} needs one of 'table', 'glob' and 'rows'", origin=node.origin)
    _refuse_without_table(items, what, "comment")
    columns = _columns(items.get("columns"), what, dimensions)
    if kinds != ["rows"]:
        return RelationEntry(name=name, origin=items[kinds[0]].origin, file=_file(items, what), columns=columns)
    rows = items["rows"]
    if columns is None:
        raise ConfigError(f"{what} has 'rows' but no 'columns'", origin=node.origin, hint="List its dimensions there.")
    if not isinstance(rows.value, list) or not rows.value:
        raise ConfigError(f"'rows' of {what} must be a list of lists", origin=rows.origin)
    for row in rows.value:
        if not isinstance(row.value, list) or len(row.value) != len(columns):
            raise ConfigError(f"each row of {what} must be a list of {len(columns)} values", origin=row.origin)
    return RelationEntry(name=name, origin=rows.origin, rows=tuple(rows.value), columns=columns)


def _columns(node: Node | None, what: str, dimensions: Collection[str]) -> dict[str, str] | None:
    if node is None or node.value is None:
        return None
    if isinstance(node.value, dict):
        found = {name: read_text(item, f"'columns' of {what}") for name, item in node.value.items()}
        places = {name: item.origin for name, item in node.value.items()}
    else:
        places = read_names(node, f"'columns' of {what}")
        found = {name: name for name in places}
    for name in found:
        if name not in dimensions:
            raise unknown_name("dimension", name, dimensions, places[name], what)
    if len(found) < 2:
        raise ConfigError(f"{what} must have two dimensions or more", origin=node.origin)
    return found


# -------------------------------------------------------------------------------------------------- datasets and tasks


def _dataset(name: str, node: Node, errors: ErrorCollector) -> DatasetEntry:
    entry = DatasetEntry(name, node, is_valid=False)
    with errors.collect():
        entry = DatasetEntry(name, _path(name, node))
    return entry  # noqa: RET504 - the assignment may fail


def _path(name: str, node: Node) -> Node:
    items = node.value if isinstance(node.value, dict) and not is_placeholder(node) else {"path": node}
    check_keys(items, ("path",), f"the dataset '{name}'")
    if "path" not in items:
        raise ConfigError(f"the dataset '{name}' has no 'path'", origin=node.origin)
    read_text(items["path"], f"the path of the dataset '{name}'")
    return items["path"]


def _add_inline_datasets(node: Node, datasets: dict[str, DatasetEntry], errors: ErrorCollector) -> None:
    """Add the datasets that a task defines in its ``inputs`` and ``outputs``; refuse conflicting paths."""
    items = node.value if isinstance(node.value, dict) else {}  # another value is reported with the task
    for section in ("inputs", "outputs"):
        defined = items[section] if section in items and isinstance(items[section].value, dict) else None
        for name, item in _named_items(defined, section, errors):
            if item.value is None:
                continue
            entry = _dataset(name, item, errors)
            other = datasets.setdefault(name, entry)
            with errors.collect():
                if other.path.value != entry.path.value:
                    hint = f"The other one is at {other.path.origin}. Define it once, and name it elsewhere."
                    raise ConfigError(f"the dataset '{name}' has two paths", origin=item.origin, hint=hint)


def _task(
    label: str,
    node: Node,
    dimensions: Mapping[str, DimensionEntry],
    datasets: Mapping[str, DatasetEntry],
    labels: Collection[str],
) -> TaskEntry:
    what = f"the task '{label}'"
    if not _LABEL.fullmatch(label):
        raise ConfigError(f"{quote_value(label)} cannot be the label of a task", origin=node.origin)
    if label in SPECIAL_LABELS:
        message = f"'{label}' cannot be the label of a task: it is that of {SPECIAL_LABELS[label]}"
        raise ConfigError(message, origin=node.origin, hint="Give the task another label.")
    items = check_task_keys(label, node)
    if items.get("command", node).value is None or "command" not in items:
        hint = "Give it the line or the list of words that its jobs run."
        raise ConfigError(f"{what} has no 'command'", origin=node.origin, hint=hint)
    task = TaskEntry(
        label=label,
        origin=node.origin,
        command=items["command"],
        dimensions=tuple(_known_names(items.get("dimensions"), "dimension", dimensions, what)),
        inputs=_known_names(items.get("inputs"), "dataset", datasets, f"'inputs' of {what}"),
        outputs=_known_names(items.get("outputs"), "dataset", datasets, f"'outputs' of {what}"),
        after=_known_names(items.get("after"), "task", labels, f"'after' of {what}"),
    )
    for name, origin in task.outputs.items():
        if name in task.inputs:
            hint = "A task cannot wait for itself; give what it writes a name and a path of its own."
            raise ConfigError(f"{what} reads and writes the dataset '{name}'", origin=origin, hint=hint)
    if label in task.after:
        raise ConfigError(f"{what} cannot come after itself", origin=task.after[label])
    return task


def check_task_keys(label: str, node: Node) -> dict[str, Node]:
    """Items of a task; refuse unknown keys."""
    what = f"the task '{label}'"
    items = map_items(node, what)
    hint = f"What its jobs ask for stands outside of the pipeline, under 'pipetask: {{{label}: ...}}'."
    check_keys(items, _TASK_KEYS, what, hint)
    return items


def _known_names(node: Node | None, kind: str, known: Collection[str], where: str) -> dict[str, Origin]:
    if node is not None and isinstance(node.value, dict):
        found = {name: item.origin for name, item in node.value.items()}
    else:
        found = read_names(node, where if where.startswith("'") else f"'{kind}s' of {where}")
    for name, origin in found.items():
        if name not in known:
            raise unknown_name(kind, name, known, origin, where)
    return found


def _check_label_order(description: PipelineDeclaration) -> None:
    """Refuse two producers of a dataset, and cycles of labels."""
    makers: dict[str, str] = {}
    for label, task in description.tasks.items():
        for name, origin in task.outputs.items():
            if makers.setdefault(name, label) != label:
                hint = "Give one of the two a dataset of its own."
                message = f"the tasks '{makers[name]}' and '{label}' both make the dataset '{name}'"
                raise ConfigError(message, origin=origin, hint=hint)
    labels = list(description.tasks)
    index = {label: position for position, label in enumerate(labels)}
    edges = [
        (index[before], index[label])
        for label, task in description.tasks.items()
        for before in (*task.after, *(makers[name] for name in task.inputs if name in makers))
        if before in index  # else it is malformed
    ]
    parents, children = adjacency(len(labels), edges)
    order = topological_order(map(len, parents), children)
    if len(order) < len(labels):
        ring = [labels[position] for position in find_cycle(parents, done=order)]
        raise CycleError(ring, origin=description.tasks[ring[0]].origin, hint="Each waits for the one before it.")


# Selects the labels of a range ``BEGIN..END`` of a pipeline.


RANGE_SIGN: Final = ".."


def range_labels(written: str, tasks: Mapping[str, Node], origin: Origin | None) -> list[str]:
    """Labels of the tasks on all paths from one task to another, both included.

    An LSST range is a slice of the sorted labels, which depends on the sort order if the pipeline is not a chain. This
    range depends on the graph only; for a chain both are equal. Without ``BEGIN``, the range is all ancestors of
    ``END``; without ``END``, all descendants of ``BEGIN``.

    Raises `ConfigError` if a label is unknown or no path connects the two.
    """
    begin, _, end = written.partition(RANGE_SIGN)
    for label in (begin, end):
        if label and label not in tasks:
            raise unknown_name("task", label, tasks, origin, f"the range '{written}'")
    parents = _parents(tasks)
    children: dict[str, set[str]] = {label: set() for label in tasks}
    for label, needed in parents.items():
        for parent in needed:
            children[parent].add(label)
    kept = _reachable(begin, children) if begin else set(tasks)
    kept &= _reachable(end, parents) if end else set(tasks)
    if not kept:
        backwards = begin in _reachable(end, children)
        raise ConfigError(
            f"the range '{written}' holds nothing: '{end}' needs nothing that comes from '{begin}'",
            origin=origin,
            hint=f"Did you mean '{end}{RANGE_SIGN}{begin}'?"
            if backwards
            else "A list of labels has commas between them.",
        )
    return [label for label in tasks if label in kept]


def _parents(tasks: Mapping[str, Node]) -> dict[str, set[str]]:
    """Parents of each label: the producers of its inputs, and the labels in ``after``."""
    made_by: dict[str, set[str]] = {}
    for label, task in tasks.items():
        for dataset in _section_names(label, task, "outputs"):
            made_by.setdefault(dataset, set()).add(label)
    found = {}
    for label, task in tasks.items():
        needed = set(_section_names(label, task, "after")) & tasks.keys()
        found[label] = needed.union(*(made_by.get(dataset, ()) for dataset in _section_names(label, task, "inputs")))
    return found


def _section_names(label: str, task: Node, section: str) -> list[str]:
    """Names in a section of a task: a list of them, or a map that defines them in place."""
    items = task.value if isinstance(task.value, dict) else {}
    node = items.get(section)
    if node is not None and isinstance(node.value, dict):
        return list(node.value)
    return list(read_names(node, f"'{section}' of the task '{label}'"))


def _reachable(start: str, links: Mapping[str, set[str]]) -> set[str]:
    """A label and all labels reachable from it."""
    found, stack = {start}, [start]
    while stack:
        new = links[stack.pop()] - found
        found |= new
        stack += new
    return found


# Detects the kind of a pipeline, lists the files it needs, and selects some of its tasks.


class PipelineKind(StrEnum):
    """Kind of a pipeline."""

    COMMANDS = "commands"
    """Every task has a command: this package reads it."""
    LSST = "lsst"
    """Tasks name classes of LSST's, or the pipeline imports another."""


def pipeline_kind(node: Node) -> PipelineKind:
    """Kind of a pipeline.

    Raises `ConfigError` if the pipeline is of neither kind, or of both.
    """
    top = map_items(drop_deleted_keys(node), "the pipeline")
    tasks = map_items(top.get("tasks"), "'tasks'")
    with_class = {label: task for label, task in tasks.items() if _names_class(task)}
    with_command = {label: task for label, task in tasks.items() if _has(task, "command")}
    if with_class and with_command:
        one, other = next(iter(with_class)), next(iter(with_command))
        message = f"the task '{one}' names a class of LSST's, and '{other}' a command: a pipeline has either"
        if one == other:
            message = f"the task '{one}' names both a class of LSST's and a command"
        raise ConfigError(message, origin=with_class[one].origin)
    if with_class or (not tasks and ("imports" in top or "instrument" in top)):
        return PipelineKind.LSST
    if not tasks:
        check_keys(top, (*PIPELINE_KEYS, "imports", "parameters"), "a pipeline")
        raise ConfigError("the pipeline has no 'tasks'", origin=node.origin)
    return PipelineKind.COMMANDS


def _names_class(task: Node) -> bool:
    # LSST's short form is the class alone.
    return isinstance(task.value, str) or _has(task, "class")


def _has(task: Node, key: str) -> bool:
    return isinstance(task.value, dict) and key in task.value


def needed_files(node: Node) -> list[NeededFile]:
    """Tables to read and glob patterns to list, each once."""
    return read_declaration(node).files


def select_tasks(node: Node, names: Iterable[str], origin: Origin | None = None) -> Node:
    """Select tasks of a pipeline; the outputs of the others must exist already.

    `names` are labels, names in ``subsets``, or one range of labels, ``BEGIN..END``.

    Raises `ConfigError` if a label or subset is unknown, or a range is not the only name.
    """
    node = drop_deleted_keys(node)
    top = map_items(node, "the pipeline")
    tasks = map_items(top.get("tasks"), "'tasks'")
    subsets = {
        name: subset_labels(name, item, tasks) for name, item in map_items(top.get("subsets"), "'subsets'").items()
    }
    names, kept = list(names), set[str]()
    for name in names:
        if name in subsets:
            kept.update(subsets[name])
        elif name in tasks:
            kept.add(name)
        elif RANGE_SIGN in name:
            if len(names) > 1:
                hint = "Name all labels, or subsets, with commas between them."
                raise ConfigError(f"the range '{name}' must stand alone", origin=origin, hint=hint)
            kept.update(range_labels(name, tasks, origin))
        else:
            raise unknown_name("subset or task", name, [*subsets, *tasks], origin, "the payload")
    datasets = dict(map_items(top.get("datasets"), "'datasets'"))
    for label, task in tasks.items():
        if label not in kept:
            for name, path in inline_datasets(task):
                datasets.setdefault(name, path)
    remaining = {label: drop_parents(task, tasks.keys() - kept) for label, task in tasks.items() if label in kept}
    datasets_origin = top["datasets"].origin if "datasets" in top else node.origin
    changed = {"tasks": Node(remaining, top["tasks"].origin), "datasets": Node(dict(datasets), datasets_origin)}
    return Node({**top, **changed}, node.origin)


def subset_labels(name: str, node: Node, tasks: Iterable[str]) -> list[str]:
    """Labels of a subset, each checked to exist."""
    # LSST's own form is a map with the labels under `subset`.
    items = node.value if isinstance(node.value, dict) else {"subset": node}
    if "subset" not in items:
        raise ConfigError(
            f"the subset '{name}' must be a list of labels, not {quote_value(plain_value(node))}", origin=node.origin
        )
    labels = read_names(items["subset"], f"the subset '{name}'")
    for label, origin in labels.items():
        if label not in tasks:
            raise unknown_name("task", label, tasks, origin, f"the subset '{name}'")
    return list(labels)


def inline_datasets(task: Node) -> Iterable[tuple[str, Node]]:
    """Datasets that a task defines in its ``inputs`` and ``outputs``."""
    items = task.value if isinstance(task.value, dict) else {}
    for section in ("inputs", "outputs"):
        defined = items[section].value if section in items else None
        if isinstance(defined, dict):
            yield from ((name, path) for name, path in defined.items() if path.value is not None)


def drop_parents(task: Node, dropped: set[str]) -> Node:
    """Remove dropped labels from the ``after`` of a task."""
    if not isinstance(task.value, dict) or "after" not in task.value:
        return task
    after = task.value["after"]
    labels = after.value if isinstance(after.value, list) else [after]
    kept = [label for label in labels if not (label.has_text and label.text in dropped)]
    return Node({**task.value, "after": Node(kept, after.origin)}, task.origin)


# Merges a pipeline with its imports and substitutes its parameters.


_KEYS: Final = ("location", "include", "exclude", "labeledSubsetModifyMode")
_MODES: Final = ("DROP", "EDIT")
_SECTIONS: Final = ("dimensions", "relations", "datasets", "parameters", "subsets", "tasks")
"""Sections whose items pass from an imported pipeline to the one that imports it."""


class Import(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline that another one imports."""

    location: Node
    """Path of the pipeline's file."""
    include: Mapping[str, Origin] | None = None
    exclude: Mapping[str, Origin] | None = None
    """Labels or subsets to take, or to leave out, with their origins; ``None`` if not given."""
    edits: bool = False
    """Whether subsets lose the labels that are left out; otherwise such subsets are dropped."""


def read_imports(node: Node) -> list[Import]:
    """Imports of a pipeline, in their order."""
    items = map_items(drop_deleted_keys(node), "the pipeline").get("imports")
    if items is None or items.value is None:
        return []
    return [_read_import(item) for item in (items.value if isinstance(items.value, list) else [items])]


def _read_import(node: Node) -> Import:
    if not isinstance(node.value, dict):
        read_text(node, "what 'imports' names")
        return Import(location=node)
    what = "an import"
    check_keys(node.value, _KEYS, what)
    if "location" not in node.value:
        raise ConfigError("an import has no 'location'", origin=node.origin, hint="Give it the path of a pipeline.")
    read_text(node.value["location"], "'location' of an import")
    include, exclude = (
        read_names(node.value[key], f"'{key}' of {what}") if key in node.value else None
        for key in ("include", "exclude")
    )
    if include is not None and exclude is not None:
        raise ConfigError(
            "an import has both 'include' and 'exclude'", origin=node.origin, hint="What is not included is left out."
        )
    return Import(location=node.value["location"], include=include, exclude=exclude, edits=_edits_subsets(node.value))


def _edits_subsets(items: Mapping[str, Node]) -> bool:
    mode = items.get("labeledSubsetModifyMode")
    if mode is None or mode.value is None:
        return False
    if mode.value not in _MODES:
        raise ConfigError(
            f"'labeledSubsetModifyMode' must be {' or '.join(_MODES)}, not {quote_value(plain_value(mode))}",
            origin=mode.origin,
        )
    return bool(mode.value == "EDIT")


def select_imported(node: Node, item: Import) -> tuple[Node, frozenset[str]]:
    """Part of an imported pipeline that the import selects, and the labels that it leaves out.

    Outputs of the tasks that are left out stay known as datasets. The pipeline must have no imports of its own.

    Raises `ConfigError` if a label or subset is unknown.
    """
    top = map_items(drop_deleted_keys(node), "the pipeline")
    tasks = map_items(top.get("tasks"), "'tasks'")
    subsets = map_items(top.get("subsets"), "'subsets'")
    named = item.include if item.include is not None else item.exclude
    if named is None:
        return node, frozenset()
    members = {name: subset_labels(name, each, tasks) for name, each in subsets.items()}
    labels: set[str] = set()
    for name, origin in named.items():
        if name not in members and name not in tasks:
            where = f"the import of '{node.origin.file}'"
            raise unknown_name("subset or task", name, [*members, *tasks], origin, where)
        labels.update(members.get(name, (name,)))
    kept = labels if item.include is not None else tasks.keys() - labels
    datasets = dict(map_items(top.get("datasets"), "'datasets'"))
    for label in tasks.keys() - kept:
        for name, path in inline_datasets(tasks[label]):
            datasets.setdefault(name, path)
    sections = {
        "tasks": {label: task for label, task in tasks.items() if label in kept},
        "subsets": dict(_remaining_subsets(subsets, members, kept, edits=item.edits)),
        "datasets": datasets,
    }
    changed = {
        key: Node(dict(value), top[key].origin if key in top else node.origin) for key, value in sections.items()
    }
    return Node({**top, **changed}, node.origin), frozenset(tasks.keys() - kept)


def _remaining_subsets(
    subsets: Mapping[str, Node], members: Mapping[str, Sequence[str]], kept: Collection[str], *, edits: bool
) -> Iterable[tuple[str, Node]]:
    """Subsets that remain, with their remaining labels."""
    for name, node in subsets.items():
        left = [label for label in members[name] if label in kept]
        if len(left) == len(members[name]):
            yield name, node
        elif edits and left:
            yield name, Node([Node(label, node.origin) for label in left], node.origin)


def merge_imports(node: Node, imported: Sequence[tuple[Node, frozenset[str]]]) -> Node:
    """Merge a pipeline with its imports; the pipeline's own definitions win.

    Each import comes with the labels that it leaves out: no task waits for these any more.

    Raises `ConfigError` if two imports define one name differently and the pipeline does not define it.
    """
    top = map_items(drop_deleted_keys(node), "the pipeline")
    others = [map_items(drop_deleted_keys(each), "the pipeline") for each, _ in imported]
    found = {key: value for key, value in top.items() if key != "imports"}
    for section in _SECTIONS:
        own = map_items(top.get(section), f"'{section}'")
        items: dict[str, Node] = {}
        for other in others:
            for name, item in map_items(other.get(section), f"'{section}'").items():
                first = items.setdefault(name, item)
                if name not in own and written_value(first) != written_value(item):
                    raise _conflict_error(section, name, first, item)
        items |= {name: _override(items.get(name), item, section) for name, item in own.items()}
        if items or section in top:
            found[section] = Node(items, top[section].origin if section in top else node.origin)
    lost = {label for _, labels in imported for label in labels}
    if "tasks" in found and lost:
        tasks = map_items(found["tasks"], "'tasks'")
        kept = {label: drop_parents(task, lost - tasks.keys()) for label, task in tasks.items()}
        found["tasks"] = Node(dict(kept), found["tasks"].origin)
    return Node(found, node.origin)


def _conflict_error(section: str, name: str, first: Node, second: Node) -> ConfigError:
    kind = section.removesuffix("s")
    return ConfigError(
        f"two imported pipelines define the {kind} '{name}' in different ways",
        origin=second.origin,
        hint=f"The other one is at {first.origin}. Define it in the pipeline that imports them, or exclude one.",
    )


def _override(imported: Node | None, own: Node, section: str) -> Node:
    """Definition of the importing pipeline; for a task, merged over the imported one."""
    if section != "tasks" or imported is None:
        return own
    if not isinstance(imported.value, dict) or not isinstance(own.value, dict):
        return own
    return Node({**imported.value, **own.value}, own.origin)


# ---------------------------------------------------------------------------------------------------------- parameters


def substitute_parameters(node: Node) -> Node:
    """Replace the names of parameters by their values.

    A text that is only a parameter's name becomes its value, of any type; within a text, the value is inserted as text.

    Raises `ConfigError` if a parameter has no value or an invalid name, or a map or list would stand within a text.
    """
    top = map_items(drop_deleted_keys(node), "the pipeline")
    parameters = map_items(top.get("parameters"), "'parameters'")
    for name, value in parameters.items():
        check_identifier(name, "parameters", value.origin)
        for section in ("dimensions", "datasets"):
            if name in map_items(top.get(section), f"'{section}'"):
                message = f"'{name}' is in '{section}' and cannot be a parameter as well"
                raise ConfigError(message, origin=value.origin)
        if value.value is None:
            raise ConfigError(f"the parameter '{name}' has no value", origin=value.origin)
    rest = {key: value for key, value in top.items() if key != "parameters"}
    if not parameters:
        return Node(rest, node.origin)
    return Node({key: _substitute(value, parameters) for key, value in rest.items()}, node.origin)


def _substitute(node: Node, parameters: Mapping[str, Node]) -> Node:
    value = node.value
    if isinstance(value, dict):
        return Node({key: _substitute(item, parameters) for key, item in value.items()}, node.origin)
    if isinstance(value, list):
        return Node([_substitute(item, parameters) for item in value], node.origin)
    if not isinstance(value, str) or "{" not in value:
        return node
    parts = split_fields(value)
    used = {part.name for part in parts if not isinstance(part, str)} & parameters.keys()
    if not used:
        return node
    if len(parts) == 1 and used and value == f"{{{(name := next(iter(used)))}}}":
        return Node(parameters[name].value, node.origin, written=parameters[name].written)
    values = {name: _parameter_value(name, parameters[name], node) for name in used}
    texts = {name: parameters[name].written for name in used}
    return Node(substitute_values(value, values, node.origin, texts=texts), node.origin)


def _parameter_value(name: str, parameter: Node, user: Node) -> Any:
    if isinstance(parameter.value, dict | list):
        raise ConfigError(
            f"the parameter '{name}' is no text, and stands within one: {quote_value(plain_value(user))}",
            origin=user.origin,
            hint=f"Let the text be '{{{name}}}' and nothing else, or give the parameter a text.",
        )
    return parameter.value
