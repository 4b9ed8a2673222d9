"""A pipeline in YAML gives its tasks, files and edges; errors name their place."""

from __future__ import annotations

import copy
import gc
import string
import time
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.config.merge import Node, plain_value, to_node
from longshore.config.templates import Field, Template, split_fields
from longshore.errors import ConfigError, CycleError, FilesError, GraphError, LongshoreError, Origin
from longshore.graphs.declarations import (
    FileKind,
    PipelineKind,
    needed_files,
    pipeline_kind,
    read_declaration,
    select_tasks,
)
from longshore.graphs.file_patterns import capture_values
from longshore.graphs.pipeline import Pipeline, PipelineSettings, missing_files, read_pipeline
from longshore.graphs.tables import Table, parse_csv

HERE = Origin("p.yaml", 1, 1)

SURVEY: dict[str, Any] = {
    "dimensions": {
        "visit": [101, 102, 103],
        "detector": {"range": [0, 1]},
        "patch": {"table": "tables/overlap.csv"},
    },
    "relations": {"overlap": {"table": "tables/overlap.csv"}},
    "datasets": {
        "raw": "raw/{visit}_{detector:03}.fits",
        "calexp": "out/calexp/{visit}/{detector}.fits",
        "coadd": {"path": "./out//coadd/{patch}.fits"},
    },
    "tasks": {
        "calibrate": {
            "dimensions": ["visit", "detector"],
            "command": "calibrate {raw} {calexp} --visit {visit} {extra}",
            "inputs": ["raw"],
            "outputs": ["calexp"],
        },
        "stack": {
            "dimensions": ["patch"],
            "command": ["stack", "--out", "{coadd}", "{calexp}"],
            "inputs": ["calexp"],
            "outputs": ["coadd"],
        },
        "publish": {"dimensions": [], "command": "publish", "after": ["stack"]},
    },
    "subsets": {"single": ["calibrate"], "sky": {"subset": ["stack"], "description": "LSST's own form"}},
}

TABLES = {
    "tables/overlap.csv": parse_csv(
        "visit,detector,patch\n101,0,1\n101,1,1\n102,0,1\n102,0,2\n102,1,2\n", Origin("tables/overlap.csv")
    )
}


def changed(*path: str, to: object) -> dict[str, Any]:
    """The survey with another value at a place; ``...`` takes it out."""
    survey = copy.deepcopy(SURVEY)
    place = survey
    for key in path[:-1]:
        place = place[key]
    if to is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return survey


def read(pipeline: object, query: str = "", **options: Any) -> Pipeline:
    tables = options.pop("tables", TABLES)
    settings = PipelineSettings(query=query, query_origin=Origin("run.yaml", 3, 5), **options)
    return read_pipeline(to_node(pipeline, HERE), tables, settings)


def names(pipeline: Pipeline, label: str = "") -> list[str]:
    return [task.name for task in pipeline.graph.dag.nodes if not label or task.label == label]


def edges(pipeline: Pipeline) -> set[tuple[str, str]]:
    nodes = pipeline.graph.dag.nodes
    return {(nodes[parent].name, nodes[child].name) for parent, child in pipeline.graph.dag.edges()}


def study(dimensions: dict[str, Any], **task: Any) -> dict[str, Any]:
    """A pipeline with one task over all of its dimensions."""
    task = {"dimensions": list(dimensions), "command": "run", **task}
    return {"dimensions": dimensions, "tasks": {"t": task}}


# --------------------------------------------------------------------------------------------------------- the graph


def test_survey_pipeline_gives_tasks_files_and_edges() -> None:
    found = read(SURVEY, name="survey")
    assert found.graph.name == "survey"
    assert names(found) == [
        *("calibrate_101_0", "calibrate_101_1", "calibrate_102_0", "calibrate_102_1"),
        *("stack_1", "stack_2", "publish"),
    ]
    assert edges(found) == {
        *(("calibrate_101_0", "stack_1"), ("calibrate_101_1", "stack_1"), ("calibrate_102_0", "stack_1")),
        *(("calibrate_102_0", "stack_2"), ("calibrate_102_1", "stack_2")),
        *(("stack_1", "publish"), ("stack_2", "publish")),
    }
    calibrate = found.graph.dag["calibrate_102_1"]
    assert (calibrate.label, calibrate.data_id, calibrate.command) == ("calibrate", {"visit": 102, "detector": 1}, None)
    assert calibrate.inputs == ("raw/102_001.fits",)
    assert calibrate.outputs == ("out/calexp/102/1.fits",)
    stack = found.graph.dag["stack_2"]
    assert stack.paths == {
        "calexp": ("out/calexp/102/0.fits", "out/calexp/102/1.fits"),
        "coadd": ("out/coadd/2.fits",),
    }
    assert {name for task in found.graph.dag for name in (*task.inputs, *task.outputs)} == set(found.graph.files)
    assert all(file.name == file.path == name for name, file in found.graph.files.items())
    assert not found.graph.directories


def test_commands_keep_their_text_and_their_place() -> None:
    found = read(SURVEY)
    assert {label: plain_value(node) for label, node in found.commands.items()} == {
        label: task["command"] for label, task in SURVEY["tasks"].items()
    }
    assert all(node.origin == HERE for node in found.commands.values())


def test_paths_are_seen_from_a_directory_that_is_given() -> None:
    pipeline = changed("datasets", "raw", to="/data/raw/{visit}_{detector}.fits")
    found = read(pipeline, directory="/home/me/")
    assert found.graph.files["/data/raw/101_0.fits"].path == "/data/raw/101_0.fits"
    assert found.graph.files["out/coadd/1.fits"].path == "/home/me/out/coadd/1.fits"
    assert list(found.graph.directories) == [
        *("/home/me/out/calexp/101", "/home/me/out/calexp/102", "/home/me/out/coadd"),
    ]


def test_external_files_must_exist() -> None:
    found = read(SURVEY)
    (raw,) = found.external
    assert raw.dataset == "raw"
    assert raw.paths == {f"raw/{v}_00{d}.fits": f"calibrate_{v}_{d}" for v in (101, 102) for d in (0, 1)}
    assert missing_files(found, set()) is None
    error = missing_files(found, {"raw/102_001.fits", "raw/102_000.fits"})
    assert isinstance(error, FilesError)
    assert "'raw/102_000.fits' does not exist (and 1 more of 'raw'); 'calibrate_102_0' reads it" in error.message


def test_a_query_narrows_every_task() -> None:
    assert names(read(SURVEY, "visit = 101")) == ["calibrate_101_0", "calibrate_101_1", "stack_1", "publish"]
    assert names(read(SURVEY, "patch = 2"), "calibrate") == ["calibrate_102_0", "calibrate_102_1"]
    with pytest.raises(GraphError, match="leaves nothing") as caught:
        read(SURVEY, "visit = 103")
    assert caught.value.origin == Origin("run.yaml", 3, 5)
    with pytest.raises(ConfigError, match="column 1 of the query") as wrong:
        read(SURVEY, "vist = 103")
    assert (wrong.value.hint, wrong.value.origin) == ("Did you mean 'visit'?", Origin("run.yaml", 3, 5))


def test_a_fan_in_takes_all_files() -> None:
    pipeline = study({"x": [1, 2], "y": ["a"]}, outputs={"part": "part/{x}_{y}"})
    pipeline["tasks"]["sum"] = {"command": "sum {part}", "inputs": ["part"]}
    found = read(pipeline)
    assert found.graph.dag["sum"].inputs == ("part/1_a", "part/2_a")
    assert edges(found) == {("t_1_a", "sum"), ("t_2_a", "sum")}


def test_a_task_can_make_several_files_of_a_dataset() -> None:
    pipeline: dict[str, Any] = {
        "dimensions": {"x": [1, 2], "y": [3, 4]},
        "datasets": {"piece": "piece/{x}/{y}"},
        "tasks": {
            "split": {"dimensions": ["x"], "command": "split {piece}", "outputs": ["piece"]},
            "use": {"dimensions": ["y", "x"], "command": "use {piece}", "inputs": ["piece"]},
        },
    }
    found = read(pipeline)
    assert found.graph.dag["split_1"].outputs == ("piece/1/3", "piece/1/4")
    assert names(found, "use") == ["use_3_1", "use_3_2", "use_4_1", "use_4_2"]
    assert ("split_2", "use_3_2") in edges(found)
    assert len(edges(found)) == 4


def test_after_orders_by_shared_dimensions_and_relations() -> None:
    pipeline: dict[str, Any] = {
        "dimensions": {"x": [1, 2], "y": [3, 4], "z": [5, 6]},
        "relations": {"r": {"columns": ["x", "z"], "rows": [[1, 5], [2, 6]]}},
        "tasks": {
            "a": {"dimensions": ["x"], "command": "a"},
            "b": {"dimensions": ["x", "y"], "command": "b", "after": "a"},
            "c": {"dimensions": ["z"], "command": "c", "after": ["a"]},
            "d": {"dimensions": ["y"], "command": "d", "after": ["a"]},
        },
    }
    assert edges(read(pipeline)) == {
        *(("a_1", "b_1_3"), ("a_1", "b_1_4"), ("a_2", "b_2_3"), ("a_2", "b_2_4")),
        *(("a_1", "c_5"), ("a_2", "c_6")),
        *(("a_1", "d_3"), ("a_1", "d_4"), ("a_2", "d_3"), ("a_2", "d_4")),
    }


def test_one_file_under_two_dataset_names_orders_tasks() -> None:
    pipeline: dict[str, Any] = {
        "tasks": {
            "use": {"command": "use {there}", "inputs": {"there": "./out//x"}},
            "make": {"command": "make {here}", "outputs": {"here": "out/x"}},
        },
    }
    assert edges(read(pipeline)) == {("make", "use")}


def test_names_stay_apart() -> None:
    found = read(study({"x": ["a/b", "a_b", "a b", "%s", "'\n"], "y": ["c_d", "c"]}))
    assert len(set(names(found))) == 10
    assert names(found)[:4] == ["t_%s_c", "t_%s_c_d", "t_'\n_c", "t_'\n_c_d"]
    assert names(read(study({"x": ["a/b", "a_b", "a_b_2"]}))) == ["t_a_b", "t_a_b_3", "t_a_b_2"]


def test_values_reach_data_ids_exactly_and_paths_as_they_are() -> None:
    values = ["it's", 'a "b"', "$HOME `x` \\ ;|&", "a\nb", " ", "ü", "%s", "{x}"]
    found = read(study({"x": values}, outputs={"o": "out/{x}.txt"}))
    assert {task.data_id["x"]: task.outputs for task in found.graph.dag} == {
        value: (f"out/{value}.txt",) for value in values
    }


@pytest.mark.parametrize("value", ["a/b", ".", "..", ""])
def test_value_in_a_path_is_one_component(value: str) -> None:
    assert names(read(study({"x": [value]}))) == ["t_" + value.replace("/", "_")]
    with pytest.raises(ConfigError, match="dimension 'x' cannot be a part of a path"):
        read(study({"x": [value]}, outputs={"o": "out/{x}.txt"}))


def test_caller_fills_in_variables_of_a_path() -> None:
    def expand(node: Node, free: frozenset[str]) -> Template:
        parts = split_fields(str(node.value))
        return Template(
            tuple("scratch" if isinstance(p, Field) and p.name not in free else p for p in parts), node.origin
        )

    pipeline = study({"x": [1]}, outputs={"o": "{base}/{x}.txt"})
    assert read(pipeline, expand=expand).graph.dag["t_1"].outputs == ("scratch/1.txt",)
    with pytest.raises(ConfigError, match="names the unknown dimension 'base'"):
        read(pipeline)


def test_patterns_and_tables_are_named_before_they_are_read() -> None:
    pipeline = changed("dimensions", "exposure", to={"glob": "raw/{night}/{exposure}.fits"})
    assert [(file.kind, file.name) for file in needed_files(to_node(pipeline, HERE))] == [
        (FileKind.TABLE, "tables/overlap.csv"),
        (FileKind.GLOB, "raw/{night}/{exposure}.fits"),
    ]
    tables: dict[str, Table] = {**TABLES, "raw/{night}/{exposure}.fits": capture_values("raw/{n}/{e}", ["raw/1/2"])}
    with pytest.raises(ConfigError, match="has no column 'exposure'"):
        read(pipeline, tables=tables)


def test_a_pattern_can_have_variables_that_the_caller_fills_in() -> None:
    pipeline = study({"e": {"glob": "{base}/{.payload.night}/{n}/{e}.fits"}}, inputs={"raw": "raw/{n}/{e}.fits"})
    table = capture_values("raw/a/{n}/{e}.fits", ["raw/a/1/2.fits", "raw/a/1/3.fits"])
    tables = {"{base}/{.payload.night}/{n}/{e}.fits": table}
    assert names(read(pipeline, tables=tables)) == ["t_2", "t_3"]
    pipeline["tasks"]["t"]["dimensions"] = ["e", "base"]
    with pytest.raises(ConfigError, match="has no column 'base'"):
        read(pipeline, tables=tables)


def test_garbage_collection_resumes_after_success_and_failure() -> None:
    with pytest.raises(GraphError):
        read(SURVEY, "visit = 103")
    assert gc.isenabled()


# ------------------------------------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("tasks",), {}, "has no 'tasks'"),
        (("tasks",), ..., "has no 'tasks'"),
        (("tasks",), [1], "'tasks' must be a map"),
        (("task",), {}, "no key 'task'"),
        (("dimensions",), [1], "'dimensions' must be a map"),
        (("tasks", "stack"), "lsst.Stack", "must be a map"),
        (("tasks", "stack", "command"), ..., "has no 'command'"),
        (("tasks", "stack", "command"), [], "names no program"),
        (("tasks", "stack", "command"), "  ", "names no program"),
        (("tasks", "stack", "command"), {"a": "b"}, "text or a list of texts"),
        (("tasks", "stack", "command"), ["stack", True], "text or a list of texts"),
        (("tasks", "stack", "command"), "stack {visit}", "'{visit}', which is not one of its dimensions"),
        (("tasks", "stack", "command"), "stack {raw}", "neither its input nor its output"),
        (("tasks", "stack", "command"), "stack {coadd:>9}", "with a format"),
        (("tasks", "stack", "command"), ["stack", "--in={calexp}"], "can be several files"),
        (("tasks", "stack", "comand"), "x", "no key 'comand'"),
        (("tasks", "stack", "requestMemory"), 1, "no key 'requestMemory'"),
        (("tasks", "stack", "dimensions"), ["pach"], "names the unknown dimension 'pach'"),
        (("tasks", "stack", "dimensions"), ["patch", "patch"], "names 'patch' twice"),
        (("tasks", "stack", "dimensions"), [None], "list of names"),
        (("tasks", "stack", "inputs"), ["calxp"], "names the unknown dataset 'calxp'"),
        (("tasks", "stack", "inputs"), {"calexp": "elsewhere/{visit}"}, "has two paths"),
        (("tasks", "stack", "inputs"), ["coadd"], "reads and writes the dataset 'coadd'"),
        (("tasks", "stack", "outputs"), ["calexp"], "reads and writes"),
        (("tasks", "publish", "outputs"), ["coadd"], "both make the dataset 'coadd'"),
        (("tasks", "publish", "after"), ["stak"], "names the unknown task 'stak'"),
        (("tasks", "publish", "after"), ["publish"], "cannot come after itself"),
        (("tasks", "a b"), {"command": "x"}, "cannot be the label"),
        (("datasets", "visit"), "x/{visit}", "cannot be a dataset as well"),
        (("datasets", "label"), "x/{visit}", "cannot be a name"),
        (("datasets", "raw"), True, "must be text"),
        (("datasets", "raw"), {"pth": "x"}, "no key 'pth'"),
        (("datasets", "raw"), "raw/{vist}", "names the unknown dimension 'vist'"),
        (("datasets", "raw"), "raw/{visit:/>9}_{detector}", "slash in the format"),
        (("datasets", "raw"), "raw/{visit:s}_{detector}", "cannot write the value"),
        (("datasets", "calexp"), "out/{visit}.fits", "'calibrate_101_0' and 'calibrate_101_1' both write the file"),
        (("datasets", "coadd"), "out/calexp/{patch}01", "in the way"),
        (("datasets", "coadd"), "out/calexp/10{patch}/0.fits", "both write the file 'out/calexp/101/0.fits'"),
        (("datasets", "raw"), "out/calexp/{visit}/{detector}.fits", "which it writes itself"),
    ],
)
def test_invalid_pipeline_is_reported(path: tuple[str, ...], value: object, says: str) -> None:
    with pytest.raises(LongshoreError) as caught:
        read(changed(*path, to=value))
    assert says in caught.value.message
    assert caught.value.exit_status in {3, 7}
    assert caught.value.origin is not None or caught.value.hint


def test_two_writers_of_a_file_are_reported_with_the_missing_dimension() -> None:
    with pytest.raises(GraphError) as caught:
        read(changed("datasets", "calexp", to="out/{visit}.fits"))
    assert "needs '{detector}' in it" in caught.value.hint


def test_labels_that_wait_for_each_other_are_named() -> None:
    with pytest.raises(CycleError) as caught:
        read(changed("tasks", "calibrate", "after", to=["publish"]))
    assert set(caught.value.ring) == {"calibrate", "stack", "publish"}


def test_too_many_tasks_are_counted_and_not_made() -> None:
    pipeline = study({name: {"range": [1, 300]} for name in "abc"})
    began = time.process_time()
    with pytest.raises(GraphError, match="27,000,000 combinations, more than the limit of 1,000,000"):
        read(pipeline)
    assert time.process_time() - began < 30
    with pytest.raises(GraphError, match="all tasks together: 7 combinations"):
        read(SURVEY, limit=6)
    assert len(names(read(SURVEY, limit=7))) == 7


def test_too_many_edges_are_counted_and_not_made() -> None:
    numbers = {"range": [1, 3000]}
    pipeline: dict[str, Any] = {
        "dimensions": {"x": numbers, "y": numbers},
        "tasks": {
            "a": {"dimensions": ["x"], "command": "a"},
            "b": {"dimensions": ["y"], "command": "b", "after": ["a"]},
        },
    }
    with pytest.raises(GraphError, match="tasks 'b' after tasks 'a': 9,000,000 combinations"):
        read(pipeline, limit=10_000)


# ---------------------------------------------------------------------------------------------------- kinds and subsets


@pytest.mark.parametrize(
    ("pipeline", "kind"),
    [
        ({"tasks": {"a": {"command": "x"}}}, PipelineKind.COMMANDS),
        ({"tasks": {"a": {"class": "lsst.A"}}}, PipelineKind.LSST),
        ({"tasks": {"a": "lsst.A", "b": {"class": "lsst.B"}}}, PipelineKind.LSST),
        ({"imports": ["x.yaml"]}, PipelineKind.LSST),
        ({"tasks": {"a": {"command": "x"}, "b": {"class": "lsst.B"}}}, "a pipeline has either"),
        ({"tasks": {"a": {"command": "x", "class": "lsst.B"}}}, "both a class"),
        ({"tasks": {"a": {"command": "x"}, "b": {}}}, PipelineKind.COMMANDS),
        ({"tasks": {"a": None}}, PipelineKind.COMMANDS),
        ({"tasks": {}}, "no 'tasks'"),
        ({}, "no 'tasks'"),
        ("x.yaml", "must be a map"),
    ],
)
def test_whose_pipeline_it_is(pipeline: object, kind: PipelineKind | str) -> None:
    if isinstance(kind, PipelineKind):
        assert pipeline_kind(to_node(pipeline, HERE)) is kind
    else:
        with pytest.raises(ConfigError) as caught:
            pipeline_kind(to_node(pipeline, HERE))
        assert kind in caught.value.message


def test_a_subset_keeps_its_labels_and_nothing_else() -> None:
    node = to_node(SURVEY, HERE)
    for chosen, expected in {
        ("calibrate",): {"calibrate"},
        ("single", "publish"): {"calibrate", "publish"},
        ("sky",): {"stack"},
    }.items():
        found = read_pipeline(select_tasks(node, chosen), TABLES)
        assert {task.label for task in found.graph.dag} == expected
    only_stack = read_pipeline(select_tasks(node, ["stack"]), TABLES)
    assert [external.dataset for external in only_stack.external] == ["calexp"]
    with pytest.raises(ConfigError, match="'stak'") as caught:
        select_tasks(node, ["stak"], Origin("run.yaml", 2, 3))
    assert (caught.value.hint, caught.value.origin) == ("Did you mean 'stack'?", Origin("run.yaml", 2, 3))


@pytest.mark.parametrize(
    ("written", "labels"),
    [
        ("calibrate..stack", {"calibrate", "stack"}),
        ("calibrate..publish", {"calibrate", "stack", "publish"}),
        ("stack..stack", {"stack"}),
        ("..stack", {"calibrate", "stack"}),
        ("stack..", {"stack", "publish"}),
        ("..", {"calibrate", "stack", "publish"}),
    ],
)
def test_range_selects_labels_on_paths_between_its_ends(written: str, labels: set[str]) -> None:
    found = read_pipeline(select_tasks(to_node(SURVEY, HERE), [written]), TABLES)
    assert {task.label for task in found.graph.dag} == labels


def test_range_is_independent_of_the_order_of_tasks() -> None:
    tasks = {
        "last": {"command": "x", "inputs": ["l", "r"]},
        "beside": {"command": "x", "inputs": ["o"]},
        "left": {"command": "x", "inputs": "o", "outputs": {"l": "left"}},
        "right": {"command": "x", "after": ["first"], "outputs": {"r": "right"}},
        "first": {"command": "x", "outputs": {"o": "out"}},
    }
    for order in (tasks, dict(reversed(tasks.items()))):
        found = read_pipeline(select_tasks(to_node({"tasks": order}, HERE), ["first..last"]), {})
        assert {task.label for task in found.graph.dag} == {"first", "left", "right", "last"}


@pytest.mark.parametrize(
    ("names", "message", "hint"),
    [
        (
            ["calibrat..stack"],
            "the range 'calibrat..stack' names the unknown task 'calibrat'",
            "Did you mean 'calibrate'?",
        ),
        (["single..stack"], "names the unknown task 'single'", "There are 'calibrate', 'stack', 'publish'."),
        (["a..b..c"], "names the unknown task 'a'", "There are"),
        (["stack..calibrate"], "holds nothing: 'calibrate' needs nothing", "Did you mean 'calibrate..stack'?"),
        (["beside..stack"], "holds nothing: 'stack' needs nothing", "A list of labels has commas"),
        (["calibrate..stack", "publish"], "the range 'calibrate..stack' must stand alone", "Name all labels"),
    ],
)
def test_invalid_range_is_reported(names: list[str], message: str, hint: str) -> None:
    pipeline = {**SURVEY, "tasks": {**SURVEY["tasks"]}}
    if "beside" in names[0]:
        pipeline["tasks"]["beside"] = {"command": "x", "dimensions": []}
    with pytest.raises(ConfigError) as caught:
        select_tasks(to_node(pipeline, HERE), names, Origin("run.yaml", 2, 3))
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
    assert caught.value.origin == Origin("run.yaml", 2, 3)


def test_a_subset_knows_datasets_that_other_tasks_define() -> None:
    pipeline = study({"x": [1]}, outputs={"o": "out/{x}"})
    pipeline["tasks"]["use"] = {"dimensions": ["x"], "command": "use {o}", "inputs": ["o"]}
    found = read_pipeline(select_tasks(to_node(pipeline, HERE), ["use"]), {})
    assert found.external[0].paths == {"out/1": "use_1"}


@pytest.mark.parametrize(
    ("subsets", "says"),
    [
        ({"s": ["nobody"]}, "names the unknown task 'nobody'"),
        ({"s": {"x": 1}}, "list of labels"),
        ({"s": [None]}, "list of names"),
    ],
)
def test_invalid_subset_is_reported(subsets: object, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        select_tasks(to_node(changed("subsets", to=subsets), HERE), ["stack"])


# ------------------------------------------------------------------------------------------------- against brute force


@st.composite
def worlds(draw: st.DrawFn) -> dict[str, Any]:
    names = ("a", "b", "c")
    dimensions = {name: draw(st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True)) for name in names}
    relations = {}
    for number in range(draw(st.integers(0, 2))):
        columns = draw(st.lists(st.sampled_from(names), min_size=2, max_size=3, unique=True))
        cells = st.tuples(*(st.integers(0, 2) for _ in columns))
        rows = draw(st.lists(cells, min_size=3, max_size=12, unique=True))
        relations[f"r{number}"] = {"columns": columns, "rows": [list(row) for row in rows]}
    some = st.lists(st.sampled_from(names), unique=True)
    made, used = draw(some), draw(some)
    path = "out/x" + "".join(f"_{{{name}}}" for name in made)
    return {
        "dimensions": dimensions,
        "relations": relations,
        "tasks": {
            "make": {"dimensions": made, "command": "make", "outputs": {"d": path}},
            "use": {"dimensions": used, "command": "use", "inputs": ["d"]},
            "wait": {"dimensions": used, "command": "wait", "after": ["make"]},
        },
    }


@given(worlds())
def test_producers_come_before_the_consumers_that_are_joined_with_them(pipeline: dict[str, Any]) -> None:
    dimensions, relations, tasks = pipeline["dimensions"], pipeline["relations"], pipeline["tasks"]
    expected = set()
    for values in product(*dimensions.values()):
        row = dict(zip(dimensions, values, strict=True))
        if all([row[name] for name in each["columns"]] in each["rows"] for each in relations.values()):
            joined = {
                label: "_".join([label, *(str(row[d]) for d in task["dimensions"])]) for label, task in tasks.items()
            }
            expected |= {(joined["make"], joined["use"]), (joined["make"], joined["wait"])}
    if not expected:
        with pytest.raises(GraphError):
            read(pipeline)
    else:
        assert edges(read(pipeline)) == expected


KEYS = st.sampled_from(
    [
        *("dimensions", "relations", "datasets", "tasks", "subsets", "x", "y", "d", "t", "u"),
        *("range", "glob", "table", "rows", "columns", "path", "command", "inputs", "outputs", "after", "column"),
    ]
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(string.printable, max_size=5),
    st.sampled_from(["x", "y", "d", "t", "u", "out/{x}", "{x}/{y}", "t.csv", "run {x} {d}"]),
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))


@st.composite
def scribbled(draw: st.DrawFn) -> object:
    """The survey, or less, with something else in one place."""
    survey: dict[str, Any] = copy.deepcopy(SURVEY)
    place: Any = survey
    while True:
        key = draw(st.sampled_from([*place] if isinstance(place, dict) else [*range(len(place))]))
        if not isinstance(place[key], dict | list) or not place[key] or draw(st.booleans()):
            place[key] = draw(VALUES)
            return survey
        place = place[key]


@given(st.one_of(VALUES, scribbled()))
def test_any_pipeline_gives_a_graph_or_a_longshore_error(pipeline: object) -> None:
    node = to_node(pipeline, HERE)
    try:
        pipeline_kind(node)
        needed_files(node)
        read_pipeline(node, TABLES, PipelineSettings(limit=1000))
        select_tasks(node, ["stack", "single"])
    except LongshoreError as error:
        assert str(error)  # noqa: PT017


def test_a_path_among_the_names_of_datasets_is_told_its_form() -> None:
    tasks = {
        "a": {"command": "x", "outputs": "out/x.txt"},
        "b": {"command": "x", "outputs": {"all": "all.txt"}},
    }
    with pytest.raises(ConfigError) as caught:
        read_declaration(to_node({"tasks": tasks}, HERE))
    assert caught.value.hint == "A file has a name here: {NAME: 'out/x.txt'}. There is only 'all'."
