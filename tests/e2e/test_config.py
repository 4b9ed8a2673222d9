"""`longshore config`: what it prints, for people and programs, and how it exits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from tests.command import Cli
from tests.config.documented_keys import ALL_FILES, documented, file_of
from tests.workflows import WriteRun

from longshore.cli import config
from longshore.cli.submit import submit_command as submit
from longshore.config.interpolate import Scope
from longshore.config.merge import LayerRank, make_layer
from longshore.config.plugins import shipped_path
from longshore.plan.configuration import read_draft

BAD = "wmsServiceClass: local\nrequestMemroy: 5\nrequestCpus: two\ncategory: a\ncategory: b\n"
TASK = "pipeline: {tasks: {isr: {command: 'true'}}}\n"


def check(kind: str, document: Any) -> None:
    """Hold a document to its schema."""
    schema = json.loads(shipped_path("etc", "schema", f"{kind}.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(document)


def write(folder: Path, text: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(text, "utf-8")
    return path


def test_lint_says_all_at_once_with_a_caret(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path, BAD + TASK)
    ran = cli("config", "lint", "run.yaml")
    assert ran.returncode == 3
    assert ran.stdout.splitlines() == [
        "run.yaml:2:1: warning: nothing knows the key 'requestMemroy'",
        "    requestMemroy: 5",
        "    ^",
        "    Did you mean 'requestMemory'?",
        "run.yaml:3:14: error: 'requestCpus' cannot be 'two'",
        "    requestCpus: two",
        "                 ^",
        "    Processors of a job.",
        "run.yaml:5:1: error: the key 'category' is given twice",
        "    category: b",
        "    ^",
        "    It was given first at run.yaml:4:1; remove one of the two.",
        "run.yaml: 2 errors, 1 warning, 0 notes",
    ]


def test_lint_of_what_stands_in_no_file(cli: Cli, tmp_path: Path) -> None:
    """Of options and of the environment, too, every misspelling is told, with the name of the layer for a place."""
    write(tmp_path, "wmsServiceClass: local\npipeline: {tasks: {isr: {command: 'echo {mine}'}}}\n")
    pairs = ("requestMemroy=5", "foo=2", "mine=1", "pipetask.isr.requestCPUS=2", "pipetask.isr.requestMemory=lots")
    sets = [word for pair in pairs for word in ("--set", pair)]
    env = {"LONGSHORE_REQUEST_MEMROY": "3", "LONGSHORE_SITE": "{local: {concurrency_limit: x, queues: y}}"}
    ran = cli("config", "lint", "run.yaml", *sets, env=env)
    assert sorted(line for line in ran.stdout.splitlines() if not line.startswith(" ")) == [
        "$LONGSHORE_REQUEST_MEMROY: warning: the environment variable 'LONGSHORE_REQUEST_MEMROY' is unknown",
        "$LONGSHORE_SITE: warning: 'site.local.concurrency_limit' is read as 'site.local.concurrencyLimit'",
        "$LONGSHORE_SITE: warning: nothing knows the key 'site.local.queues'",
        "--set: error: 'pipetask.isr.requestMemory' cannot be 'lots'",
        "--set: warning: nothing knows the key 'pipetask.isr.requestCPUS'",
        "--set: warning: nothing knows the key 'requestMemroy'",
        "--set: warning: nothing uses 'foo'",
        "run.yaml: 1 error, 6 warnings, 0 notes",
    ]
    ran = cli("config", "lint", "run.yaml", "--set", "requestMemroy=5", "--set", "mine=1", "--format", "github")
    assert ran.stdout == "::warning::--set: nothing knows the key 'requestMemroy'. Did you mean 'requestMemory'?\n"


def test_lint_goes_on_behind_a_site_that_is_not_there(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path, "requestMemroy: 5\ncomputeSite: nowhere\nqueue: '{nope}'\n")
    found = cli("config", "lint", "run.yaml", "--json").json["findings"]
    assert [(each["origin"]["line"], each["severity"]) for each in found] == [
        (1, "warning"),
        (2, "error"),
        (3, "warning"),
    ]
    found = cli("config", "lint", "run.yaml", "--set", "sitePath=nodir", "--json").json["findings"]
    assert [each["message"] for each in found if each["severity"] == "error"] == [
        "there is no site 'nowhere'",
        "'sitePath' names 'nodir', which is no directory",
    ]


def test_sites_of_tasks(cli: Cli, tmp_path: Path) -> None:
    text = (
        "wmsServiceClass: local\nsite: {mine: {queue: x}}\npipeline: {tasks: {isr: {command: 'true'}}}\n"
        "cluster: {isr: {computeSite: nope}}\nfinalJob: {computeSite: local, command1: 'true'}\n"
        "pipetask:\n  isr: {computeSite: mine}\n  other: {computeSite: nowhere}\n"
    )
    write(tmp_path, text)
    lines = cli("config", "lint", "run.yaml").stdout.splitlines()
    assert [line for line in lines if line.startswith("run.yaml:")] == [
        "run.yaml:4:30: error: there is no site 'nope'",
        "run.yaml:8:3: warning: 'pipetask.other' matches nothing: no task has the label 'other'",
        "run.yaml: 1 error, 1 warning, 0 notes",
    ]


def test_lint_for_programs(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path, BAD + TASK)
    ran = cli("config", "lint", "run.yaml", "--format", "json")
    assert ran.returncode == 3
    check("lint", ran.json)
    assert (ran.json["ok"], ran.json["errors"], ran.json["warnings"]) == (False, 2, 1)
    assert ran.json["findings"][1]["source"] == "requestCpus: two"
    assert ran.json["left_out"] == []
    lines = cli("config", "lint", "run.yaml", "--format", "github").stdout.splitlines()
    assert lines[1] == "::error file=run.yaml,line=3,col=14::'requestCpus' cannot be 'two'. Processors of a job."


@pytest.mark.parametrize(("options", "status"), [((), 0), (("--strict",), 3)])
def test_warnings_count_when_asked(cli: Cli, tmp_path: Path, options: tuple[str, ...], status: int) -> None:
    write(tmp_path, f"mine: 5\n{TASK}")
    assert cli("config", "lint", "run.yaml", *options).returncode == status
    write(tmp_path, f"wmsServiceClass: local\n{TASK}")
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


def test_explain_knows_what_was_overridden(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LONGSHORE_NUMBER_OF_RETRIES")
    (tmp_path / "weak.yaml").write_text("numberOfRetries: 3\n", "utf-8")
    write(tmp_path, "includeConfigs: weak.yaml\nnumberOfRetries: 2\n")
    value = cli("config", "explain", "run.yaml", "numberOfRetries", "--json").json["values"]["numberOfRetries"]
    assert [(each["value"], each["origin"]["layer"]) for each in value["overrode"]] == [(3, "file"), (0, "defaults")]
    text = cli("config", "explain", "run.yaml", "numberOfRetries").stdout
    assert text.splitlines()[:3] == [
        "numberOfRetries: 2",
        "  from run.yaml:2:18 (file)",
        "  overrode 3 from weak.yaml:1:18 (file)",
    ]


def test_explain_goes_on_behind_what_cannot_be_worked_out(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path, "a: 'x{b}'\nb: '{queue}{a}'\nqueue: q\nc: '{queue:d}'\n")
    ran = cli("config", "explain", "run.yaml", "a", "queue", "c", "nope")
    assert ran.returncode == 3
    *lines, listed = ran.stdout.splitlines()
    assert lines == [
        "a: cannot be worked out",
        "  error: run.yaml:1:4: a value is defined by itself: 'a' -> 'b' -> 'a'",
        "  from run.yaml:1:4 (file)",
        '  written "x{b}"',
        '    written "{queue}{a}"',
        '      {queue} is "q", from run.yaml:3:8 (file)',
        '      written "x{b}"',
        'queue: "q"',
        "  from run.yaml:3:8 (file)",
        "c: cannot be worked out",
        "  error: run.yaml:4:4: '{queue:d}' cannot write the value 'q': 'd' is not a format for it",
        "    If no variable is meant, double the braces: '{{queue:d}}'.",
        "  from run.yaml:4:4 (file)",
        '  written "{queue:d}"',
        '    {queue} is "q", from run.yaml:3:8 (file)',
        "nope: not found",
        "  error: nothing defines 'nope', and Longshore has no key of that name",
    ]
    assert listed == "    All keys: longshore config schema"
    ran = cli("config", "explain", "run.yaml", "requestMemroy", "memoryLimit")
    assert ran.returncode == 3
    assert "    Did you mean 'requestMemory'?" in ran.stdout.splitlines()
    assert ran.stdout.endswith("memoryLimit: not set\n")
    ran = cli("config", "explain", "run.yaml", "a", "queue", "--json")
    assert ran.returncode == 3
    check("explain", ran.json)
    ring, queue = ran.json["values"]["a"], ran.json["values"]["queue"]
    assert (ring["found"], ring["value"], ring["written"]) == (True, None, "x{b}")
    assert ring["error"] == {
        "code": "reference_ring",
        "message": "a value is defined by itself: 'a' -> 'b' -> 'a'",
        "origin": {"file": "run.yaml", "line": 1, "column": 4, "layer": "file"},
        "hint": "",
        "exit_status": 3,
    }
    assert queue == {
        "found": True,
        "value": "q",
        "default": None,
        "origin": {"file": "run.yaml", "line": 3, "column": 8, "layer": "file"},
        "written": "q",
        "overrode": [],
        "hides": [],
        "steps": [
            {"kind": "written", "depth": 0, "name": "queue", "text": "q", "origin": queue["origin"]},
            {"kind": "value", "depth": 0, "name": "queue", "text": "q", "origin": None},
        ],
    }


@pytest.mark.parametrize("name", ALL_FILES)
def test_explain_answers_for_every_key_of_what_is_shipped(
    name: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for keys that have no default and so are commented out; the answer is that of a search."""
    file = file_of(name)
    include = "" if name == "defaults.yaml" else f"includeConfigs: {file}\n"
    write(tmp_path, f"wmsServiceClass: local\n{include}")
    given = yaml.safe_load(file.read_text("utf-8")) or {}
    keys = {place[-1] if len(place) < 2 else f".{'.'.join(place)}" for place in places(given)}
    keys |= {place[-1] for place, _, _ in documented(name)} | {place[-1] for place in places(given)}
    ran = cli("config", "explain", "run.yaml", *sorted(keys), "--json") if keys else None
    values = ran.json["values"] if ran else {}
    assert set(values) == keys
    monkeypatch.chdir(tmp_path)
    configuration = read_draft(Path("run.yaml"), now=0)
    moment = configuration.text("timestamp")
    run_name = {"bps_defined": {"uniqProcName": configuration.text("outputRun").replace("/", "_")}}
    named = configuration.with_top_layer(make_layer(run_name, "computed", LayerRank.DEFAULTS))
    for key in keys:
        searched = named.config.search(key, Scope(env=configuration.env))
        assert values[key]["found"] == searched.is_found, key
        shown = json.dumps(values[key]["value"])
        assert re.sub(r"\d{8}T\d{6}Z", moment, shown) == json.dumps(searched.value), key
        assert bool(values[key]["origin"]) == searched.is_found
    assert all(values[key]["found"] for key in keys if key.startswith(".") or key in given)


def places(value: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The keys that lead to each value."""
    for key, below in value.items() if isinstance(value, dict) else ():
        yield (*place, key)
        yield from places(below, (*place, key))


OPTIONS = (
    ("-b", "repo", "butlerConfig", "repo"),
    ("-i", "a,b", "inCollection", "a,b"),
    ("-o", "u/me", "output", "u/me"),
    ("--output-run", "u/me/1", "outputRun", "u/me/1"),
    ("-d", "visit = 1", "dataQuery", "visit = 1"),
    ("-p", "p.yaml", "pipelineYaml", "p.yaml"),
    ("-g", "g.qg", "qgraphFile", "g.qg"),
    ("--extra-qgraph-options", "x", "extraQgraphOptions", "x"),
    ("--extra-update-qgraph-options", "x", "extraUpdateQgraphOptions", "x"),
    ("--extra-init-options", "x", "extraInitOptions", "x"),
    ("--extra-run-quantum-options", "x", "extraRunQuantumOptions", "x"),
    ("--wms-service-class", "local", "wmsServiceClass", "local"),
    ("--compute-site", "campus", "computeSite", "campus"),
    ("--site-path", "sites", "sitePath", "sites"),
    ("--id-link-path", "links", "idLinkPath", "links"),
    ("--set", "queue=long", "queue", "long"),
)


def test_options_mean_what_they_mean_to_submit(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path, "payload: {output: file}\nqueue: short\n")
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites/campus.yaml").write_text("service: local\nproject: from the profile\n", "utf-8")
    words = ["run.yaml", "--make-id-link", *(word for option, value, _, _ in OPTIONS for word in (option, value))]
    expected = {key: value for _, _, key, value in OPTIONS} | {"makeIdLink": True, "project": "from the profile"}
    values = cli("config", "explain", *words, *expected, "--json").json["values"]
    assert {key: value["value"] for key, value in values.items()} == expected
    shown = cli("config", "show", *words, "--json").json["values"]
    assert shown["bps_cmdline"]["queue"] == "long"
    assert shown["project"] == "from the profile"
    (tmp_path / "g.qg").touch()
    ran = cli("config", "lint", *words)
    assert "0 errors" in ran.stdout
    ran = cli("config", "lint", "run.yaml", "--compute-site", "campus")
    assert "command line: error: there is no site 'campus'" in ran.stdout


def test_the_commands_have_every_option_of_submit() -> None:
    of_submission = {"wait", "as_json", "force", "strict", "reuse", "by_content", "dry_run", "with_probe"}
    of_submission.add("share_outputs")
    names = {option.name for option in submit.params} - of_submission
    for command in (config.show, config.explain, config.lint):
        assert names <= {option.name for option in command.params}


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
    assert "given twice (and 1 more error: longshore config lint run.yaml)" in ran.stderr
    ran = cli("transform", write_run("runQuantumCommand: 'true'\nrequestMemry: 10\n").name)
    assert ran.returncode == 0
    assert ran.stderr.count("Did you mean 'requestMemory'?") == 1


BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30))]
)
UNREADABLE = {
    "utf-16": ("queue: a\n".encode("utf-16"), r"run\.yaml:1:1", "the file is not UTF-8 text"),
    "binary": (bytes(range(256)), r"run\.yaml:1:1", "the file is not UTF-8 text"),
    "tabs": (b"a:\n\tb: 1\n", r"run\.yaml:2:1", "this is not YAML"),
    "deep": (b"a: " + b"[" * 100_000, r"run\.yaml:1:\d+", "nested more than 100 deep"),
    "aliases": (BOMB.encode(), r"run\.yaml:\d+:\d+", "more than 500,000 values"),
    "object": (
        b"a: !!python/object/apply:os.system [x]\n",
        r"run\.yaml:1:4",
        "the tag '!!python/object/apply:os.system'",
    ),
    "missing include": (
        b"includeConfigs: deep.yaml\n",
        r"deep\.yaml:3:21",
        "the included file 'nix.yaml' does not exist",
    ),
    "ring": (
        b"site: {includeConfigs: [ring.yaml]}\n",
        r"ring\.yaml:1:17",
        "includes itself: 'run.yaml' -> 'ring.yaml'",
    ),
    "list": (b"- a\n", r"run\.yaml:1:1", "must hold keys"),
}


@pytest.mark.parametrize(("content", "place", "message"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_said_with_its_place(
    content: bytes, place: str, message: str, cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "run.yaml").write_bytes(content)
    (tmp_path / "deep.yaml").write_text("site:\n  local:\n    includeConfigs: nix.yaml\n", "utf-8")
    (tmp_path / "ring.yaml").write_text("includeConfigs: run.yaml\n", "utf-8")
    for words in (("show", "run.yaml"), ("explain", "run.yaml", "queue")):
        ran = cli("config", *words)
        assert ran.returncode == 3
        assert re.match(f"longshore: error: {place}: .*{re.escape(message)}", ran.stderr)
        assert len(ran.said) <= 2
    found = cli("config", "lint", "run.yaml", "--json")
    assert found.returncode == 3
    check("lint", found.json)
    (finding,) = found.json["findings"]
    assert message in finding["message"]
    line = cli("config", "lint", "run.yaml", "--format", "github").stdout
    assert re.match(r"::error file=\w+\.yaml,line=\d+,col=\d+::", line)
    assert len(line.splitlines()) == 1


def test_a_thousand_includes(cli: Cli, tmp_path: Path) -> None:
    for number in range(1000):
        (tmp_path / f"f{number}.yaml").write_text(f"queue: q{number}\nmine{number}: '{{queue}}'\n", "utf-8")
    names = ", ".join(f"f{number}.yaml" for number in range(1000))
    write(tmp_path, f"wmsServiceClass: local\nincludeConfigs: [{names}]\n{TASK}")
    value = cli("config", "explain", "run.yaml", "queue", "--json").json["values"]["queue"]
    assert value["value"] == "q999"
    assert len(value["overrode"]) == 999
    findings = cli("config", "lint", "run.yaml", "--json").json["findings"]
    # In the order of the files, as they are read.
    assert [each["origin"]["file"] for each in findings] == [f"f{number}.yaml" for number in range(1000)]
    assert {each["origin"]["column"] for each in findings} == {1}


def test_a_file_for_htcondor_that_names_no_service_gets_one_warning(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path, "payload: {butlerConfig: r, inCollection: c}\nnodeset: x\nfinalJob: {concurrency_limit: db}\n")
    said = [each["message"] for each in cli("config", "lint", "run.yaml", "--json").json["findings"]]
    assert sum("BPS would use HTCondor here" in each for each in said) == 1
    for words in (("--wms-service-class", "local"), ("--set", "wmsServiceClass=local")):
        found = cli("config", "lint", "run.yaml", *words, "--json").json["findings"]
        assert not any("HTCondor" in each["message"] for each in found), words
