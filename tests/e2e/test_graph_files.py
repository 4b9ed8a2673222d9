"""A payload is read by the source that is named, or that its key or file tells; a graph file runs as what it is of."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.command import Cli

import longshore
from longshore.errors import Origin
from longshore.graphs.graph_file import read_graph_file

CONFIGURATION, PREPARATION = 3, 7
ODD = 'it\'s "$HOME" `id` {visit} <ENV:HOME> \\ \t*\n%s'
PIPELINE = {
    "dimensions": {"visit": [1, 2], "name": [ODD, "b"]},
    "datasets": {"said": "out/{visit}.txt"},
    "tasks": {
        "say": {"dimensions": ["visit", "name"], "command": ["printf", "%s|%s\n", "{visit}", "{name}"]},
        "count": {"dimensions": ["visit"], "command": "echo {visit} > {said}", "outputs": ["said"], "after": ["say"]},
        "add": {"command": ["cat", "{said}"], "inputs": ["said"]},
    },
}

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a configuration."""

    def made(**values: object) -> str:
        (tmp_path / "run.yaml").write_text(json.dumps({"payload": {"payloadName": "p"}, **values}), "utf-8")
        return "run.yaml"

    return made


def logs(folder: Path) -> dict[str, str]:
    """What each job said, per name."""
    return {path.name.split(".")[0]: path.read_text("utf-8") for path in folder.rglob("logs/*/*/*.log")}


@pytest.mark.parametrize("name", ["tasks.jsonl", "tasks.jsonl.gz"])
def test_the_tasks_of_a_pipeline_are_written_and_run(cli: Cli, write: Write, tmp_path: Path, name: str) -> None:
    saved = cli("acquire", write(pipeline=PIPELINE), "--save-graph", name)
    assert saved.returncode == 0, saved.stderr
    assert f"acquire: 7 tasks of 3 labels, 6 edges, 2 files; wrote '{name}'" in saved.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.yaml", name]
    ran = cli("submit", write(graphFile=name), "--wait", "--json")
    assert ran.returncode == 0, ran.stderr
    run = Path(str(ran.json["submit_dir"]))
    assert (run / "inputs" / name).read_bytes() == (tmp_path / name).read_bytes()
    said = logs(run)
    assert said["add"] == "1\n2\n"
    assert {text for job, text in said.items() if job.startswith("say_1")} == {f"1|{ODD}\n", "1|b\n"}
    again = cli("acquire", "run.yaml", "--save-graph", f"again-{name}")
    assert again.returncode == 0
    assert (tmp_path / f"again-{name}").read_bytes() == (tmp_path / name).read_bytes()


def test_recorded_tasks_are_written_and_run(cli: Cli, write: Write, tmp_path: Path) -> None:
    tasks = [
        {"name": "a", "id": "a", "parents": [], "children": [], "inputFiles": [], "outputFiles": ["f"]},
        {"name": "b", "id": "b", "parents": ["a"], "children": [], "inputFiles": ["f"], "outputFiles": []},
    ]
    specification = {"tasks": tasks, "files": [{"id": "f", "sizeInBytes": 3}]}
    document = {"name": "w", "schemaVersion": "1.5", "workflow": {"specification": specification}}
    (tmp_path / "w.json").write_text(json.dumps(document), "utf-8")
    saved = cli("acquire", write(graphFile="w.json"), "--save-graph", "tasks.jsonl")
    assert saved.returncode == 0, saved.stderr
    ran = cli("submit", write(graphFile="tasks.jsonl"), "--wait")
    assert ran.returncode == 0, ran.stderr


def test_it_can_be_drawn(cli: Cli, write: Write, tmp_path: Path) -> None:
    (tmp_path / "g.jsonl").write_text(
        '{"kind":"longshore-graph","version":1,"tasks":2}\n'
        '{"name":"a","label":"x","command":"true"}\n{"name":"b","label":"y","command":"true","parents":[0]}\n',
        "utf-8",
    )
    drawn = cli("draw", write(graphFile="g.jsonl"), "--format", "mermaid")
    assert drawn.returncode == 0, drawn.stderr
    assert "x" in drawn.stdout
    assert "-->" in drawn.stdout


def test_a_command_of_a_label_may_use_the_configuration(cli: Cli, write: Write, tmp_path: Path) -> None:
    (tmp_path / "g.jsonl").write_text(
        '{"kind":"longshore-graph","version":1,"tasks":2,"commands":{"x":"echo {greeting} {n}"},'
        '"values":{"greeting":"hello"}}\n'
        '{"name":"a","label":"x","data_id":{"n":1}}\n{"name":"b","label":"x","data_id":{"n":"2"}}\n',
        "utf-8",
    )
    ran = cli("submit", write(graphFile="g.jsonl"), "--wait", "--json")
    assert ran.returncode == 0, ran.stderr
    assert logs(Path(str(ran.json["submit_dir"]))) == {"a": "hello 1\n", "b": "hello 2\n"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "g.jsonl:1:1: the file is empty"),
        (b'{"kind":"longshore-graph","version":7,"tasks":1}\n', "g.jsonl:1:1: this graph file has version 7; this"),
        (b'{"kind":"longshore-graph","version":1,"tasks":2}\n{"name":"a","label":"x"}\n', "it has 1 of its 2 tasks"),
        (
            gzip.compress(b'{"kind":"longshore-graph","version":1,"tasks":2}\n', mtime=0)[:-5],
            "the packed file is damaged",
        ),
    ],
)
def test_a_wrong_file_is_refused_and_nothing_left(
    cli: Cli, write: Write, tmp_path: Path, text: bytes, said: str
) -> None:
    (tmp_path / "g.jsonl").write_bytes(text)
    ran = cli("submit", write(graphFile="g.jsonl"))
    assert ran.returncode == PREPARATION
    assert said in ran.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g.jsonl", "run.yaml"]


SOURCE = """
from longshore.model.tasks import Dag
from longshore.model.tasks import Task, TaskGraph

def lines(payload):
    words = payload.path.read_text().split() if payload.path else [payload.values['word']]
    tasks = [Task(name=word, label='say', command=('echo', word)) for word in words]
    return TaskGraph(name=payload.name, dag=Dag(tasks))

def lost(payload):
    return TaskGraph(name='g', dag=Dag([Task(name='a', label='x', inputs=('f',))], ()))

def twice(payload):
    return TaskGraph(name='g', dag=Dag([Task(name='a', label='x'), Task(name='a', label='x')], ()))

def fails(payload):
    raise OSError('no disk')

def odd(payload):
    return 5
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The environment in which a package with sources is installed."""
    package = tmp_path / "site"
    (package / "mine-1.dist-info").mkdir(parents=True)
    (package / "mine.py").write_text(SOURCE, "utf-8")
    (package / "mine-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n", "utf-8")
    (package / "mine-1.dist-info" / "entry_points.txt").write_text("[longshore.graphs]\nwords = mine:lines\n", "utf-8")
    return {"PYTHONPATH": os.pathsep.join([str(package), str(Path(longshore.__file__).parents[1])])}


@pytest.mark.parametrize("name", ["words", "mine.lines"])
def test_a_source_of_another_package(cli: Cli, write: Write, tmp_path: Path, env: dict[str, str], name: str) -> None:
    (tmp_path / "w.txt").write_text("one two", "utf-8")
    ran = cli("submit", write(graphSource=name, graphFile="w.txt"), "--wait", "--json", env=env)
    assert ran.returncode == 0, ran.stderr
    run = Path(str(ran.json["submit_dir"]))
    assert logs(run) == {"one": "one\n", "two": "two\n"}
    assert (run / "inputs" / "w.txt").read_text("utf-8") == "one two"


def test_a_source_may_need_no_file(cli: Cli, write: Write, tmp_path: Path, env: dict[str, str]) -> None:
    made = cli("acquire", write(graphSource="words", word="hello"), "--save-graph", "g.jsonl", env=env)
    assert made.returncode == 0, made.stderr
    with (tmp_path / "g.jsonl").open("rb") as lines:
        graph = read_graph_file(lines, Origin("g.jsonl")).graph
    assert (graph.name, [task.command for task in graph.dag]) == ("p", [("echo", "hello")])


@pytest.mark.parametrize(
    ("values", "status", "said"),
    [
        ({"graphSource": "wrods"}, CONFIGURATION, "there is no source 'wrods'\nDid you mean 'words'?"),
        (
            {"graphSource": "zzz"},
            CONFIGURATION,
            "There are 'pipeline', 'wfformat', 'quantum_graph', 'graph_file', 'words'. A dotted name leads to others.",
        ),
        ({"graphSource": "mine.none"}, CONFIGURATION, "the source 'mine.none' cannot be imported"),
        ({"graphSource": "mine.fails"}, CONFIGURATION, "'mine.fails' fails: OSError: no disk"),
        ({"graphSource": "mine.odd"}, CONFIGURATION, "'mine.odd' returns a int, and no TaskGraph"),
        ({"graphSource": "mine.lost"}, PREPARATION, "the task 'a' of the source 'mine.lost' names the file 'f', which"),
        ({"graphSource": "mine.twice"}, PREPARATION, "run.yaml:1:50: two nodes are named 'a'"),
        ({"graphSource": "mine.lines", "allowFunctions": False}, CONFIGURATION, "which 'allowFunctions' forbids"),
        ({"graphSource": "pipeline"}, CONFIGURATION, "the source 'pipeline' reads a file, and none is named"),
        ({"graphFile": "run.txt"}, CONFIGURATION, "the name 'run.txt' does not tell the format of the file"),
        ({"graphFile": "none.jsonl"}, PREPARATION, "'graphFile' names the file 'none.jsonl', which does not exist"),
        (
            {"graphFile": "a.jsonl", "wfformat": "b.json"},
            CONFIGURATION,
            "more than one payload is named: 'graphFile' and 'wfformat'",
        ),
        (
            {"graphSource": "words", "wfformat": "b.json"},
            CONFIGURATION,
            "more than one payload is named: 'wfformat' and 'graphSource'",
        ),
    ],
)
def test_what_is_wrong_is_told_with_what_there_is(
    cli: Cli, write: Write, env: dict[str, str], values: dict[str, object], status: int, said: str
) -> None:
    ran = cli("acquire", write(**values), env=env)
    assert said in ran.stderr.replace("\nlongshore: ", "\n").replace("\n  ", "\n")
    assert ran.returncode == status


def test_the_ending_of_a_name_tells_the_source(cli: Cli, write: Write, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_bytes(msgspec.json.encode(PIPELINE))
    found = cli("acquire", write(graphFile="p.yaml#say"))
    assert found.returncode == 0, found.stderr
    assert "4 tasks of 1 label," in found.stdout
    (tmp_path / "p").write_bytes(msgspec.json.encode(PIPELINE))
    assert "7 tasks of 3 labels" in cli("acquire", write(graphFile="p", graphSource="pipeline")).stdout
