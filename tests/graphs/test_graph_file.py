"""A graph round-trips through its lines; an invalid file is refused with the line at fault."""

from __future__ import annotations

import json
import math
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from longshore.config.plugins import shipped_path
from longshore.errors import CycleError, GraphError, Origin
from longshore.graphs.graph_file import (
    GRAPH_KIND,
    GRAPH_VERSION,
    LINE_KEYS,
    GraphFile,
    graph_lines,
    read_graph_file,
    read_header,
)
from longshore.model.tasks import Command, Dag, File, Scalar, Task, TaskGraph

PLACE = Origin("g.jsonl")

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
names = texts.filter(bool)
scalars = st.one_of(texts, st.integers(), st.floats(allow_nan=False, allow_infinity=False))
data_ids = st.dictionaries(texts, scalars, max_size=3)
commands: st.SearchStrategy[Command] = st.one_of(texts, st.lists(texts, min_size=1, max_size=3).map(tuple))


@st.composite
def graphs(draw: st.DrawFn) -> TaskGraph:
    """Any graph of tasks, with files that tasks name and files that none does."""
    files = draw(st.lists(names, max_size=4, unique=True))
    some = st.lists(st.sampled_from(files), max_size=3).map(tuple) if files else st.just(())
    paths = st.dictionaries(texts, st.lists(st.one_of(texts, *map(st.just, files)), max_size=3).map(tuple), max_size=2)
    tasks = [
        Task(
            name=name,
            label=draw(names),
            data_id=draw(data_ids),
            command=draw(st.none() | commands),
            inputs=draw(some),
            outputs=draw(some),
            paths=draw(paths),
            node_id=draw(texts),
            implied=draw(data_ids),
        )
        for name in draw(st.lists(names, min_size=1, max_size=6, unique=True))
    ]
    ends = st.integers(0, len(tasks) - 1)
    numbers = draw(st.permutations(range(len(tasks))))
    pairs = draw(st.lists(st.tuples(ends, ends), max_size=12))
    return TaskGraph(
        name=draw(texts),
        dag=Dag(tasks, [(numbers[min(pair)], numbers[max(pair)]) for pair in pairs if pair[0] != pair[1]]),
        files={
            name: File(
                name=name,
                path=draw(names),
                transfer=draw(st.booleans()),
                shared=draw(st.booleans()),
                size_b=draw(st.none() | st.integers(0, 2**62)),
            )
            for name in files
        },
        directory=draw(texts),
        directories=tuple(draw(st.lists(names, max_size=2))),
        programs=draw(st.dictionaries(names, st.text(st.characters(exclude_categories=["Cs"])), max_size=2)),
    )


SCHEMA = json.loads(shipped_path("etc", "schema", "graph_file.json").read_text("utf-8"))
LINES = ("header", "file", "task", "program")
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@given(graphs())
def test_every_line_matches_the_schema(graph: TaskGraph) -> None:
    counts = (1, len(graph.files), len(graph.dag), len(graph.programs))
    kinds = [
        kind for kind, count in zip(("header", "file", "task", "program"), counts, strict=True) for _ in range(count)
    ]
    for line, kind in zip(graph_lines(graph), kinds, strict=True):
        record = json.loads(line)
        VALIDATOR.validate(record)
        assert record.keys() <= SCHEMA["$defs"][kind]["properties"].keys()


@pytest.mark.parametrize("kind", LINES)
def test_the_schema_has_every_key(kind: str) -> None:
    assert set(SCHEMA["$defs"][kind]["properties"]) == set(LINE_KEYS[kind])
    assert all({"title", "description"} <= value.keys() for value in SCHEMA["$defs"][kind]["properties"].values())


def typed(values: Any) -> list[tuple[str, type, Scalar]]:
    """Items with their types, for 1 and 1.0 are equal."""
    return [(name, type(value), value) for name, value in values.items()]


@given(graphs(), st.dictionaries(texts, commands, max_size=2), st.dictionaries(texts, texts, max_size=2))
def test_graph_round_trips(graph: TaskGraph, by_label: dict[str, Command], values: dict[str, str]) -> None:
    found = read_graph_file(graph_lines(graph, commands=by_label, values=values), PLACE)
    assert (found.commands, found.values) == (by_label, values)
    again = found.graph
    assert again.dag.nodes == graph.dag.nodes
    assert [set(these) for these in again.dag.parents] == [set(these) for these in graph.dag.parents]
    assert sorted(again.dag.edges()) == sorted(graph.dag.edges())
    assert list(again.files.items()) == list(graph.files.items())
    assert list(again.programs.items()) == list(graph.programs.items())
    assert (again.name, again.directory, again.directories) == (graph.name, graph.directory, graph.directories)
    for one, other in zip(again.dag.nodes, graph.dag.nodes, strict=True):
        assert typed(one.data_id) == typed(other.data_id)
        assert typed(one.implied) == typed(other.implied)


@given(graphs())
def test_lines_round_trip(graph: TaskGraph) -> None:
    lines = list(graph_lines(graph))
    assert list(graph_lines(read_graph_file(lines, PLACE).graph)) == lines


def lines_of(*tasks: Any, files: tuple[Any, ...] = (), **header: Any) -> list[bytes]:
    """Lines as somebody else may have written them."""
    first = {"kind": GRAPH_KIND, "version": GRAPH_VERSION, "tasks": len(tasks), "files": len(files), **header}
    return [line if isinstance(line, bytes) else msgspec.json.encode(line) + b"\n" for line in (first, *files, *tasks)]


def read(*tasks: Any, files: tuple[Any, ...] = (), **header: Any) -> GraphFile:
    return read_graph_file(lines_of(*tasks, files=files, **header), PLACE)


def refused(lines: list[bytes]) -> GraphError:
    with pytest.raises(GraphError) as caught:
        read_graph_file(lines, PLACE)
    return caught.value


A, B, C = ({"name": name, "label": "x"} for name in "abc")


def test_the_least_that_a_graph_file_can_be() -> None:
    graph = read(A).graph
    assert graph.dag.nodes == (Task(name="a", label="x"),)
    assert (graph.name, graph.files) == ("", {})


def test_a_parent_may_come_behind_its_child_and_count_twice() -> None:
    assert read({**A, "parents": [1, 1]}, B).graph.dag.parents == [[1], []]


def test_equal_values_share_one_object() -> None:
    graph = read({**A, "data_id": {"visit": 1}}, {**B, "data_id": {"visit": 1}, "node_id": "b"}).graph
    first, second = graph.dag.nodes
    assert first.data_id is second.data_id
    assert first.label is second.label
    assert second.name is second.node_id


def test_equal_numbers_keep_their_types() -> None:
    found = read({**A, "data_id": {"v": 1}}, {**B, "data_id": {"v": 1.0}}, {**C, "data_id": {"v": True}}).graph
    assert [typed(task.data_id) for task in found.dag.nodes] == [
        [("v", int, 1)],
        [("v", float, 1.0)],
        [("v", str, "true")],
    ]


def test_values_have_the_text_of_the_file() -> None:
    found = read({**A, "data_id": msgspec.Raw(b'{"a": 1.10, "b": 1e3, "c": 2.5, "d": "007", "e": false}')}).graph
    assert typed(found.dag.nodes[0].data_id) == [
        ("a", str, "1.10"),
        ("b", str, "1e3"),
        ("c", float, 2.5),
        ("d", str, "007"),
        ("e", str, "false"),
    ]


def test_numbers_and_truth_values_of_a_program_keep_the_text_that_commands_have() -> None:
    values: dict[str, Scalar] = {"a": 1e16, "b": 1e-7, "c": True}
    graph = TaskGraph(name="", dag=Dag([Task(name="t", label="l", data_id=values)]), columns={"a.x": {1e16: 1e-7}})
    found = read_graph_file(graph_lines(graph), PLACE).graph
    assert {name: str(value) for name, value in found.dag.nodes[0].data_id.items()} == {
        name: str(value) for name, value in values.items()
    }
    assert found.columns == graph.columns


@pytest.mark.parametrize("first", [b"", b"\n", b"hello\n", b"[]\n", b'{"kind":"other","version":1}\n', b"\xff\n"])
def test_file_of_another_kind_is_refused(first: bytes) -> None:
    error = refused([first] if first else [])
    assert str(error).startswith(
        "g.jsonl:1:1: " + ("this is not a graph file" if first.strip() else "the file is empty")
    )
    assert '{"kind":"longshore-graph","version":1' in error.hint


def test_newer_version_is_refused() -> None:
    error = refused(lines_of(A, version=GRAPH_VERSION + 1, future=True))
    assert str(error) == (
        "g.jsonl:1:1: this graph file has version 2; this Longshore reads up to 1\n"
        "Use the version of Longshore that wrote it, or a newer one."
    )


@pytest.mark.parametrize("version", [None, 0, -1, "1", True, 1.5])
def test_missing_version_is_refused(version: object) -> None:
    assert "does not say its 'version'" in str(refused(lines_of(A, version=version)))


def test_a_byte_order_mark_is_skipped() -> None:
    first, *others = lines_of(A)
    assert len(read_graph_file([b"\xef\xbb\xbf" + first, *others], PLACE).graph.dag) == 1
    assert read_header(b"\xef\xbb\xbf" + first, PLACE).tasks == 1


def test_file_cut_between_lines_is_refused() -> None:
    error = refused(lines_of(A, B, C)[:-1])
    assert str(error) == "g.jsonl:4:1: the file is cut short: it has 2 of its 3 tasks\nCopy or make it again."


def test_file_cut_within_a_line_is_refused() -> None:
    *lines, last = lines_of(A, B)
    error = refused([*lines, last[:-8]])
    assert str(error) == (
        "g.jsonl:3:18: the line of this task is cut short: its JSON has no end\nCopy or make it again."
    )


def test_last_line_needs_no_line_feed() -> None:
    *lines, last = lines_of(A, B)
    assert len(read_graph_file([*lines, last.rstrip()], PLACE).graph.dag) == 2


def test_huge_count_in_the_header_allocates_nothing() -> None:
    assert "it has 1 of its 1,000,000,000,000,000,000 tasks" in str(refused(lines_of(A, tasks=10**18)))
    first = msgspec.json.encode({"kind": GRAPH_KIND, "version": GRAPH_VERSION, "tasks": 1, "files": 10**18}) + b"\n"
    assert "it has 0 of its 1,000,000,000,000,000,000 files" in str(refused([first]))


def test_parents_far_down_in_the_file() -> None:
    size = 9_000
    tasks: list[Any] = [{"name": str(number), "label": "x", "parents": [number + 1]} for number in range(size - 1)]
    graph = read(*tasks, {"name": "last", "label": "x"}).graph
    assert list(graph.dag.order) == list(range(size - 1, -1, -1))


def test_lines_beyond_the_count_are_refused() -> None:
    error = refused(lines_of(A, B, tasks=1))
    assert str(error) == (
        "g.jsonl:3:1: there is more in the file than the 0 files, 1 task and 0 programs that its first line counts"
    )


def test_blank_lines_at_the_end_are_ignored() -> None:
    assert len(read_graph_file([*lines_of(A), b"\n", b"  \n"], PLACE).graph.dag) == 1


def test_blank_line_within_the_file_is_refused() -> None:
    first, *others = lines_of(A, B)
    assert str(refused([first, b"\n", *others])).startswith("g.jsonl:2:1: this line is empty, and should be a task")


def test_wrong_number_of_edges_is_refused() -> None:
    error = refused(lines_of(A, {**B, "parents": [0]}, edges=2))
    assert str(error).startswith(
        "g.jsonl:1:1: the file is damaged: its tasks have 1 edges, and its first line counts 2"
    )


def test_empty_graph_is_refused() -> None:
    assert "there is nothing to run: the graph has no tasks" in str(refused(lines_of()))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"garbage\n", ":3:1: this is not JSON: invalid character"),
        ('{"name":"ä","label":x}\n'.encode(), ":3:21: this is not JSON: invalid character"),
        (b'{"name":"\xff","label":"x"}\n', ":3:10: this is not UTF-8, as JSON has to be"),
        (b"[1]\n", ":3:1: this is not a valid task: expected 'object', got 'array'"),
        (b'{"label":"x"}\n', ":3:1: this is not a valid task: object missing required field 'name'"),
        ({**B, "name": ""}, ":3:1: this is not a valid task: 'name': expected 'str' of length >= 1"),
        ({**B, "parents": [-1]}, ":3:1: this is not a valid task: 'parents[0]': expected 'int' >= 0"),
        ({**B, "parents": ["a"]}, ":3:1: this is not a valid task: 'parents[0]': expected 'int', got 'str'"),
        ({**B, "parents": [2]}, ":3:1: the task 'b' waits for the task 2, but there are 2 tasks, counted"),
        ({**B, "inputs": [1]}, ":3:1: the task 'b' names the file 1, but there are 0 files, counted from 0"),
        ({**B, "paths": {"raw": [7]}}, ":3:1: the task 'b' names the file 7, but there are 0 files"),
        (
            {**B, "data_id": {"v": None}},
            ":3:1: the data ID of the task 'b' is wrong: '[...]': expected 'bool | int | float | str', got 'null'",
        ),
        ({**B, "command": []}, ":3:1: the command of the task 'b' is an empty list"),
        ({**B, "implied": [1]}, ":3:1: the data ID of the task 'b' is wrong: expected 'object', got 'array'"),
        ({**B, "command": 7}, ":3:1: this is not a valid task: 'command': expected 'str | array"),
        ({**B, "command": "x\0"}, ":3:1: this task holds the character NUL, which no name and no command can have"),
        ({**B, "data_id": {"\0": 1}}, ":3:1: this task holds the character NUL"),
        ({**B, "command": ["a", "\0"]}, ":3:1: this task holds the character NUL"),
    ],
)
def test_invalid_task_is_reported_with_its_line(line: Any, said: str) -> None:
    assert f"g.jsonl{said}" in str(refused(lines_of(A, line)))


def test_deeply_nested_line_is_refused() -> None:
    deep = b'{"name":"b","label":"x","paths":' + b"[" * 100_000 + b"\n"
    assert str(refused(lines_of(A, deep))).startswith("g.jsonl:3:")


def test_unknown_key_is_refused() -> None:
    error = refused(lines_of(A, {**B, "parent": [0]}))
    assert str(error) == (
        "g.jsonl:3:1: this is not a valid task: object contains unknown field 'parent'\nDid you mean 'parents'?"
    )
    assert "There are 'name', 'label', 'parents'" in refused(lines_of(A, {**B, "zzz": 1})).hint
    assert "Did you mean 'tasks'?" in refused(lines_of(A, task=1)).hint


def test_escaped_backslash_is_not_nul() -> None:
    assert read({**A, "command": "\\u0000"}).graph.dag.nodes[0].command == "\\u0000"


def test_a_program_may_hold_nul() -> None:
    found = read_graph_file([*lines_of(A, programs=1), b'{"path":"p","text":"a\\u0000"}\n'], PLACE)
    assert found.graph.programs == {"p": "a\0"}


def test_duplicate_file_name_is_refused() -> None:
    error = refused(lines_of(A, files=({"name": "f"}, {"name": "g", "path": "/g"}, {"name": "f"})))
    assert str(error).startswith("g.jsonl:4:1: a second file is named 'f'")


def test_duplicate_task_name_is_refused() -> None:
    error = refused(lines_of(A, B, A, files=({"name": "f"},)))
    assert str(error) == (
        "g.jsonl:5:1: a second task is named 'a', as the one of line 3 is\n"
        "Names must be unique; add what tells the two apart to the name."
    )


def test_a_ring_is_spelled_out_with_a_line_of_it() -> None:
    with pytest.raises(CycleError) as caught:
        read(A, {**B, "parents": [2]}, {**C, "parents": [1]})
    assert caught.value.ring in {("b", "c", "b"), ("c", "b", "c")}
    assert str(caught.value).startswith(f"g.jsonl:{'_abc'.index(caught.value.ring[0]) + 1}:1: the graph has a cycle: ")


def test_a_task_that_waits_for_itself() -> None:
    with pytest.raises(CycleError, match="'a' -> 'a'"):
        read({**A, "parents": [0]})


def test_many_tasks_of_one_name_are_refused_at_the_second() -> None:
    tasks = [A] * 20_000
    assert str(refused(lines_of(*tasks))).startswith("g.jsonl:3:1: a second task is named 'a', as the one of line 2 is")


@pytest.mark.parametrize("place", [0, 5_000, 9_999])
def test_a_wrong_line_among_many(place: int) -> None:
    tasks: list[Any] = [{"name": str(number), "label": "x"} for number in range(10_000)]
    tasks[place] = b"garbage\n"
    assert str(refused(lines_of(*tasks))).startswith(f"g.jsonl:{place + 2}:1: this is not JSON")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_has_not_cannot_be_written(value: float) -> None:
    graph = TaskGraph(name="g", dag=Dag([Task(name="a", label="x", data_id={"v": value})], ()))
    with pytest.raises(GraphError, match=r"the task 'a' has the value (nan|-?inf) for 'v', which JSON cannot hold"):
        list(graph_lines(graph))


def test_name_that_is_not_utf_8_is_refused() -> None:
    graph = TaskGraph(name="g", dag=Dag([Task(name="a\udcff", label="x")], ()))
    with pytest.raises(GraphError, match=r"the task 'a\\udcff' cannot be written as JSON"):
        list(graph_lines(graph))


@given(st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"") + b"\n"), max_size=4))
@example([b'{"kind":"longshore-graph","version":1,"tasks":1}\n', b"1" * 400 + b"\n"])
def test_any_file_gives_a_graph_or_an_error_with_a_line(lines: list[bytes]) -> None:
    for start in ([], [b'{"kind":"longshore-graph","version":1,"tasks":2,"files":1}\n']):
        with pytest.raises(GraphError) as caught:
            read_graph_file([*start, *lines], PLACE)
        assert caught.value.origin is not None
        assert caught.value.origin.line
