"""A ``dataQuery`` means the same as to the Butler; errors name their column."""

from __future__ import annotations

import fnmatch
import operator
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.errors import ConfigError, LongshoreError, Origin
from longshore.graphs.query import Column, ColumnValues, Condition, bind_conditions, parse_query, query_error
from longshore.graphs.tables import ValueKind

VALUES: Mapping[str, tuple[int | float | str, ...]] = {
    "visit": (0, 1, 2, 3, 10),
    "detector": (0, 1, 2.5),
    "band": ("g", "r", "it's", "r%d"),
    "visit.name": ("a", "b", "b", "d_4", ""),
}


def resolve(column: Column) -> ColumnValues:
    if column.name not in VALUES:
        raise query_error(f"there is no '{column.name}'", column.at, None)
    values = VALUES[column.name]
    kind = ValueKind.TEXT if isinstance(values[0], str) else ValueKind.NUMBER
    return ColumnValues(column.name.partition(".")[0], values, kind)


def conditions_of(text: str) -> list[Condition]:
    return bind_conditions(parse_query(text), resolve)


def passing(text: str) -> list[tuple[int, int, int]]:
    """Numbers of the combinations of visit, detector and band that satisfy a query."""
    rows = [(visit, detector, band) for visit in range(5) for detector in range(3) for band in range(4)]
    codes = dict(zip(("visit", "detector", "band"), zip(*rows, strict=True), strict=True))
    for condition in conditions_of(text):
        passes = condition.passes(codes, len(rows))
        keep = [row for row, one in zip(range(len(rows)), passes, strict=True) if one]
        rows = [rows[position] for position in keep]
        codes = {name: tuple(these[position] for position in keep) for name, these in codes.items()}
    return rows


def visits(text: str) -> list[Any]:
    return sorted({VALUES["visit"][visit] for visit, _, _ in passing(text)})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [0, 1, 2, 3, 10]),
        ("  \n\t ", [0, 1, 2, 3, 10]),
        ("visit = 1", [1]),
        ("visit == 1", [1]),
        ("visit = 1.0", [1]),
        ("1 = visit", [1]),
        ("visit != 1", [0, 2, 3, 10]),
        ("visit<2", [0, 1]),
        ("visit <= 2", [0, 1, 2]),
        ("2 < visit", [3, 10]),
        ("2>=visit", [0, 1, 2]),
        ("visit > -1", [0, 1, 2, 3, 10]),
        ("visit > +2.5e0", [3, 10]),
        ("visit IN (1)", [1]),
        ("visit in (1, 3..10:7, 2)", [1, 2, 3, 10]),
        ("visit IN (-5..1)", [0, 1]),
        ("visit IN (0 .. 9 : 3)", [0, 3]),
        ("visit IN (0..99999999999999999999:2)", [0, 2, 10]),
        ("visit NOT IN (0..99999999999999999999:2)", [1, 3]),
        ("detector IN (0..99999999999999999999) AND visit = 1", [1]),
        ("visit not In (0..3)", [10]),
        ("visit IN (detector)", [0, 1]),
        ("visit NOT IN (detector, 2, 3)", [0, 1, 10]),
        ("visit.name = 'b'", [1, 2]),
        ("visit.name = ''", [10]),
        ("visit.name GLOB '*_?'", [3]),
        ("GLOB(visit.name, '[ab]') OR visit = 1", [1]),
        ("glob( visit.name , 'b*' )", [1, 2]),
        ("visit.name NOT GLOB 'b'", [0, 3, 10]),
        ("NOT visit = 1", [0, 2, 3, 10]),
        ("not visit = 1 and visit < 3", [0, 2]),
        ("NOT NOT visit = 1", [1]),
        ("visit = 1 OR visit = 2 AND visit = 3", [1]),
        ("(visit = 1 OR visit = 2) AND NOT visit = 1", [2]),
        ("NOT (visit = 1 OR visit > 2)", [0, 2]),
        ("(visit) = (1)", [1]),
        ("visit = 1 Or visit=3", [1, 3]),
        ("1 = 1", [0, 1, 2, 3, 10]),
        ("'a' != 'b' AND visit=2", [2]),
        ("1 = 2 OR visit = 2", [2]),
        ("visit = visit", [0, 1, 2, 3, 10]),
        ("visit < visit", []),
    ],
)
def test_query_selects_matching_values(text: str, expected: list[Any]) -> None:
    assert visits(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("band = 'it''s'", {2}),
        ("band IN ('g', 'r')", {0, 1}),
        ("band >= 'h'", {1, 2, 3}),
        ("band GLOB 'r*'", {1, 3}),
        ("band GLOB 'r\\*'", set()),
        ("band GLOB 'r%?'", {3}),
        ("band GLOB 'i*''*s'", {2}),
        ("band GLOB '*'", {0, 1, 2, 3}),
        ("band GLOB ''", set()),
        ("band GLOB 'r\\'", set()),
    ],
)
def test_text_comparison_is_exact(text: str, expected: set[int]) -> None:
    assert {band for _, _, band in passing(text)} == expected


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("visit", 1, "'visit' alone is none"),
        ("visit =", 8, "the query ends where a column, a number or a text is expected"),
        ("= 1", 1, "'='"),
        ("visit = 1 AND", 14, "the query ends"),
        ("visit = 1 visit", 11, "where an operator such as"),
        ("visit = 1 AND detector", 15, "'detector' alone"),
        ("(visit = 1", 1, "never closed"),
        ("visit = 1)", 10, "closes nothing"),
        ("((visit = 1) AND (detector = 2)", 1, "never closed"),
        ("()", 2, "')'"),
        ("visit = 'abc", 9, "no closing quotation mark"),
        ('band = "g"', 8, "single quotation"),
        ("visit % 2 = 1", 7, "nothing is calculated"),
        ("visit - 1 = 1", 7, "Nothing is calculated"),
        ("visit = 1 && detector = 2", 11, "AND"),
        ("!visit = 1", 1, "NOT negates"),
        ("vist = 1", 1, "there is no 'vist'"),
        ("visit = 1 AND\n  detektor = 2", 17, "there is no 'detektor'"),
        ("visit = '1'", 9, "'visit' (numbers) cannot be compared with '1' (text)"),
        ("band < 3", 8, "'band' (text) cannot be compared with '3' (numbers)"),
        ("band IN ('g', 3..4)", 15, "cannot be compared"),
        ("visit = band", 1, "cannot be compared"),
        ("GLOB(visit, '1*')", 6, "needs a column of text"),
        ("visit IN 1", 10, "'('"),
        ("visit IN ()", 11, "')'"),
        ("visit IN (1", 12, "the query ends"),
        ("visit IN (1 2)", 13, "',' or ')'"),
        ("visit IN (9..4)", 11, "ends before it begins"),
        ("visit IN (1..2.5)", 14, "whole numbers"),
        ("visit IN ('a'..'b')", 11, "whole numbers"),
        ("visit IN (1..5:0)", 16, "at least 1"),
        ("visit IN (1..5:-1)", 16, "at least 1"),
        ("visit = 1..5", 10, "an operator"),
        ("visit NOT 5", 11, "IN or GLOB"),
        ("visit = 1 IN (2)", 7, "compares values, not conditions"),
        ("(visit = 1) IN (2)", 13, "not a condition"),
        ("1 < visit < 3", 11, "compares values"),
        ("visit = NOT detector = 1", 7, "compares values"),
        ("GLOB(band)", 10, "','"),
        ("GLOB(band, band)", 12, "pattern"),
        ("visit OVERLAPS patch", 7, "OVERLAPS"),
        ("visit = 1e999", 9, "too large"),
        ("visit = " + "9" * 400, 9, "too long"),
        ("visité = 1", 6, "not understood"),
        ("visit = 1 AND NOT", 18, "the query ends"),
    ],
)
def test_invalid_query_is_reported_with_its_column(text: str, column: int, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        bind_conditions(parse_query(text), resolve)
    assert f"at column {column} of the query" in caught.value.message
    assert says in str(caught.value)


def test_an_error_has_the_place_of_the_query() -> None:
    origin = Origin("run.yaml", 7, 12)
    with pytest.raises(ConfigError) as caught:
        parse_query("visit =", origin)
    assert caught.value.origin == origin


def test_conditions_are_divided_where_and_joins_them() -> None:
    found = conditions_of("visit = 1 AND (band = 'g' AND detector < 2) AND (visit = 1 OR band = 'r')")
    assert sorted(sorted(each.dimensions) for each in found) == [["band"], ["band", "visit"], ["detector"], ["visit"]]
    found = conditions_of("NOT (visit = 1 OR NOT (band = 'g' AND detector < 2))")
    assert sorted(sorted(each.dimensions) for each in found) == [["band"], ["detector"], ["visit"]]


@pytest.mark.parametrize("depth", [1_000, 20_000])
def test_nesting_has_no_limit(depth: int) -> None:
    assert visits("(" * depth + "visit = 1" + ")" * depth) == [1]
    assert visits("NOT " * depth + "visit = 1") == [1]
    assert visits("NOT (" * depth + "visit = 1" + ")" * depth) == [1]
    assert visits("(visit = 1 OR " * depth + "visit = 2" + ")" * depth) == [1, 2]
    with pytest.raises(ConfigError, match="never closed"):
        parse_query("(" * depth + "visit = 1")


def test_pattern_is_matched_in_linear_time() -> None:
    value = "a" * 2_000

    def one(column: Column) -> ColumnValues:
        return ColumnValues(column.name, [value], ValueKind.TEXT)

    began = time.process_time()
    (condition,) = bind_conditions(parse_query(f"x GLOB '{'*a' * 40}*b'"), one)
    assert condition.passes({"x": [0]}, 1) == b"\0"
    assert time.process_time() - began < 30


# ---------------------------------------------------------------------------------------------------- against a simpler

OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Meaning = Callable[[Mapping[str, Any]], bool]
SIDES: Mapping[str, tuple[list[str], list[Any]]] = {
    "number": (["visit", "detector"], [0, 1, 2, 3, 10, -1, 2.5]),
    "text": (["band", "visit.name"], ["g", "r", "it's", "", "b"]),
}


@st.composite
def sides(draw: st.DrawFn, kind: str) -> tuple[str, Callable[[Mapping[str, Any]], Any]]:
    columns, literals = SIDES[kind]
    if draw(st.booleans()):
        name = draw(st.sampled_from(columns))
        return name, lambda row: row[name]
    value = draw(st.sampled_from(literals))
    return (f"'{value.replace(chr(39), chr(39) * 2)}'" if kind == "text" else str(value)), lambda _row: value


@st.composite
def one_test(draw: st.DrawFn) -> tuple[str, Meaning]:
    kind = draw(st.sampled_from(["number", "text"]))
    left, left_value = draw(sides(kind))
    shape = draw(st.sampled_from(["compare", "in", "range", "glob"]))
    negated = draw(st.booleans())
    no = "NOT " if negated else ""
    if shape == "glob":
        pattern = draw(st.sampled_from(["*", "?", "r*", "*'*", "b", "", "??*"]))
        left, left_value = draw(sides("text"))
        quoted = pattern.replace("'", "''")
        return f"{left} {no}GLOB '{quoted}'", lambda row: negated != fnmatch.fnmatchcase(left_value(row), pattern)
    if shape == "in":
        items = draw(st.lists(sides(kind), min_size=1, max_size=3))
        listed = ", ".join(text for text, _ in items)
        return (
            f"{left} {no}in ({listed})",
            lambda row: negated != any(left_value(row) == value(row) for _, value in items),
        )
    if shape == "range" and kind == "number":
        first, length, step = draw(st.integers(-3, 5)), draw(st.integers(0, 8)), draw(st.integers(1, 3))
        numbers = list(range(first, first + length + 1, step))
        text = f"{left} {no}In ({first}..{first + length}:{step})"
        return text, lambda row: negated != (left_value(row) in numbers)
    right, right_value = draw(sides(kind))
    sign = draw(st.sampled_from(sorted(OPERATORS)))
    return f"{left} {sign} {right}", lambda row: OPERATORS[sign](left_value(row), right_value(row))


def both(one: tuple[str, Meaning], word: str, other: tuple[str, Meaning]) -> tuple[str, Meaning]:
    if word.upper() == "AND":
        return f"({one[0]}) {word} ({other[0]})", lambda row: one[1](row) and other[1](row)
    return f"({one[0]}) {word} ({other[0]})", lambda row: one[1](row) or other[1](row)


queries = st.recursive(
    one_test(),
    lambda inner: st.one_of(
        st.builds(both, inner, st.sampled_from(["AND", "and", "OR", "Or"]), inner),
        st.builds(lambda one: (f"NOT ({one[0]})", lambda row: not one[1](row)), inner),
    ),
    max_leaves=8,
)


@given(queries)
def test_query_agrees_with_a_simple_evaluator(query: tuple[str, Meaning]) -> None:
    text, meaning = query
    expected = [
        (visit, detector, band)
        for visit in range(5)
        for detector in range(3)
        for band in range(4)
        if meaning(
            {
                "visit": VALUES["visit"][visit],
                "visit.name": VALUES["visit.name"][visit],
                "detector": VALUES["detector"][detector],
                "band": VALUES["band"][band],
            }
        )
    ]
    assert passing(text) == expected


WORDS = st.sampled_from(
    [
        "visit",
        "band",
        "(",
        ")",
        "AND",
        "or",
        "NOT",
        "IN",
        "GLOB",
        "=",
        "<",
        "..",
        ":",
        ",",
        "1",
        "2.5",
        "'a'",
        "-",
        "x.y",
        "'",
    ]
)


@given(st.one_of(st.text(max_size=40), st.lists(WORDS, max_size=12).map(" ".join)))
def test_any_text_gives_a_result_or_a_longshore_error(text: str) -> None:
    try:
        conditions_of(text)
    except LongshoreError as error:
        assert "of the query" in error.message  # noqa: PT017
