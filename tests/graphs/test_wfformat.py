"""Recorded workflows give the graphs they describe; errors name their place."""

from __future__ import annotations

import copy
import json
import re
import string
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.errors import ConfigError, CycleError, GraphError, Origin
from longshore.graphs.wfformat import read_wfformat
from longshore.model.tasks import Task, TaskGraph
from longshore.model.values import YamlValue

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "data" / "wfinstances"
SOURCE = read_wfformat

INSTANCES = {
    RECORDED / "helloworld-forkjoin-10-chameleon.json": (10, 16, 11),
    ROOT / "doc" / "examples" / "montage" / "montage-2mass-005d.json": (58, 114, 111),
    RECORDED / "1000genome-chameleon-2ch-100k-001.json": (52, 76, 64),
    RECORDED / "blast-chameleon-small-001.json": (43, 120, 127),
    RECORDED / "srasearch-chameleon-10a-001.json": (22, 30, 48),
    RECORDED / "bacass-dirt02-001.json": (11, 14, 67),
    RECORDED.parent / "wfformat" / "epigenomics-57-001.json": (57, 68, 158),
}
"""Tasks, edges and files of each."""

every_instance = pytest.mark.parametrize("path", INSTANCES, ids=lambda path: path.stem)

SMALL: dict[str, Any] = {
    "name": "small",
    "schemaVersion": "1.5",
    "workflow": {
        "specification": {
            "tasks": [
                {
                    "name": "make",
                    "id": "make_1",
                    "parents": [],
                    "children": ["use_1"],
                    "inputFiles": ["in.txt"],
                    "outputFiles": ["/b6/out: a b.txt"],
                },
                {
                    "name": "use",
                    "id": "use_1",
                    "parents": ["make_1"],
                    "children": [],
                    "inputFiles": ["/b6/out: a b.txt", "unlisted.txt"],
                    "outputFiles": ["end.txt"],
                },
            ],
            "files": [
                {"id": "in.txt", "sizeInBytes": 10},
                {"id": "/b6/out: a b.txt", "sizeInBytes": 2001},
                {"id": "end.txt", "sizeInBytes": 0},
            ],
        },
        "execution": {
            "makespanInSeconds": 40,
            "executedAt": "2020-04-01T00:00:00Z",
            "tasks": [
                {"id": "make_1", "runtimeInSeconds": 16.712, "avgCPU": 97.6723, "memoryInBytes": 14800000},
                {"id": "use_1", "runtimeInSeconds": 5, "avgCPU": 160.8, "coreCount": 2, "memoryInBytes": None},
            ],
        },
    },
}


def encode(document: object) -> bytes:
    return json.dumps(document, indent=1).encode()


def read(document: object, **settings: YamlValue) -> TaskGraph:
    text = document if isinstance(document, bytes) else encode(document)
    return read_wfformat(text, settings, Origin("small.json"))


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    document = copy.deepcopy(SMALL)
    change(document)
    return document


def tasks_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    tasks: list[dict[str, Any]] = document["workflow"]["specification"]["tasks"]
    return tasks


def files_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    files: list[dict[str, Any]] = document["workflow"]["specification"]["files"]
    return files


def executions_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    executions: list[dict[str, Any]] = document["workflow"]["execution"]["tasks"]
    return executions


def edges_of(graph: TaskGraph) -> set[tuple[str, str]]:
    nodes = graph.dag.nodes
    return {(nodes[parent].name, nodes[child].name) for parent, child in graph.dag.edges()}


def options(task: Task, option: str) -> list[str]:
    assert isinstance(task.command, tuple)
    words = task.command[4:]
    return [value for key, value in zip(words[::2], words[1::2], strict=True) if key == option]


# ------------------------------------------------------------------------------------------------------ real instances


@every_instance
def test_a_recorded_workflow_has_its_tasks_edges_and_files(path: Path) -> None:
    graph = read_wfformat(path.read_bytes(), {}, Origin(str(path)))
    assert (len(graph.dag), len(list(graph.dag.edges())), len(graph.files)) == INSTANCES[path]
    document = json.loads(path.read_bytes())
    assert graph.name == document["name"]
    assert [task.name for task in graph.dag.nodes] == [task["id"] for task in tasks_of(document)]
    assert {name: file.size_b for name, file in graph.files.items()} == {
        file["id"]: file["sizeInBytes"] for file in files_of(document)
    }
    assert not graph.programs


KINDS = {
    "montage-2mass-005d": {
        *("mProject", "mDiffFit", "mConcatFit", "mBgModel", "mBackground", "mImgtbl", "mAdd", "mViewer")
    },
    "1000genome-chameleon-2ch-100k-001": {
        *("individuals", "individuals_merge", "sifting", "mutation_overlap", "frequency")
    },
    "blast-chameleon-small-001": {"split_fasta", "blastall", "cat_blast", "cat"},
    "srasearch-chameleon-10a-001": {"bowtie2-build", "fasterq-dump", "bowtie2", "merge"},
    "helloworld-forkjoin-10-chameleon": {"cpuhog"},
    "epigenomics-57-001": {
        *("fastqSplit", "filterContams", "sol2sanger", "fast2bfq", "map", "mapMerge", "chr21", "pileup")
    },
}


@pytest.mark.parametrize("path", [path for path in INSTANCES if path.stem in KINDS], ids=lambda path: path.stem)
def test_the_label_of_a_recorded_task_is_its_program(path: Path) -> None:
    graph = read_wfformat(path.read_bytes(), {}, Origin(str(path)))
    assert {task.label for task in graph.dag.nodes} == KINDS[path.stem]


def test_a_recorded_script_is_no_label() -> None:
    path = RECORDED / "bacass-dirt02-001.json"
    graph = read_wfformat(path.read_bytes(), {}, Origin(str(path)))
    labels = {task.label.rpartition(".")[2] for task in graph.dag.nodes}
    assert labels == {"FASTQC", "SKEWER", "UNICYCLER", "PROKKA", "QUAST", "GET_SOFTWARE_VERSIONS", "MULTIQC"}


@pytest.mark.parametrize(
    ("name", "command", "label"),
    [
        ("mAdd_ID0000056", None, "mAdd"),
        ("blastall_00000002", None, "blastall"),
        ("pour-2", {}, "pour"),
        ("bowtie2", {"program": None}, "bowtie2"),
        ("_12", "mAdd", "_12"),
        ("mAdd_1", {"program": "/opt/montage/bin/mAddCube"}, "mAddCube"),
        ("mAdd_1", {"program": "python3", "arguments": ["add.py"]}, "mAdd"),
        ("mAdd_1", {"program": "cd data && mAdd"}, "mAdd"),
        ("mAdd_1", {"program": "m\0Add"}, "mAdd"),
        ("mAdd_1", {"program": "bin/"}, "mAdd"),
    ],
)
def test_the_label_is_the_program_or_the_name_without_its_number(name: str, command: Any, label: str) -> None:
    document = wrong(f"{TASKS}.0.name", name)
    document["workflow"]["execution"]["tasks"][0]["command"] = command
    assert read(document).dag.nodes[0].label == label


@every_instance
def test_every_recorded_input_that_a_task_makes_is_made_by_an_ancestor_and_checked(path: Path) -> None:
    graph = read_wfformat(path.read_bytes(), {}, Origin(str(path)))
    order: nx.DiGraph[str] = nx.DiGraph(edges_of(graph))
    order.add_nodes_from(graph.dag.index)
    maker = {name: task.name for task in graph.dag.nodes for name in task.outputs}
    checked = 0
    for task in graph.dag.nodes:
        made = [name for name in task.inputs if name in maker]
        assert {maker[name] for name in made} <= nx.ancestors(order, task.name)
        assert [word.partition(":")[2] for word in options(task, "--input")] == [
            graph.files[name].path.removeprefix("data/") for name in made
        ]
        checked += len(made)
    assert checked


@every_instance
def test_a_recorded_workflow_is_cut_short_anywhere(path: Path) -> None:
    text = path.read_bytes().rstrip()
    for end in range(0, len(text), len(text) // 25 + 1):
        with pytest.raises(GraphError):
            read(text[:end])


# ------------------------------------------------------------------------------------------------------------- reading


def test_recorded_task_gives_a_replay_command() -> None:
    graph = read(SMALL, python="/opt/python3", program="/run/programs/replay.py")
    make, use = graph.dag.nodes
    assert make.command == (
        *("/opt/python3", "-I", "-S", "/run/programs/replay.py"),
        *("--name", "make_1", "--seconds", "0.16712", "--cpu", "0.976723", "--root", "data"),
        *("--output", "3:b6/out: a b.txt"),
    )
    assert use.command == (
        *("/opt/python3", "-I", "-S", "/run/programs/replay.py"),
        *("--name", "use_1", "--seconds", "0.05", "--cpu", "1", "--root", "data"),
        *("--input", "3:b6/out: a b.txt", "--output", "0:end.txt"),
    )
    assert (use.label, use.inputs, use.outputs) == ("use", ("/b6/out: a b.txt", "unlisted.txt"), ("end.txt",))


def test_a_file_lies_in_the_run_directory() -> None:
    files = read(SMALL).files
    assert (files["/b6/out: a b.txt"].path, files["/b6/out: a b.txt"].size_b) == ("data/b6/out: a b.txt", 2001)
    assert (files["unlisted.txt"].path, files["unlisted.txt"].size_b) == ("data/unlisted.txt", None)


def test_scales() -> None:
    task = read(SMALL, timeScale="2", memoryScale=0.5, outputScale=0).dag["make_1"]
    assert options(task, "--seconds") == ["33.424"]
    assert options(task, "--memory") == ["7400000"]
    assert options(task, "--output") == ["0:b6/out: a b.txt"]


def test_scaled_whole_number_is_not_rounded_up() -> None:
    def resize(document: dict[str, Any]) -> None:
        files_of(document)[1]["sizeInBytes"] = 100

    assert options(read(changed(resize), outputScale=0.07).dag["make_1"], "--output") == ["7:b6/out: a b.txt"]


def test_amounts_are_capped_at_the_largest_integer() -> None:
    def enlarge(document: dict[str, Any]) -> None:
        executions_of(document)[0] |= {"runtimeInSeconds": 1e308, "memoryInBytes": 1e308}

    task = read(changed(enlarge), timeScale=1e308, memoryScale=1e308, outputScale=1e308).dag["make_1"]
    for option in ("--seconds", "--memory"):
        assert float(options(task, option)[0]) == pytest.approx(2**63)


def test_task_without_execution_takes_no_time() -> None:
    def forget(document: dict[str, Any]) -> None:
        del document["workflow"]["execution"]

    task = read(changed(forget)).dag["make_1"]
    assert (options(task, "--seconds"), options(task, "--cpu"), options(task, "--memory")) == (["0"], ["0"], [])


@pytest.mark.parametrize("kept", ["parents", "children"])
def test_edge_may_be_listed_at_one_end(kept: str) -> None:
    def forget(document: dict[str, Any]) -> None:
        for task in tasks_of(document):
            del task[{"parents": "children", "children": "parents"}[kept]]

    assert edges_of(read(changed(forget))) == {("make_1", "use_1")}


def test_byte_order_mark_is_ignored() -> None:
    assert len(read(b"\xef\xbb\xbf" + encode(SMALL)).dag) == 2


def test_replay_checks_only_inputs_made_by_ancestors() -> None:
    """A file that is updated along a chain, or that a stranger makes, may not be there when the task starts."""

    def rewrite(document: dict[str, Any]) -> None:
        document["workflow"] = {
            "specification": {
                "tasks": [
                    {"name": "t", "id": "a", "inputFiles": ["log"], "outputFiles": ["log", "from a"]},
                    {"name": "t", "id": "b", "parents": ["a"], "inputFiles": ["log"], "outputFiles": ["log"]},
                    {"name": "t", "id": "c", "parents": ["b"], "inputFiles": ["from a", "from d", "log", "log"]},
                    {"name": "t", "id": "d", "outputFiles": ["from d"]},
                ]
            }
        }

    dag = read(changed(rewrite)).dag
    assert {task.name: options(task, "--input") for task in dag} == {
        "a": [],
        "b": ["0:log"],
        "c": ["0:from a", "0:log"],
        "d": [],
    }


def test_a_long_command_goes_into_a_file() -> None:
    names = [f"out/{number:05}/{'x' * 50}" for number in range(2000)]

    def enlarge(document: dict[str, Any]) -> None:
        tasks_of(document)[1]["outputFiles"] = names

    graph = read(changed(enlarge))
    assert graph.dag["use_1"].command == ("python3", "-I", "-S", "replay.py", "@programs/replay/1.args")
    assert list(graph.programs) == ["programs/replay/1.args"]
    words = json.loads(graph.programs["programs/replay/1.args"])
    assert words[:2] == ["--name", "use_1"]
    assert [word for word in words if word.startswith("0:out/")] == [f"0:{name}" for name in names]


# ----------------------------------------------------------------------------------------------------------- bad input


def wrong(path: str, value: object) -> dict[str, Any]:
    """The small document with one value replaced; ``tasks[0]`` is written ``tasks.0``."""

    def put(document: dict[str, Any]) -> None:
        *way, last = path.split(".")
        place: Any = document
        for step in way:
            place = place[int(step) if isinstance(place, list) else step]
        place[int(last) if isinstance(place, list) else last] = value

    return changed(put)


TASKS = "workflow.specification.tasks"
FILES = "workflow.specification.files"
RECORDS = "workflow.execution.tasks"

BAD: dict[str, tuple[object, str]] = {
    "empty": (b" \n", "small.json: the file is empty"),
    "array": (b"[]", "small.json: the document: expected 'object', got 'array'"),
    "other version": (
        wrong("schemaVersion", "1.4"),
        "'schemaVersion' is \"1.4\"; Longshore reads WfFormat 1.5 and 1.6",
    ),
    "number as version": (wrong("schemaVersion", 1.5), "'schemaVersion' is 1.5; Longshore reads WfFormat 1.5 and 1.6"),
    "long version": (wrong("schemaVersion", "1" * 99), '"' + "1" * 39 + "..."),
    "no version": (
        b'{"name": "x"}',
        "there is no 'schemaVersion' in this document; Longshore reads WfFormat 1.5 and 1.6",
    ),
    "version before the rest": (b'{"schemaVersion": "1.4", "workflow": 1}', "'schemaVersion' is \"1.4\""),
    "cut short": (b'{"name":\n "x",\n', "small.json:2:6: the file is cut short"),
    "no JSON": (b'{"name": "x",\n  name}', "small.json:2:3: this is not JSON: object keys must be strings"),
    "column in characters": ('{"näme": "ü" x}'.encode(), "small.json:1:14: this is not JSON"),
    "more than JSON": (b"{}\n{}", "small.json:2:2: this is not JSON: trailing characters"),
    "not UTF-8": (b'{"name":\n "\xff"}', "small.json:2:3: this is not UTF-8"),
    "too deep": (b'{"schemaVersion": ' + b"[" * 100_000, "small.json: this is nested too deeply"),
    "no tasks": (wrong(TASKS, []), "'workflow.specification.tasks' is empty"),
    "no specification": (wrong("workflow", {}), "workflow: object missing required field 'specification'"),
    "wrong type": (wrong(f"{TASKS}.1.name", 3), "workflow.specification.tasks[1].name: expected 'str', got 'int'"),
    "empty id": (wrong(f"{TASKS}.1.id", ""), "workflow.specification.tasks[1].id: expected 'str' of length >= 1"),
    "NUL": (wrong(f"{TASKS}.0.name", "a\0"), "workflow.specification.tasks[0]: an id or name must not contain a NUL"),
    "same id": (
        wrong(f"{TASKS}.1.id", "make_1"),
        "workflow.specification.tasks[1]: 'make_1' is the id of workflow.specification.tasks[0] already",
    ),
    "parent nowhere": (
        wrong(f"{TASKS}.1.parents", ["make_1", "mak_1"]),
        "tasks[1].parents[1]: 'use_1' names the unknown task 'mak_1'\nDid you mean 'make_1'?",
    ),
    "child nowhere": (
        wrong(f"{TASKS}.0.children", ["elsewhere"]),
        "workflow.specification.tasks[0].children[0]: 'make_1' names the unknown task 'elsewhere'",
    ),
    "cycle": (wrong(f"{TASKS}.0.parents", ["use_1"]), "the graph has a cycle: 'use_1' -> 'make_1' -> 'use_1'"),
    "own parent": (wrong(f"{TASKS}.0.parents", ["make_1"]), "the graph has a cycle: 'make_1' -> 'make_1'"),
    "file twice": (
        wrong(f"{FILES}.2.id", "in.txt"),
        "workflow.specification.files[2]: the file 'in.txt' is listed twice",
    ),
    "negative size": (wrong(f"{FILES}.0.sizeInBytes", -1), "workflow.specification.files[0].sizeInBytes: expected"),
    "record of nothing": (
        wrong(f"{RECORDS}.1.id", "use_2"),
        "workflow.execution.tasks[1]: the task 'use_2' is not in the specification\nDid you mean 'use_1'?",
    ),
    "two records": (
        wrong(f"{RECORDS}.1.id", "make_1"),
        "workflow.execution.tasks[1]: the task 'make_1' was recorded twice",
    ),
    "number too large": (
        encode(SMALL).replace(b"16.712", b"1e999"),
        "workflow.execution.tasks[0].runtimeInSeconds: number out of range",
    ),
    "way out": (wrong(f"{TASKS}.0.outputFiles.0", "a/../b"), "the task 'make_1' has a file of the id 'a/../b'"),
    "no file": (wrong(f"{TASKS}.0.inputFiles.0", "./"), "the task 'make_1' has a file of the id './'"),
    "NUL in a file": (wrong(f"{TASKS}.0.inputFiles.0", "a\0"), "the task 'make_1' has a file of the id 'a\\x00'"),
    "same path": (
        wrong(f"{TASKS}.0.outputFiles", ["a//b", "/a/b"]),
        "the files 'a//b' and '/a/b' would both be 'data/a/b'",
    ),
    "file and folder": (
        wrong(f"{TASKS}.0.outputFiles", ["end.txt/x/y"]),
        "the file 'end.txt' is in the way of 'end.txt/x/y'",
    ),
}


@pytest.mark.parametrize(("document", "message"), BAD.values(), ids=BAD.keys())
def test_invalid_document_is_reported_with_its_place(document: object, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        read(document)
    text = str(caught.value)
    assert message in text
    assert text.startswith("small.json")
    assert text.count("\n") <= 1
    assert caught.value.exit_status == 7


def test_the_ring_is_kept() -> None:
    with pytest.raises(CycleError) as caught:
        read(wrong(f"{TASKS}.0.parents", ["use_1"]))
    assert caught.value.ring == ("use_1", "make_1", "use_1")


def test_cut_short_anywhere_is_a_graph_error() -> None:
    text = encode(SMALL)
    for end in range(len(text)):
        with pytest.raises(GraphError):
            read(text[:end])


@given(st.integers(0, len(encode(SMALL)) - 1), st.binary(min_size=1, max_size=3))
def test_damaged_anywhere_is_a_graph_error_or_another_graph(start: int, damage: bytes) -> None:
    text = encode(SMALL)
    with suppress(GraphError):
        read(text[:start] + damage + text[start + len(damage) :])


@pytest.mark.parametrize("key", ["timeScale", "memoryScale", "outputScale"])
@pytest.mark.parametrize("value", [-1, "fast", None, True, [1], float("nan"), float("inf"), 10**400], ids=repr)
def test_a_scale_is_a_number(key: str, value: YamlValue) -> None:
    with pytest.raises(ConfigError, match=rf"'replay\.{key}' must be a number, 0 or more"):
        read(SMALL, **{key: value})


def test_unknown_replay_key_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'replay\.timescale'\nDid you mean 'timeScale'\?"):
        read(SMALL, timescale=1)


# -------------------------------------------------------------------------------------------------------- random graphs

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)
file_names = st.text(string.ascii_letters + "-_./:# ", min_size=1, max_size=8)


@st.composite
def documents(draw: st.DrawFn) -> tuple[dict[str, Any], set[tuple[str, str]]]:
    """A valid document and its edges; each edge is told by its parent, its child, or both."""
    ids = draw(st.lists(names, min_size=1, max_size=8, unique=True))
    tasks: list[dict[str, Any]] = [{"name": draw(names), "id": each, "parents": [], "children": []} for each in ids]
    edges = set()
    for child in range(len(ids)):
        for parent in range(child):
            told = draw(st.sampled_from(["", "", "parent", "child", "both", "twice"]))
            if told in {"parent", "both", "twice"}:
                tasks[parent]["children"].append(ids[child])
            if told in {"child", "both", "twice"}:
                tasks[child]["parents"] += [ids[parent]] * (2 if told == "twice" else 1)
            if told:
                edges.add((ids[parent], ids[child]))
    document = {
        "name": draw(names),
        "schemaVersion": "1.5",
        "workflow": {"specification": {"tasks": draw(st.permutations(tasks))}},
    }
    return document, edges


@given(documents(), st.booleans())
def test_edges_of_any_valid_document_are_read_back(
    drawn: tuple[dict[str, Any], set[tuple[str, str]]], ascii_only: bool
) -> None:
    document, edges = drawn
    graph = read(json.dumps(document, ensure_ascii=ascii_only).encode())
    assert edges_of(graph) == edges
    assert [task.name for task in graph.dag.nodes] == [task["id"] for task in tasks_of(document)]
    assert [task.label for task in graph.dag.nodes] == [_kind(task["name"]) for task in tasks_of(document)]


def _kind(name: str) -> str:
    """A name without its number."""
    return re.sub(r"[-_.:#](ID)?[0-9]+$", "", name) or name


@given(st.lists(file_names, max_size=6))
def test_any_file_lies_below_the_root_or_is_refused(drawn: list[str]) -> None:
    document = wrong(f"{TASKS}.0", {"name": "t", "id": "make_1", "outputFiles": drawn})
    try:
        graph = read(document)
    except GraphError:
        return
    for name in drawn:
        path = Path(graph.files[name].path)
        assert path.parts[0] == "data"
        assert ".." not in path.parts
        assert len(path.parts) > 1


@given(documents(), st.data())
def test_checked_inputs_are_outputs_of_ancestors(
    drawn: tuple[dict[str, Any], set[tuple[str, str]]], data: st.DataObject
) -> None:
    document, edges = drawn
    some_files = st.lists(st.sampled_from("abcdef"), max_size=4)
    for each in tasks_of(document):
        each |= {"inputFiles": data.draw(some_files), "outputFiles": data.draw(some_files)}
    graph = read(document)
    order: nx.DiGraph[str] = nx.DiGraph(edges)
    order.add_nodes_from(graph.dag.index)
    for task in graph.dag.nodes:
        there = {name for ancestor in nx.ancestors(order, task.name) for name in graph.dag[ancestor].outputs}
        assert options(task, "--input") == [f"0:{name}" for name in task.inputs if name in there]


def test_inputs_from_far_above_are_checked_however_many_they_are() -> None:
    count = 5000
    tasks = [
        *({"name": "t", "id": f"make {number}", "outputFiles": [f"{number}"]} for number in range(count)),
        {"name": "t", "id": "join", "parents": [f"make {number}" for number in range(count)]},
        {"name": "t", "id": "use", "parents": ["join"], "inputFiles": [f"{number}" for number in range(count)]},
    ]
    graph = read({"name": "w", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": tasks}}})
    assert len(options(graph.dag["use"], "--input")) == count
