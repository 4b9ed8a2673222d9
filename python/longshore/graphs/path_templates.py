"""Fills in the path templates of datasets, and checks the names that commands use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from longshore.config.merge import Node
from longshore.config.quantities import quote_node, quoting_hint
from longshore.config.templates import Field, Template, column_names, format_value, split_fields, unparse_fields
from longshore.errors import ConfigError, ErrorCollector, Origin
from longshore.graphs.declarations import PipelineDeclaration, TaskEntry, unknown_name
from longshore.graphs.dimensions import Dimension, place_of, read_column
from longshore.graphs.placeholders import CommandContext, configured_commands, refuse_foreign_placeholders
from longshore.graphs.tables import Value
from longshore.model.tasks import is_remote, tidy_path
from longshore.model.wording import did_you_mean, quote_value

ExpandTemplate: TypeAlias = Callable[[Node, frozenset[str]], Template]
"""Parses a text into a template; the given names stay fields, all others are filled in."""


def parse_template(node: Node, names: frozenset[str]) -> Template:
    """Parse a text into a template without filling anything in."""
    return Template(split_fields(node.text, names), node.origin)


class RequestedColumn(msgspec.Struct, frozen=True, kw_only=True):
    """Use of a column in a request of resources."""

    key: str
    origin: Origin


class PathTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """Path template of a dataset."""

    dataset: str
    pattern: str
    """The text around the fields, with ``%s`` for each field."""
    fields: tuple[Field, ...]
    dimensions: tuple[str, ...]
    """Dimensions of the fields, each once, in the order of the path."""
    origin: Origin

    def texts(self, dimensions: Mapping[str, Dimension], wanted: Mapping[str, Collection[int]]) -> list[list[str]]:
        """Per field, the text of each value of its dimension; empty for values that are not `wanted`.

        Raises `ConfigError` if a value does not fit its format, or cannot be part of a file name.
        """
        return [
            self._column_texts(field, dimensions, wanted[dimension_of(field.name)])
            if "." in field.name
            else self._texts(field, dimensions[field.name], wanted[field.name])
            for field in self.fields
        ]

    def _column_texts(self, field: Field, dimensions: Mapping[str, Dimension], wanted: Collection[int]) -> list[str]:
        """Texts of a column: unlike the value of a dimension, each may be a path, and a whole path may be empty."""
        where = f"the path of the dataset '{self.dataset}'"
        values = read_column(field.name, dimensions, self.origin, where)
        texts = [""] * len(values)
        for code in wanted:
            text = texts[code] = format_value(values[code], field, self.origin)
            if "\0" in text or (not text and not self.is_column):
                sample = dimensions[dimension_of(field.name)].values[code]
                raise ConfigError(
                    f"{where} cannot have the value {_quote_text(text)}, which '{field.name}' has for "
                    f"{quote_value(sample)}",
                    origin=self.origin,
                    hint="A column may be empty only where it is the whole path: there is no such file then.",
                )
            if text and self.is_column and not is_remote(text):
                texts[code] = tidy_path(text)
        return texts

    def folders(self, texts: Sequence[Sequence[str]], codes: Mapping[str, Sequence[int]]) -> Iterable[str] | None:
        """Folders of the paths of rows, each once, with a slash at its end; ``None`` if a column may have slashes."""
        if any("." in field.name for field in self.fields):
            return None
        pattern = self.pattern[: self.pattern.rfind("/") + 1]
        fields = self.fields[: len(pattern.replace("%%", "").split("%s")) - 1]
        if not fields:
            return (pattern % (),)
        found = {*zip(*(codes[field.name] for field in fields), strict=True)}
        return [pattern % tuple([these[code] for these, code in zip(texts, row, strict=False)]) for row in found]

    @property
    def is_column(self) -> bool:
        """Whether the whole path is a column of a table."""
        return self.pattern == "%s" and "." in self.fields[0].name

    def _texts(self, field: Field, dimension: Dimension, wanted: Collection[int]) -> list[str]:
        texts = [""] * len(dimension.values)
        for code in wanted:
            value = dimension.values[code]
            text = texts[code] = format_value(value, field, self.origin)
            if "/" in text or text in {"", ".", ".."} or "\0" in text:
                message = (
                    f"the value {_quote_text(value)} of the dimension '{dimension.name}' cannot be a part of a path"
                )
                place = place_of(value, dimension)
                raise ConfigError(
                    f"{message}, as the dataset '{self.dataset}' wants it",
                    origin=self.origin,
                    hint="In the name of a file a value must not be empty, '.' or '..', or have a slash in it."
                    + (f" It is at {place}." if place else ""),
                )
        return texts

    def paths(self, texts: Sequence[Sequence[str]], codes: Mapping[str, Sequence[int]], rows: int) -> list[str]:
        """Path per row."""
        if not self.fields:
            return [self.pattern % ()] * rows
        columns = [
            map(these.__getitem__, codes[dimension_of(field.name)])
            for field, these in zip(self.fields, texts, strict=True)
        ]
        return list(map(self.pattern.__mod__, zip(*columns, strict=True)))


def _quote_text(value: Value) -> str:
    """The value in quotes, with escapes for control characters."""
    return quote_value(repr(str(value))[1:-1])


def dimension_of(name: str) -> str:
    """Dimension of a field: that of a column is before the dot."""
    return name.partition(".")[0]


def path_template(dataset: str, template: Template, dimensions: Collection[str]) -> PathTemplate:
    """Parse the path template of a dataset.

    Raises `ConfigError` if a field is not a dimension.
    """
    origin = template.origin or Origin("")
    for part in template.parts:
        if isinstance(part, Field):
            where = f"the path of the dataset '{dataset}'"
            if dimension_of(part.name) not in dimensions:
                raise unknown_name("dimension", part.name, dimensions, origin, where)
            if "/" in part.spec:
                raise ConfigError(f"{where} has a slash in the format '{part}'", origin=origin)
    written = unparse_fields(template.parts)
    parts = split_fields(written if is_remote(written) else tidy_path(written), template.names)
    fields = tuple(part for part in parts if isinstance(part, Field))
    return PathTemplate(
        dataset=dataset,
        pattern="".join("%s" if isinstance(part, Field) else part.replace("%", "%%") for part in parts),
        fields=fields,
        dimensions=tuple(dict.fromkeys(dimension_of(field.name) for field in fields)),
        origin=origin,
    )


def check_commands(
    description: PipelineDeclaration,
    uses: Mapping[str, Collection[str]],
    context: CommandContext,
    errors: ErrorCollector,
) -> None:
    """Collect errors of commands: names of dimensions and datasets that their task lacks, and foreign placeholders.

    `uses` holds the dimensions in the path of each valid dataset. Names that the pipeline does not know are left to the
    configuration. In the commands of `context`, only foreign placeholders are looked for.
    """
    words: list[tuple[TaskEntry, Node]] = []
    for task in description.tasks.values():
        with errors.collect():
            words += [(task, word) for word in _command_words(task)]
    with errors.collect():
        refuse_foreign_placeholders([*words, *configured_commands(description, context)], description, context)
    for task, word in words:
        with errors.collect():
            for part in split_fields(word.text):
                if isinstance(part, Field):
                    with errors.collect():
                        _check_field(description, task, word, part, uses)


def check_near_names(description: PipelineDeclaration, expand: ExpandTemplate, errors: ErrorCollector) -> None:
    """Collect names in commands that nothing defines and that are nearly those of a dimension or dataset."""
    known = frozenset((*description.dimensions, *description.datasets))
    for task in description.tasks.values():
        with errors.collect():
            for word in _command_words(task):
                for part in split_fields(word.text):
                    if isinstance(part, Field) and part.name not in known and (hint := did_you_mean(part.name, known)):
                        with errors.collect():
                            _refuse_undefined(task, word, part.name, hint, expand)


def _refuse_undefined(task: TaskEntry, word: Node, name: str, hint: str, expand: ExpandTemplate) -> None:
    try:
        expand(Node(f"{{{name}}}", word.origin), frozenset())
    except ConfigError:
        message = f"the command of the task '{task.label}' uses '{{{name}}}', which nothing defines"
        raise ConfigError(message, origin=word.origin, hint=hint) from None


def check_path_columns(
    description: PipelineDeclaration, templates: Mapping[str, PathTemplate], dimensions: Mapping[str, Dimension]
) -> None:
    """Refuse paths of used datasets with columns that have no value; the error has the place of the path."""
    used = dict.fromkeys(name for task in description.tasks.values() for name in (*task.inputs, *task.outputs))
    for template in map(templates.__getitem__, used):
        for field in template.fields:
            if "." in field.name:
                read_column(field.name, dimensions, template.origin, f"the path of the dataset '{template.dataset}'")


def check_requested_columns(requested: Mapping[str, RequestedColumn], dimensions: Mapping[str, Dimension]) -> None:
    """Refuse requests with columns that the table of a dimension lacks; other names may belong to other payloads."""
    for name, column in requested.items():
        if dimension_of(name) in dimensions:
            read_column(name, dimensions, column.origin, f"'{column.key}'")


def read_columns(
    description: PipelineDeclaration,
    dimensions: Mapping[str, Dimension],
    others: Collection[str],
    context: CommandContext,
) -> dict[str, dict[Value, Value]]:
    """Read the columns that commands use, and those of `others` that there are: a cell per value of the dimension.

    Raises
    ------
    ConfigError
        A command uses a column that its table lacks, or one with several values for one of the dimension.
    """
    found: dict[str, dict[Value, Value]] = {}
    words = [(task, word) for task in description.tasks.values() for word in _command_words(task)]
    for task, word in (*words, *configured_commands(description, context)):
        for name in column_names(word.text):
            if name not in found and dimension_of(name) in task.dimensions:
                where = f"the command of the task '{task.label}'"
                cells = read_column(name, dimensions, word.origin, where)
                found[name] = dict(zip(dimensions[dimension_of(name)].values, cells, strict=True))
    for name in sorted(others):
        base, _, column = name.partition(".")
        table = dimensions[base].table if base in dimensions else None
        if name not in found and table is not None and column in table.columns:
            cells = read_column(name, dimensions, dimensions[base].origin, "the configuration")
            found[name] = dict(zip(dimensions[base].values, cells, strict=True))
    return found


def _command_words(task: TaskEntry) -> Sequence[Node]:
    words = task.command.value if isinstance(task.command.value, list) else [task.command]
    if not words or not str(words[0].value).strip():
        raise ConfigError(f"the command of the task '{task.label}' names no program", origin=task.command.origin)
    for word in words:
        if not word.has_text:
            message = f"the command of the task '{task.label}' must be text or a list of texts, not {quote_node(word)}"
            raise ConfigError(message, origin=word.origin, hint=quoting_hint(word))
    return words


def _check_field(
    description: PipelineDeclaration, task: TaskEntry, word: Node, field: Field, uses: Mapping[str, Collection[str]]
) -> None:
    name = field.name
    what = f"the command of the task '{task.label}' uses '{{{name}}}'"
    if name in description.dimensions and name not in task.dimensions:
        hint = f"Add it to the task: 'dimensions: [{', '.join([*task.dimensions, name])}]'."
        raise ConfigError(f"{what}, which is not one of its dimensions", origin=word.origin, hint=hint)
    if name not in description.datasets:
        return
    if name not in task.inputs and name not in task.outputs:
        kind = "inputs" if name in description.makers else "inputs or outputs"
        hint = f"Add '{name}' to the {kind} of '{task.label}'."
        raise ConfigError(f"{what}, which is neither its input nor its output", origin=word.origin, hint=hint)
    if field.spec:
        raise ConfigError(f"{what} with a format, but a path is written as it is", origin=word.origin)
    alone = not isinstance(task.command.value, list) or word.value == f"{{{name}}}"
    if not alone and not set(uses.get(name, ())) <= set(task.dimensions):
        hint = f"Let '{{{name}}}' be an item of its own: each file becomes a word."
        raise ConfigError(f"{what} inside of a word, but it can be several files", origin=word.origin, hint=hint)
