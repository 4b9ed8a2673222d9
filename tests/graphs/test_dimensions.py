"""Tables, patterns and lists give values; relations and a query join them into the exact rows."""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.config.merge import to_node
from longshore.errors import ConfigError, GraphError, LongshoreError, Origin
from longshore.graphs.declarations import read_declaration
from longshore.graphs.dimensions import column_resolver, read_dimensions, read_relations
from longshore.graphs.file_patterns import capture_values, captured_names, glob_pattern
from longshore.graphs.query import bind_conditions, parse_query
from longshore.graphs.tables import Table, decode_table, parse_csv, parse_json_lines, parse_table
from longshore.graphs.universe import Universe

HERE = Origin("p.yaml")
CSV = Origin("t.csv")


def universe(
    dimensions: dict[str, Any],
    relations: dict[str, Any] | None = None,
    query: str = "",
    *,
    tables: dict[str, Table] | None = None,
    limit: int = 100_000,
) -> Universe:
    pipeline = {"dimensions": dimensions, "relations": relations, "tasks": {"t": {"command": "true"}}}
    description = read_declaration(to_node(pipeline, HERE))
    values = read_dimensions(description, tables or {}, limit=limit)
    joined = read_relations(description, values, tables or {})
    return Universe(values, joined, bind_conditions(parse_query(query), column_resolver(values, None)), limit=limit)


def rows(found: Universe, *dimensions: str) -> list[tuple[Any, ...]]:
    return [
        tuple(found.dimensions[name].values[code] for name, code in zip(dimensions, row, strict=True))
        for row in found.rows(dimensions, "the test")
    ]


# -------------------------------------------------------------------------------------------------------------- tables


def test_a_table_in_csv_has_the_columns_of_its_header() -> None:
    table = parse_csv('\ufeffvisit, band\n101,g\n\n102,"r, s"\n"10\n3", x\n', CSV)
    assert list(table.columns) == ["visit", "band"]
    assert table.column("band", None) == ["g", "r, s", "x"]
    assert table.column("visit", None) == ["101", "102", "10\n3"]
    assert [table.place(row) for row in range(3)] == [Origin("t.csv", line, 1) for line in (2, 4, 5)]


@pytest.mark.parametrize(
    "text",
    [
        "sample,fastq\r\nS1,a.fq\r\n,\r\n,\r\n",
        '\ufeffsample,fastq\r\n"",""\r\n S1,a.fq\r\n" ","\u00a0"\r\n',
        ",\nsample,fastq\nS1,a.fq\n,,,\n  \n",
        "sample,fastq,,\nS1,a.fq,,\n,,,\n",
    ],
)
def test_rows_and_columns_of_blanks_are_skipped(text: str) -> None:
    table = parse_csv(text, CSV)
    assert {name: list(cells) for name, cells in table.columns.items()} == {"sample": ["S1"], "fastq": ["a.fq"]}
    with_tabs = parse_table(text.replace(",", "\t"), Origin("t.tsv"))
    assert with_tabs.columns == table.columns


def test_lines_of_comments_are_skipped_but_not_inside_of_a_value() -> None:
    text = '# made 2024-01-01\nsample,note\n  # one,\nS1,"a\n# b"\n//x,y\n'
    table = parse_csv(text, CSV, "#")
    assert table.columns == {"sample": ("S1", "//x"), "note": ("a\n# b", "y")}
    assert list(table.lines) == [4, 6]
    assert parse_csv("// a\nx\n1\n", CSV, "//").columns == {"x": ("1",)}
    assert parse_json_lines('# made\n{"x": 1}\n', CSV, "#").columns == {"x": [1]}


def test_signs_that_end_lines_elsewhere_stay_in_a_cell() -> None:
    assert parse_csv("a,b\n1\u2028,2\x85\n", CSV).columns == {"a": ("1\u2028",), "b": ("2\x85",)}


@pytest.mark.parametrize(
    ("content", "place", "hint"),
    [
        (b"a,b\n1,2\nx\xe9,3\n", Origin("t.csv", 3, 2), "iconv -f LATIN1 -t UTF-8 t.csv"),
        ("a,b\n".encode("utf-16"), Origin("t.csv", 1, 1), "iconv -f UTF-16"),
    ],
)
def test_a_table_that_is_not_utf8_is_refused_with_its_place(content: bytes, place: Origin, hint: str) -> None:
    with pytest.raises(ConfigError, match="not UTF-8") as caught:
        decode_table(content, "t.csv")
    assert caught.value.origin == place
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1", "20", "-3", "0"], [1, 20, -3, 0]),
        (["1", "007"], ["1", "007"]),
        (["1", "-0"], ["1", "-0"]),
        (["1", "+2"], ["1", "+2"]),
        (["1", " 2"], [1, 2]),
        (["1", "2 "], ["1", "2 "]),
        (["1", "x"], ["1", "x"]),
        (["1", "0.5"], [1, 0.5]),
        (["1.50", "0.5"], ["1.50", "0.5"]),
        (["1", "1.0"], ["1", "1.0"]),
        (["1e5", "2"], ["1e5", "2"]),
        (["nan", "2"], ["nan", "2"]),
        (["9" * 40, "2"], ["9" * 40, "2"]),
        (["\u0663", "2"], ["\u0663", "2"]),
    ],
)
def test_a_column_is_numbers_when_all_of_it_is_written_as_numbers_are(cells: list[str], values: list[Any]) -> None:
    found = parse_csv("x,y\n" + "".join(f"{cell},a\n" for cell in cells), CSV).column("x", None)
    assert found == values
    assert list(map(type, found)) == list(map(type, values))


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), min_size=1), min_size=1))
def test_parsed_numbers_keep_their_spelling(cells: list[str]) -> None:
    table = parse_csv("x,y\n" + "".join('"' + cell.replace('"', '""') + '",1\n' for cell in cells), CSV)
    assert list(map(str, table.column("x", None))) == cells


def test_a_table_in_json_lines_keeps_the_types_of_its_values() -> None:
    table = parse_table('{"a": 1, "b": "1"}\n\n{"a": 2.5, "b": "x", "c": null}\n', Origin("t.jsonl"))
    assert table.column("a", None) == [1, 2.5]
    assert table.column("b", None) == ["1", "x"]
    with pytest.raises(ConfigError, match="has nothing where") as caught:
        table.column("c", None)
    assert caught.value.origin == Origin("t.jsonl", 1, 1)


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("", "empty", 0),
        ("\n\n", "empty", 0),
        ("a,a\n1,2\n", "twice", 1),
        ("a,\n1,2\n", "no name", 1),
        (",b\n1,2\n", "(?s)column 1 of the header has no name.*Line 2 has a value", 1),
        ("a,b, a\n1,2,3\n", "(?s)twice.*columns 1 and 3", 1),
        ("a\u200b,b\n1,2\n", r"(?s)invisible character \(U\+200B\).*seems to be 'a'", 1),
        ("a,b\n1\n", "(?s)has 1 value, but the header names 2 columns.*before the column 'b'", 2),
        ("a,b\n1,2\n1,2,3\n", "(?s)has 3 values.*comma in it must be quoted", 3),
        ("a,b\n1,2,,\n", "(?s)has 4 values.*each comma at its end", 2),
        ("a;b\n1;2,5\n", "(?s)has 2 values.*separated by semicolons", 2),
        ("# made 2024\na,b\n1,2\n", "(?s)the first line '# made 2024' was taken for the header.*comment: '#'", 1),
        ("\n# made, by, me\na,b\n1,2\n", "(?s)the line '# made,by,me' was taken.*names 3 columns.*line 3 has 2", 2),
        ("a,b\n# the rest, is, new\n1,2\n", "(?s)begins with '#' and has 3 values.*comment: '#'", 2),
        ("a,b\n1,2\0\n", "the character NUL", 2),
        ('a,b\n1,"2\n', "not CSV: a quotation mark of this row is never closed", 2),
        ('a,b\n1,"2\n3,4\n5,"6"\n', "(?s)never closed, or closed too late.*shows in line 4", 2),
        ('a,b\n1,"2" x\n', "not CSV: .*expected after", 2),
        ('a,b\n1,"' + "x\n" * 100_000, "never closed", 2),
        ("a,b\n" + "x" * 200_000 + ",1\n", "not CSV: field larger", 2),
    ],
    ids=range(20),
)
def test_invalid_csv_is_reported_with_its_line(text: str, says: str, line: int) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        parse_csv(text, CSV)
    assert caught.value.origin is not None
    assert (caught.value.origin.file, caught.value.origin.line) == ("t.csv", line)


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("", "empty", 0),
        ('{"a": 1}\n[1]\n', "not a JSON object", 2),
        ('{"a": 1}\n{"a"\n', "not JSON", 2),
        ('# made\n{"a": 1}\n', "(?s)not JSON.*comment: '#'", 1),
        ('{"a": "x"}\n{"a": "\\u0000"}\n', "NUL", 2),
        ('{"a": ' + "[" * 100_000 + "\n", "nested|JSON", 1),
    ],
    ids=range(6),
)
def test_invalid_json_lines_are_reported_with_their_line(text: str, says: str, line: int) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        parse_json_lines(text, CSV)
    assert caught.value.origin is not None
    assert caught.value.origin.line == line


@pytest.mark.parametrize("value", [None, [1], {"a": 1}])
def test_a_cell_is_text_or_a_number(value: object) -> None:
    table = Table(name="t", columns={"a": ["x", value]}, lines=[1, 2])
    with pytest.raises(ConfigError) as caught:
        table.column("a", None)
    assert caught.value.origin == Origin("t", 2, 1)


def test_a_line_that_begins_with_a_hash_is_named_where_a_column_is_unknown() -> None:
    for text in ("# made\nsample\ns1\n", "#sample,b\ns1,2\n"):
        with pytest.raises(ConfigError, match="no column 'sample'") as caught:
            parse_csv(text, CSV).column("sample", HERE)
        assert "comment: '#'" in caught.value.hint


def test_unknown_column_is_refused() -> None:
    with pytest.raises(ConfigError, match="no column 'vist'") as caught:
        parse_csv("visit\n1\n", CSV).column("vist", HERE)
    assert caught.value.hint == "Did you mean 'visit'?"


@given(st.text(max_size=60))
def test_any_table_gives_columns_or_a_longshore_error(text: str) -> None:
    for read in (parse_csv, parse_json_lines):
        try:
            table = read(text, CSV)
            for name in table.columns:
                table.column(name, HERE)
        except LongshoreError:
            pass


# --------------------------------------------------------------------------------------------------------------- globs


@pytest.mark.parametrize(
    ("pattern", "paths", "columns"),
    [
        ("raw/{e}.fits", ["raw/2.fits", "raw/10.fits", "raw/a/3.fits", "raw/.fits"], {"e": [10, 2]}),
        ("raw/{e}.fits", ["raw/02.fits", "raw/10.fits"], {"e": ["02", "10"]}),
        ("raw/{e:03}.fits", ["raw/002.fits", "raw/010.fits", "raw/10.fits", "raw/abc.fits"], {"e": [2, 10]}),
        (
            "{n}/exp_{e}_{d}.fits",
            ["a/exp_1_2.fits", "b/exp_1_2_3.fits"],
            {"n": ["a", "b"], "e": [1, 1], "d": ["2", "2_3"]},
        ),
        ("{n}/{n}.fits", ["a/a.fits", "a/b.fits"], {"n": ["a"]}),
        ("{n}_{x}/exp_{n}.fits", ["20_1_5/exp_20_1.fits"], {"n": ["20_1"], "x": [5]}),
        ("{x}.fits.fits", ["a.fits.fits.fits"], {"x": ["a.fits"]}),
        ("*/x_{x}", ["a/x_1", "a/b/x_2", "x_3"], {"x": [1]}),
        ("**/x_{x}", ["a/x_1", "a/b/x_2", "x_3"], {"x": [2, 1, 3]}),
        ("?_{x}", ["a_1", "ab_2"], {"x": [1]}),
        ("[{x}]", ["[1]", "1"], {"x": [1]}),
        ("{{{x}}}", ["{1}", "1"], {"x": [1]}),
        ("{x}", ["a\nb"], {"x": ["a\nb"]}),
        ("{a}.{b}", ["1.2", "1.2"], {"a": [1], "b": [2]}),
    ],
)
def test_a_pattern_captures(pattern: str, paths: list[str], columns: dict[str, list[Any]]) -> None:
    found = capture_values(pattern, paths)
    assert {name: list(values) for name, values in found.columns.items()} == columns


def test_a_pattern_has_wildcards_for_a_listing() -> None:
    assert glob_pattern("raw/{night}/exp_{exposure:06}_[a]*.fits") == "raw/*/exp_*_[[]a]*.fits"
    assert captured_names("raw/{night}/exp_{exposure:06}.fits") == {"night": "", "exposure": "06"}


@pytest.mark.parametrize("pattern", ["{a}{b}", "{a}*", "*{a}", "{a:03}_{a:04}", "{.a}"])
def test_ambiguous_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError):
        capture_values(pattern, ["x"], HERE)


def test_pattern_without_matches_is_refused() -> None:
    with pytest.raises(GraphError, match=r"no file matches 'raw/\{x\}.fits'"):
        capture_values("raw/{x}.fits", ["raw/.fits"], HERE)


def test_a_file_whose_name_is_not_utf8_is_named() -> None:
    with pytest.raises(ConfigError, match=r"the file 'raw/exp_\\xff.fits', whose name is not UTF-8") as caught:
        capture_values("raw/exp_{e}.fits", ["raw/exp_1.fits", "raw/exp_\udcff.fits"], HERE)
    assert r"mv -- $'raw/exp_\xff.fits' NEW" in caught.value.hint
    assert caught.value.origin == HERE
    # No value is taken of the part that is not UTF-8.
    assert capture_values("*/exp_{e}.fits", ["raw\udcff/exp_1.fits"], HERE).columns == {"e": [1]}


def test_pattern_is_matched_in_linear_time() -> None:
    pattern = "_".join(f"{{x{number}}}" for number in range(30)) + "!"
    began = time.process_time()
    with pytest.raises(GraphError):
        capture_values(pattern, ["_".join("a" * 120)])
    assert time.process_time() - began < 30


@given(st.text("{}*?[]a/._:03", max_size=12), st.lists(st.text("a/._03", max_size=8), max_size=5))
def test_any_pattern_gives_values_or_a_longshore_error(pattern: str, paths: list[str]) -> None:
    try:
        if captured_names(pattern):
            capture_values(pattern, paths)
    except LongshoreError:
        pass


# ---------------------------------------------------------------------------------------------------------- dimensions


def test_values_come_from_lists_ranges_tables_and_patterns() -> None:
    tables = {
        "t.csv": parse_csv("visit,name,patch\n3,c,1\n1,a,1\n2,b,2\n", CSV),
        "raw/{night}/{exposure}": capture_values("raw/{night}/{exposure}", ["raw/a/1", "raw/b/2", "raw/b/1"]),
    }
    found = universe(
        {
            "band": ["r", "g"],
            "detector": {"range": [0, 4, 2]},
            "instrument": "HSC",
            "visit": {"table": "t.csv"},
            "field": {"table": "t.csv", "column": "patch"},
            "exposure": {"glob": "raw/{night}/{exposure}"},
        },
        tables=tables,
    )
    values = {name: dimension.values for name, dimension in found.dimensions.items()}
    assert values == {
        "band": ("g", "r"),
        "detector": (0, 2, 4),
        "instrument": ("HSC",),
        "visit": (1, 2, 3),
        "field": (1, 2),
        "exposure": (1, 2),
        "night": ("a", "b"),
    }
    assert rows(found, "night", "exposure") == [("a", 1), ("b", 1), ("b", 2)]
    assert rows(found, "visit", "field")[:3] == [(1, 1), (1, 2), (2, 1)]


def test_a_captured_dimension_can_have_values_of_its_own() -> None:
    tables = {"{n}/{e}": capture_values("{n}/{e}", ["a/1", "b/2", "c/3"])}
    found = universe({"n": ["b", "c", "d"], "e": {"glob": "{n}/{e}"}}, tables=tables)
    assert rows(found, "e") == [(2,), (3,)]
    assert rows(found, "n") == [("b",), ("c",)]


@pytest.mark.parametrize(
    ("dimension", "says"),
    [
        ([], "has no values"),
        (None, "has no values"),
        ({"range": [5, 1]}, "has no values"),
        ({"range": [1]}, "two or three whole numbers"),
        ({"range": [1, 2, 0]}, "at least 1"),
        ({"range": [1, "x"]}, "two or three whole numbers"),
        ({"range": [0, 10**9]}, "1,000,000,001 values"),
        ({"range": [0, 10**30]}, "values, more than"),
        ({"range": [0, 1], "glob": "{x}"}, "needs one of"),
        ({}, "needs one of"),
        ({"tabel": "t.csv"}, "no key 'tabel'"),
        ({"range": [0, 1], "column": "x"}, "without 'table'"),
        ({"range": [0, 1], "comment": "#"}, "without 'table'"),
        ({"table": "t.csv", "comment": None}, "must be what the lines begin with, not"),
        ({"table": "t.csv", "comment": '"'}, "must be what the lines begin with"),
        ([1, 2, 1], "value '1' twice"),
        ([1, "1"], "value '1' twice"),
        ([True], "numbers or text"),
        ([None], "numbers or text"),
        ([[1]], "numbers or text"),
        (["a\0b"], "NUL"),
        (["\udc80"], "not Unicode"),
        ({"table": "nowhere.csv"}, "was not read"),
        ({"table": "t.csv"}, "no column 'x'"),
        ({"table": "empty.csv", "column": "x"}, "has no rows"),
        ({"glob": "raw/{y}.fits"}, "does not capture it"),
        ({"glob": "raw/x.fits"}, "captures nothing"),
    ],
    ids=range(27),
)
def test_invalid_dimension_is_reported(dimension: object, says: str) -> None:
    tables = {"t.csv": parse_csv("visit\n1\n", CSV), "empty.csv": parse_csv("x\n", CSV)}
    with pytest.raises(LongshoreError) as caught:
        universe({"x": dimension}, tables=tables)
    assert says in caught.value.message
    assert caught.value.origin is not None


@pytest.mark.parametrize("name", ["1x", "a-b", "", "\u00e9", "label", "jobName", "in", "And"])
def test_names_of_dimensions_are_plain_words(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be a name"):
        universe({name: [1]})


# ----------------------------------------------------------------------------------------------------------- relations


def test_relation_joins_the_values_of_its_rows() -> None:
    tables = {"t.csv": parse_csv("v,patch,more\n101,1,x\n102,2,y\n102,2,z\n999,1,x\n", CSV)}
    found = universe(
        {"visit": [101, 102, 103], "patch": [1, 2, 3]},
        {"overlap": {"table": "t.csv", "columns": {"visit": "v", "patch": "patch"}}},
        tables=tables,
    )
    assert rows(found, "patch", "visit") == [(1, 101), (2, 102)]
    found = universe({"visit": [1, 2], "patch": ["x"]}, {"small": {"columns": ["visit", "patch"], "rows": [[1, "x"]]}})
    assert rows(found, "visit") == [(1,)]


def test_the_cells_of_a_relation_are_read_as_the_dimension_is() -> None:
    tables = {"t.csv": parse_csv("a,b\n1,2\n3,4\n", CSV)}
    found = universe({"a": ["1", "2"], "b": [2]}, {"r": {"table": "t.csv"}}, tables=tables)
    assert rows(found, "a", "b") == [("1", 2)]


@pytest.mark.parametrize(
    ("text", "relation", "says"),
    [
        ("visit,patch\n7,1\n", {}, "joins nothing"),
        ("visit,patch\n", {}, "joins nothing"),
        ("visit,pach\n1,1\n", {}, "names the unknown dimension 'pach'"),
        ("visit\n1\n", {}, "two dimensions or more"),
        ("visit,patch\n1,1\n2,1\n1,1\n", {}, "row '1, 1' twice"),
        ("visit,patch\n1,x\n", {}, "joins nothing"),
        ("visit,patch\n1,1\n", {"columns": ["visit", "x"]}, "names the unknown dimension 'x'"),
        ("visit,patch\n1,1\n", {"columns": {"visit": "v", "patch": "patch"}}, "no column 'v'"),
        ("visit,patch\n1,1\n", {"columns": ["visit"]}, "two dimensions or more"),
        ("visit,patch\n1,1\n", {"rows": [[1, 1]]}, "needs one of"),
    ],
)
def test_invalid_relation_is_reported(text: str, relation: dict[str, Any], says: str) -> None:
    with pytest.raises(LongshoreError) as caught:
        universe(
            {"visit": [1, 2], "patch": [1, 2]},
            {"r": {"table": "t.csv", **relation}},
            tables={"t.csv": parse_csv(text, CSV)},
        )
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("relation", "says"),
    [
        ({"rows": [[1, 1]]}, "no 'columns'"),
        ({"rows": [], "columns": ["a", "b"]}, "list of lists"),
        ({"rows": [[1]], "columns": ["a", "b"]}, "list of 2 values"),
        ({"rows": [[1, None]], "columns": ["a", "b"]}, "numbers or text"),
        ({"rows": [[1, 1], [1, 1]], "columns": ["a", "b"]}, "twice"),
        ({"rows": [[1, 9]], "columns": ["a", "b"]}, "joins nothing"),
        ({"columns": ["a", "b"]}, "needs one of"),
        ("t.csv", "must be a map"),
    ],
)
def test_invalid_inline_rows_are_reported(relation: object, says: str) -> None:
    with pytest.raises(LongshoreError) as caught:
        universe({"a": [1, 2], "b": [1, 2]}, {"r": relation})
    assert says in caught.value.message


def test_relations_without_a_row_in_common_are_named() -> None:
    relations = {
        "one": {"columns": ["a", "b"], "rows": [[1, 1]]},
        "other": {"columns": ["b", "c"], "rows": [[2, 1]]},
    }
    with pytest.raises(GraphError, match="the relation 'one' and the relation 'other' have no row in common"):
        universe({"a": [1], "b": [1, 2], "c": [1]}, relations).rows(("a",), "the test")


# ------------------------------------------------------------------------------------------------------------- queries


def test_a_query_can_use_further_columns_of_a_table() -> None:
    tables = {"t.csv": parse_csv("visit,seeing,band\n1,0.5,g\n2,1.5,r\n3,0.7,r\n", CSV)}
    dimensions = {"visit": {"table": "t.csv"}, "detector": [0, 1]}
    good = universe(dimensions, {}, "visit.seeing < 1 AND visit.band = 'r'", tables=tables)
    assert rows(good, "visit") == [(3,)]
    assert rows(universe(dimensions, {}, "visit.id = 2", tables=tables), "visit") == [(2,)]
    second = universe(dimensions, {}, "detector.id = 1 AND detector.detector = 1", tables=tables)
    assert rows(second, "detector") == [(1,)]
    for query, says in {
        "visit.sing < 1": "no column 'sing'",
        "detector.name = 'x'": "no column 'name'",
        "vist = 1": "unknown dimension 'vist'",
        "visit = g": "unknown dimension 'g'",
    }.items():
        with pytest.raises(ConfigError, match=says):
            universe(dimensions, {}, query, tables=tables)


def test_a_further_column_must_have_one_value() -> None:
    tables = {"t.csv": parse_csv("visit,detector\n1,1\n1,2\n", CSV)}
    with pytest.raises(ConfigError, match="not one value"):
        universe({"visit": {"table": "t.csv"}}, {}, "visit.detector = 1", tables=tables)


@pytest.mark.parametrize("query", ["visit = 9", "1 = 2", "visit = 1 AND visit = 2", "visit > 2 AND patch = 1"])
def test_query_without_matches_is_refused(query: str) -> None:
    relations = {"r": {"columns": ["visit", "patch"], "rows": [[1, 1], [2, 1], [3, 2]]}}
    with pytest.raises(GraphError, match="leaves nothing"):
        universe({"visit": [1, 2, 3], "patch": [1, 2]}, relations, query).rows(("visit",), "the test")


def test_equal_columns_are_joined_without_a_product() -> None:
    dimensions = {"visit": {"range": [1, 50_000]}, "exposure": {"range": [0, 49_999]}}
    found = universe(dimensions, {}, "visit = exposure")
    assert len(found.rows(("visit", "exposure"), "the test")) == 49_999


# ---------------------------------------------------------------------------------------------------------- too many


def test_a_product_is_counted_and_not_built() -> None:
    found = universe({name: {"range": [1, 1000]} for name in "abcde"}, limit=999_999)
    began = time.process_time()
    assert found.count("abcde") == 10**15
    with pytest.raises(GraphError, match="1,000,000 combinations, more than the limit of 999,999"):
        found.rows(("a", "b"), "the test")
    assert time.process_time() - began < 30


def test_a_join_is_counted_and_not_built() -> None:
    pairs = {"range": [1, 4000]}
    tables = {
        "ab": Table(name="ab", columns={"a": list(range(1, 4001)), "b": [1] * 4000}),
        "bc": Table(name="bc", columns={"b": [1] * 4000, "c": list(range(1, 4001))}),
    }
    relations = {name: {"table": name} for name in tables}
    found = universe({"a": pairs, "b": [1], "c": pairs}, relations, tables=tables)
    began = time.process_time()
    with pytest.raises(GraphError, match="16,000,000 combinations"):
        found.rows(("a", "b", "c"), "the test")
    assert len(found.rows(("a",), "the test")) == 4000
    assert time.process_time() - began < 30


def test_a_condition_over_many_pairs_is_refused_with_their_number() -> None:
    dimensions = {name: {"range": [1, 10_000]} for name in "ab"}
    with pytest.raises(GraphError, match="100,000,000 combinations"):
        universe(dimensions, {}, "a < b").rows(("a",), "the test")


# --------------------------------------------------------------------------------------------- against brute force

NAMES = ("a", "b", "c", "d")


@st.composite
def worlds(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    names = NAMES[: draw(st.integers(1, 4))]
    dimensions = {name: draw(st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True)) for name in names}
    relations = {}
    for number in range(draw(st.integers(0, 3)) if len(names) > 1 else 0):
        columns = draw(st.lists(st.sampled_from(names), min_size=2, max_size=3, unique=True))
        cells = st.tuples(*(st.integers(0, 3) for _ in columns))
        joined = draw(st.lists(cells, min_size=1, max_size=12, unique=True))
        relations[f"r{number}"] = {"columns": columns, "rows": [list(row) for row in joined]}
    tested = st.builds(
        lambda left, sign, right: f"{left} {sign} {right}",
        st.sampled_from(names),
        st.sampled_from(["=", "!=", "<", ">="]),
        st.sampled_from([*names, "1", "2"]),
    )
    conjuncts = st.lists(tested, min_size=1, max_size=2).map(" OR ".join)
    return dimensions, relations, draw(st.lists(conjuncts, max_size=2))


def brute(dimensions: dict[str, Any], relations: dict[str, Any], conjuncts: list[str]) -> list[dict[str, int]]:
    """Every combination that there is, by looking at all that there could be."""
    found = []
    for values in product(*dimensions.values()):
        row = dict(zip(dimensions, values, strict=True))
        joined = all([row[name] for name in each["columns"]] in each["rows"] for each in relations.values())
        if joined and all(any(holds(test, row) for test in conjunct.split(" OR ")) for conjunct in conjuncts):
            found.append(row)
    return found


def holds(test: str, row: dict[str, int]) -> bool:
    left, sign, right = test.split()
    one, other = row[left], row[right] if right in row else int(right)
    return {"=": one == other, "!=": one != other, "<": one < other, ">=": one >= other}[sign]


@given(worlds(), st.data())
def test_join_agrees_with_brute_force(
    world: tuple[dict[str, Any], dict[str, Any], list[str]], data: st.DataObject
) -> None:
    dimensions, relations, conjuncts = world
    expected = brute(*world)
    query = " AND ".join(f"({conjunct})" for conjunct in conjuncts)
    if not expected:
        with pytest.raises(GraphError):
            universe(dimensions, relations, query).refuse_empty()
        return
    found = universe(dimensions, relations, query)
    found.refuse_empty()
    for _ in range(3):
        wanted = tuple(data.draw(st.lists(st.sampled_from(list(dimensions)), unique=True)))
        projected = sorted({tuple(row[name] for name in wanted) for row in expected})
        assert rows(found, *wanted) == projected
        assert found.count(wanted) == len(projected)
