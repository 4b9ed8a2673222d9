"""Notes about a pipeline that is legal but may be a mistake: in its sheets, and in how its dimensions are joined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from longshore.contract.context import Problem
from longshore.graph.dimensions.dimensions import Dimension, Relation, SkippedRows, place_of
from longshore.graph.dimensions.universe import Universe
from longshore.graph.pipeline.label_tasks import LabelTasks
from longshore.graph.pipeline.path_templates import PathTemplate, dimension_of
from longshore.graph.query.tables import Value
from longshore.model.wording import count_noun, invisible_character, quote_value
from longshore.origin import Origin


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
