"""Reads the values of dimensions and the rows of relations from declarations and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial

import msgspec

from longshore.config.merge import Node
from longshore.config.quantities import quote_node, quoting_hint
from longshore.errors import ConfigError, ErrorCollector, GraphError, Origin
from longshore.graphs.declarations import (
    DimensionEntry,
    FileKind,
    NeededFile,
    PipelineDeclaration,
    RelationEntry,
    unknown_name,
)
from longshore.graphs.query import Column, ColumnValues, query_error
from longshore.graphs.tables import Table, Value, ValueKind, are_numbers, is_value, spelled_numbers, value_kind
from longshore.model.values import value_order
from longshore.model.wording import did_you_mean, quote_value

Row = tuple[int, ...]


class Dimension(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A dimension and its values."""

    name: str
    values: tuple[Value, ...]
    """Distinct, all numbers or all text, and sorted by `sort_values`; the position of a value is its code."""
    kind: ValueKind
    origin: Origin
    table: Table | None = None
    column: str = ""
    """Column of `table` that holds the values."""

    @cached_property
    def codes(self) -> Mapping[str, int]:
        """The code of each value by its text: values are equal by their texts, whatever file they are in."""
        return {str(value): code for code, value in enumerate(self.values)}


class SkippedRows(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a relation with a value that its dimension lacks."""

    rows: int
    dimension: str
    value: Value
    """The value of the first of these rows."""
    origin: Origin | None


class Relation(msgspec.Struct, frozen=True):
    """Rows that join dimensions."""

    name: str
    """The relation, as errors name it."""
    dimensions: tuple[str, ...]
    rows: list[Row]
    """Codes of the values, each row once."""
    origin: Origin | None = None
    skipped: SkippedRows | None = None


# ----------------------------------------------------------------------------------------------------------- dimensions


def read_dimensions(
    description: PipelineDeclaration, tables: Mapping[str, Table], *, limit: int
) -> dict[str, Dimension]:
    """Values of all dimensions, at most `limit` each.

    Raises `ConfigError` if values are invalid, and `GraphError` if there are too many.
    """
    used = {name for task in description.tasks.values() for name in task.dimensions}
    used.update(name for relation in description.relations.values() for name in relation.columns or ())
    return {
        name: _dimension(entry, tables, limit)
        for name, entry in description.dimensions.items()
        if name in used or not _is_variable(entry, tables)
    }


def check_listed_values(description: PipelineDeclaration, errors: ErrorCollector) -> None:
    """Collect errors in the values of dimensions that have a list of them."""
    for entry in description.dimensions.values():
        with errors.collect():
            _listed_values(entry, f"the dimension '{entry.name}'")


def _is_variable(entry: DimensionEntry, tables: Mapping[str, Table]) -> bool:
    """Whether a field of a pattern is a variable, which the caller has replaced, and not a dimension."""
    return bool(entry.implied and entry.file and entry.name not in find_table(tables, entry.file).columns)


def _dimension(entry: DimensionEntry, tables: Mapping[str, Table], limit: int) -> Dimension:
    what = f"the dimension '{entry.name}'"
    table: Table | None = None
    values: Iterable[Value]
    if entry.range:
        first, last, step = entry.range
        count = (last - first) // step + 1
        if count > limit:
            raise GraphError(f"{what} has {count:,} values, more than {limit:,}", origin=entry.origin)
        values = range(first, last + 1, step)
    elif entry.file:
        table = find_table(tables, entry.file)
        values = set(table.column(entry.column, entry.origin))
    else:
        values = _listed_values(entry, what)
    ordered = sort_values(values)
    if not ordered:
        raise ConfigError(f"{what} has no values: '{table.name if table else ''}' has no rows", origin=entry.origin)
    _check_text(ordered, what, entry.origin)
    return Dimension(
        name=entry.name,
        values=ordered,
        kind=value_kind(ordered[0]),
        origin=entry.origin,
        table=table if entry.file and entry.file.kind is FileKind.TABLE else None,
        column=entry.column,
    )


def sort_values(values: Iterable[Value]) -> tuple[Value, ...]:
    """Sort the values of a dimension: by their numbers if all have one, else by their texts."""
    ordered = tuple(sorted(values))
    if not ordered or value_kind(ordered[0]) is ValueKind.NUMBER or spelled_numbers(ordered) is None:
        return ordered
    return tuple(sorted(ordered, key=value_order))


def find_table(tables: Mapping[str, Table], file: NeededFile) -> Table:
    """The table of a file or pattern."""
    if file.key not in tables:
        raise ConfigError(f"the {file.kind} {quote_value(file.name, 200)} was not read", origin=file.origin)
    return tables[file.key]


def _listed_values(entry: DimensionEntry, what: str) -> list[Value]:
    found: dict[str, Origin] = {}
    values: list[Value] = []
    for node in entry.values:
        value = node_value(node, what)
        text = str(value)
        if text in found:
            message = f"{what} has the value {quote_value(value)} twice"
            raise ConfigError(message, origin=node.origin, hint=f"It stands first at {found[text]}.")
        found[text] = node.origin
        values.append(value)
    return values if are_numbers(set(values), len(values)) else list(found)


def node_value(node: Node, what: str) -> Value:
    """Value of a YAML node: a number, or the text of what Python would write in another way."""
    if not node.has_text:
        message = f"{what} cannot have the value {quote_node(node)}: values are numbers or text"
        raise ConfigError(message, origin=node.origin, hint=quoting_hint(node))
    if node.written or not is_value(node.value):
        return node.text
    assert isinstance(node.value, str | int | float)
    return node.value


def _check_text(values: Sequence[Value], what: str, origin: Origin) -> None:
    """Refuse values that no command or file name can hold."""
    if not isinstance(values[0], str):
        return
    joined = "".join(map(str, values))
    if "\0" in joined:
        raise ConfigError(f"{what} has a value with a NUL in it", origin=origin)
    try:
        joined.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{what} has a value that is not Unicode text", origin=origin) from None


# ------------------------------------------------------------------------------------------------------------ relations


def read_relations(
    description: PipelineDeclaration, dimensions: Mapping[str, Dimension], tables: Mapping[str, Table]
) -> list[Relation]:
    """Rows of all relations, including patterns that capture several dimensions.

    Raises `ConfigError` if a relation is invalid, and `GraphError` if it joins nothing.
    """
    found = [_relation(entry, dimensions, tables) for entry in description.relations.values()]
    patterns = {
        entry.file.key: entry.file
        for entry in description.dimensions.values()
        if entry.file and entry.file.kind is FileKind.GLOB
    }
    for file in patterns.values():
        table = find_table(tables, file)
        if len(table.columns) > 1:
            what = f"the pattern {quote_value(file.name)}"
            found.append(_make_relation(what, table, {name: name for name in table.columns}, dimensions, file.origin))
    return found


def _relation(entry: RelationEntry, dimensions: Mapping[str, Dimension], tables: Mapping[str, Table]) -> Relation:
    what = f"the relation '{entry.name}'"
    if entry.file is None:
        assert entry.columns is not None
        table = _inline_table(entry, what, list(entry.columns.values()))
    else:
        table = find_table(tables, entry.file)
    columns = entry.columns
    if columns is None:
        columns = {name: name for name in table.columns}
        for name in columns:
            if name not in dimensions:
                error = unknown_name("dimension", name, dimensions, entry.origin, f"a column of '{table.name}'")
                error.hint = f"{error.hint} 'columns' of {what} says which columns to take.".strip()
                raise error
        if len(columns) < 2:
            message = f"{what} must have two dimensions or more, and '{table.name}' has one column"
            raise ConfigError(message, origin=entry.origin)
    return _make_relation(what, table, columns, dimensions, entry.origin)


def _inline_table(entry: RelationEntry, what: str, names: Sequence[str]) -> Table:
    rows = [[node_value(cell, what) for cell in row.value] for row in entry.rows if isinstance(row.value, list)]
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    origin = entry.rows[0].origin
    lines = [row.origin.line for row in entry.rows]
    return Table(name=origin.file, columns=columns, lines=lines if origin.line else (), origin=origin)


def _make_relation(
    what: str, table: Table, columns: Mapping[str, str], dimensions: Mapping[str, Dimension], origin: Origin
) -> Relation:
    """Relation with the codes of its values; rows with a value that its dimension lacks are dropped."""
    coded = [_codes(dimensions[name], table, column, origin) for name, column in columns.items()]
    rows = list(zip(*coded, strict=True))
    distinct = dict.fromkeys(rows)
    if len(distinct) < len(rows) and len(columns) == len(table.columns):
        _refuse_duplicate_row(what, table, columns)
    whole = [row for row in distinct if None not in row]
    if not whole:
        lacking = [name for name, codes in zip(columns, coded, strict=True) if all(code is None for code in codes)]
        hint = ""
        if lacking and rows:
            cell, dimension = table.columns[columns[lacking[0]]][0], dimensions[lacking[0]]
            hint = (
                f"It has {quote_value(cell)} for '{dimension.name}', whose values are such as "
                f"{quote_value(dimension.values[0])}."
            )
        raise GraphError(
            f"{what} joins nothing: none of its {len(rows)} rows has values that there are", origin=origin, hint=hint
        )
    return Relation(what, tuple(columns), whole, origin, _skipped_rows(table, columns, rows))


def _skipped_rows(
    table: Table, columns: Mapping[str, str], rows: Sequence[tuple[int | None, ...]]
) -> SkippedRows | None:
    """Rows of a table that were dropped; ``None`` without any, or for names of files, which have no lines."""
    skipped = [position for position, row in enumerate(rows) if None in row] if table.lines else []
    if not skipped:
        return None
    name, column = next(item for item, code in zip(columns.items(), rows[skipped[0]], strict=True) if code is None)
    return SkippedRows(
        rows=len(skipped),
        dimension=name,
        value=table.columns[column][skipped[0]],
        origin=table.place(skipped[0]),
    )


def _codes(dimension: Dimension, table: Table, column: str, origin: Origin) -> list[int | None]:
    code_of = dimension.codes.get
    return [code_of(str(cell)) for cell in table.cells(column, origin)]


def _refuse_duplicate_row(what: str, table: Table, columns: Mapping[str, str]) -> None:
    """Refuse a duplicate row if the relation uses all columns: one of the two is likely to be wrong."""
    rows = list(zip(*(table.columns[column] for column in columns.values()), strict=True))
    if len(set(rows)) == len(rows):
        return
    first: dict[tuple[Value, ...], int] = {}
    for position, row in enumerate(rows):
        if row in first:
            said = ", ".join(map(str, row))
            place = f"at {table.place(first[row])}" if table.lines else f"as row {first[row] + 1}"
            raise ConfigError(
                f"{what} has the row {quote_value(said)} twice",
                origin=table.place(position),
                hint=f"It stands first {place}.",
            )
        first[row] = position


# -------------------------------------------------------------------------------------------------- columns of a query


def resolve_column(column: Column, *, dimensions: Mapping[str, Dimension], origin: Origin | None) -> ColumnValues:
    """Resolve a name in a query: a dimension, or another column of the dimension's table.

    Raises `ConfigError` if the name is unknown.
    """
    name, _, attribute = column.name.partition(".")
    if name not in dimensions:
        hint = did_you_mean(name, dimensions) or f"If it is a text, quote it: '{column.name}'."
        raise query_error(f"unknown dimension '{name}'", column.at, origin, hint)
    dimension = dimensions[name]
    table = dimension.table
    if table is not None and attribute in table.columns and attribute != dimension.column:
        return _attribute_values(column, dimension, table, attribute, origin)
    if attribute in {"", "id", name, dimension.column or name}:
        return ColumnValues(name, dimension.values, dimension.kind)
    known = [] if table is None else [each for each in table.columns if each != dimension.column]
    hint = did_you_mean(attribute, known) or (
        "It has " + ", ".join(known) + "." if known else "It comes from no table."
    )
    raise query_error(f"the dimension '{name}' has no column {quote_value(attribute)}", column.at, origin, hint)


def _attribute_values(
    column: Column, dimension: Dimension, table: Table, attribute: str, origin: Origin | None
) -> ColumnValues:
    try:
        values = _column_values(dimension, table, attribute, origin)
    except AmbiguousColumnError as error:
        raise query_error(error.message, column.at, origin, error.hint) from None
    return ColumnValues(dimension.name, values, value_kind(values[0]))


class AmbiguousColumnError(ConfigError):
    """A value of a dimension has several values in a column of its table."""


def read_column(name: str, dimensions: Mapping[str, Dimension], origin: Origin | None, where: str) -> list[Value]:
    """Value of a column (``sample.size``) for each value of its dimension.

    `where` names its use in errors. Raises `ConfigError` if there is no such column, or it has several values for one
    of the dimension.
    """
    base, _, attribute = name.partition(".")
    dimension = dimensions[base]
    table = dimension.table
    if table is None:
        raise ConfigError(
            f"{where} uses '{{{name}}}', but the dimension '{base}' comes from no table",
            origin=origin,
            hint=f"Did you mean '{{{base}}}'? If the text is meant, double the braces: '{{{{{name}}}}}'.",
        )
    if attribute not in table.columns:
        message = f"{where} uses '{{{name}}}', but '{table.name}' has no column '{attribute}'"
        raise ConfigError(message, origin=origin, hint=table.column_hint(attribute))
    try:
        return _column_values(dimension, table, attribute, origin)
    except AmbiguousColumnError as error:
        error.message = f"{where} uses '{{{name}}}', but {error.message}"
        raise


def _column_values(dimension: Dimension, table: Table, attribute: str, origin: Origin | None) -> list[Value]:
    found: dict[Value, Value] = {}
    rows = zip(table.column(dimension.column, origin), table.column(attribute, origin), strict=True)
    for row, (value, cell) in enumerate(rows):
        if found.setdefault(value, cell) != cell:
            raise AmbiguousColumnError(
                f"'{dimension.name}.{attribute}' is not one value: {quote_value(value)} has "
                f"{quote_value(found[value])} and {quote_value(cell)}",
                origin=origin,
                hint=f"The second is at {table.place(row)}. For several rows per value, add a dimension for the rows, "
                f"such as 'row: {{table: {table.name}, column: {_row_column(table, attribute)}}}', and a relation of "
                f"'{dimension.name}' and 'row'.",
            )
    return [found[value] for value in dimension.values]


def _row_column(table: Table, column: str) -> str:
    """The column if it tells the rows of a table apart, else a placeholder."""
    cells = table.columns[column]
    return column if len(set(map(str, cells))) == len(cells) else "COLUMN"


def place_of(value: Value, dimension: Dimension) -> Origin | None:
    """The row of a table that has a value of a dimension, if a table has it."""
    table = dimension.table
    if table is None or not table.lines:
        return None
    return table.place(table.column(dimension.column, dimension.origin).index(value))


def column_resolver(dimensions: Mapping[str, Dimension], origin: Origin | None) -> partial[ColumnValues]:
    """Resolver of columns for `longshore.graphs.query.bind_conditions`."""
    return partial(resolve_column, dimensions=dimensions, origin=origin)
