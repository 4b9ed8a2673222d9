"""`longshore config`: what it prints, for people and programs, and how it exits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from tests.conftest import Cli
from tests.e2e.conftest import WriteRun

from longshore.world.etc import shipped

BAD = "wmsServiceClass: local\nrequestMemroy: 5\nrequestCpus: two\nqueue: a\nqueue: b\n"


def check(kind: str, document: Any) -> None:
    """Hold a document to its schema."""
    schema = json.loads(shipped("etc", "schema", f"{kind}.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(document)


def write(folder: Path, text: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(text, "utf-8")
    return path


def test_lint_says_all_at_once_with_a_caret(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path, BAD)
    ran = cli("config", "lint", "run.yaml")
    assert ran.returncode == 3
    assert ran.stdout.splitlines() == [
        "run.yaml:2:16: warning: nothing knows the key 'requestMemroy'",
        "    requestMemroy: 5",
        "                   ^",
        "    Did you mean 'requestMemory'?",
        "run.yaml:3:14: error: 'requestCpus' cannot be 'two'",
        "    requestCpus: two",
        "                 ^",
        "    Processors of a job.",
        "run.yaml:5:1: error: the key 'queue' is given twice",
        "    queue: b",
        "    ^",
        "    It was given first at run.yaml:4:1; remove one of the two.",
        "run.yaml: 2 errors, 1 warning, 0 notes",
    ]


def test_lint_for_programs(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path, BAD)
    ran = cli("config", "lint", "run.yaml", "--format", "json")
    assert ran.returncode == 3
    check("lint", ran.json)
    assert (ran.json["ok"], ran.json["errors"], ran.json["warnings"]) == (False, 2, 1)
    assert ran.json["findings"][1]["source"] == "requestCpus: two"
    lines = cli("config", "lint", "run.yaml", "--format", "github").stdout.splitlines()
    assert lines[1] == "::error file=run.yaml,line=3,col=14::'requestCpus' cannot be 'two'. Processors of a job."


@pytest.mark.parametrize(("options", "status"), [((), 0), (("--strict",), 3)])
def test_warnings_count_when_asked(cli: Cli, tmp_path: Path, options: tuple[str, ...], status: int) -> None:
    write(tmp_path, "mine: 5\n")
    assert cli("config", "lint", "run.yaml", *options).returncode == status
    write(tmp_path, "wmsServiceClass: local\n")
    assert cli("config", "lint", "run.yaml", *options).returncode == 0


def test_no_secret_is_shown(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path, "password: hunter2\n")
    for shape in ("text", "json", "github"):
        assert "hunter2" not in cli("config", "lint", "run.yaml", "--format", shape).stdout


def test_explain(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path, "n: 7\nqueue: 'q{n:03}'\npipetask: {isr: {queue: '{label}{n}', requestCpus: 4}}\nrequestCpus: 2\n")
    document = cli("config", "explain", "run.yaml", "queue", "nope", "--json").json
    check("explain", document)
    assert document["kind"] == "explain"
    queue = document["values"]["queue"]
    assert (queue["found"], queue["value"]) == (True, "q007")
    assert queue["origin"] == {"file": "run.yaml", "line": 2, "column": 8, "layer": "file"}
    assert [step["kind"] for step in queue["steps"]] == ["written", "variable", "value"]
    assert (document["values"]["nope"]["found"], document["values"]["nope"]["value"]) == (False, "")
    options = ("--label", "isr", "--var", "label=isr", "--json")
    document = cli("config", "explain", "run.yaml", "queue", "requestCpus", *options).json
    assert document["values"]["queue"]["value"] == "isr7"
    cpus = document["values"]["requestCpus"]
    assert cpus["value"] == 4
    assert [(each["value"], each["section"]) for each in cpus["hides"]] == [(2, "root")]


def test_explain_knows_what_was_overridden(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "weak.yaml").write_text("numberOfRetries: 3\n", "utf-8")
    write(tmp_path, "includeConfigs: weak.yaml\nnumberOfRetries: 2\n")
    value = cli("config", "explain", "run.yaml", "numberOfRetries", "--json").json["values"]["numberOfRetries"]
    assert [(each["value"], each["origin"]["layer"]) for each in value["overrode"]] == [(3, "file"), (5, "defaults")]
    text = cli("config", "explain", "run.yaml", "numberOfRetries").stdout
    assert text.splitlines()[:3] == [
        "numberOfRetries: 2",
        "  from run.yaml:2:18 (file)",
        "  overrode 3 from weak.yaml:1:18 (file)",
    ]


def test_explain_answers_for_every_key_of_the_defaults(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path, "wmsServiceClass: local\n")
    defaults = yaml.safe_load(shipped("etc", "defaults.yaml").read_text("utf-8"))
    keys = [*defaults, *defaults["payload"]]
    values = cli("config", "explain", "run.yaml", *keys, "--json").json["values"]
    assert [key for key in keys if not values[key]["found"]] == []


def test_show(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path, "mine: {a: [1, 'x: y'], b: \"two\\nlines\", c: {}, d: null}\n")
    shown = cli("config", "show", "run.yaml").stdout
    assert yaml.safe_load(shown)["mine"] == {"a": [1, "x: y"], "b": "two\nlines", "c": {}, "d": None}
    with_origins = cli("config", "show", "run.yaml", "--origins").stdout
    assert "  d: null  # run.yaml:1:51 (file)" in with_origins.splitlines()
    assert yaml.safe_load(with_origins)["mine"] == yaml.safe_load(shown)["mine"]
    document = cli("config", "show", "run.yaml", "--origins", "--json").json
    check("config_show", document)
    assert document["values"]["mine"]["a"] == [1, "x: y"]
    assert {
        "path": ["mine", "d"],
        "origin": {"file": "run.yaml", "line": 1, "column": 51, "layer": "file"},
    } in document["origins"]


def test_schema(cli: Cli) -> None:
    schema = cli("config", "schema").json
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)


def test_a_submission_lints_first(cli: Cli, write_run: WriteRun) -> None:
    ran = cli("submit", write_run("queue: a\nqueue: b\nrequestCpus: two\n").name)
    assert ran.returncode == 3
    assert "given twice (and 1 more error: longshore config lint)" in ran.stderr
    ran = cli("transform", write_run("runQuantumCommand: 'true'\nnumberOfRetries: 010\n").name)
    assert ran.returncode == 0
    assert ran.stderr.count("'010' is 8") == 1
