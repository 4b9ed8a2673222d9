"""`bpsGenerateConfig`: a function's answer is merged over its section, with an origin, when a run is prepared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.command import Cli
from tests.workflows import ONE, wfformat

from longshore.config.interpolate import Scope
from longshore.config.layers import Overrides
from longshore.config.schema import Finding
from longshore.errors import ConfigError
from longshore.plan.configuration import ResolvedConfiguration, read_draft
from longshore.plan.lint import check_configuration
from longshore.plan.resolved_run import generate, resolve_configuration

MODULE = """
import pathlib

def same(**values):
    print("to nobody's output")
    return values

def sized(n, tag="x", **more):
    return {"requestMemory": n * 1000, "queue": tag, **more}

def nested():
    return {"pipetask": {"A": {"requestCpus": 2}}, "list": [1, (2, None)], "many": 2, "a": {"b": {"c": 1.5}}}

def nothing():
    return None

def odd():
    return {"a": [{"where": pathlib.Path("/x")}]}

def numbered():
    return {1: 2}

def again():
    return {"a": {"bpsGenerateConfig": "generating.nested()"}}

def deep():
    value = {}
    value["a"] = value
    return value

def torn():
    return {"queue": "\\ud800"}

def fails():
    raise RuntimeError("no such luck")
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of functions on the path."""
    (tmp_path / "generating.py").write_text(MODULE, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)


def generated(text: str, *sets: str) -> tuple[ResolvedConfiguration, list[Finding]]:
    Path("run.yaml").write_text(text, "utf-8")
    draft = read_draft(Path("run.yaml"), Overrides(sets=sets), now=0)
    draft, warnings = generate(draft, check_configuration(draft))
    return resolve_configuration(draft), warnings


def written(text: str) -> Path:
    """A run of one task."""
    Path("graph.json").write_text(json.dumps(wfformat(ONE)), "utf-8")
    Path("run.yaml").write_text(f"wfformat: graph.json\n{text}", "utf-8")
    return Path("run.yaml")


def test_at_the_root(capsys: pytest.CaptureFixture[str]) -> None:
    configuration, _ = generated(
        "queue: mine\nn: 3\nbpsGenerateConfig: generating.sized({n}, tag='{operator}')\noperator: me"
    )
    assert (configuration.search("requestMemory"), configuration.text("queue")) == (3000, "me")
    assert configuration.config.node_at("bpsGenerateConfig") is None
    assert str(configuration.origin("queue")) == "run.yaml:3:20"
    origin = configuration.origin("queue")
    assert origin
    assert origin.layer == "bpsGenerateConfig generating.sized()"
    written = configuration.config.node_at("queue")
    assert written
    assert written.replaced_node
    assert written.replaced_node.value == "mine"
    generated("bpsGenerateConfig: generating.same(queue='q')")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "to nobody's output" in captured.err


def test_in_a_section_whose_values_fill_in_the_arguments() -> None:
    text = """
        n: 1
        pipetask:
            A: {n: 5, requestDisk: 7, bpsGenerateConfig: 'generating.sized({n}, tag="{name}")', name: "it's"}
            B: {bpsGenerateConfig: 'generating.sized({n})'}
    """
    configuration, _ = generated(text)
    config = configuration.config
    assert config.search("requestMemory", Scope(current={"curr_pipetask": "A"})).value == 5000
    assert config.search("queue", Scope(current={"curr_pipetask": "A"})).value == "it's"
    assert config.search("requestDisk", Scope(current={"curr_pipetask": "A"})).value == 7
    assert config.search("requestMemory", Scope(current={"curr_pipetask": "B"})).value == 1000
    assert config.node_at("pipetask", "A", "bpsGenerateConfig") is None


def test_maps_are_merged_and_what_is_called_first_counts_for_the_next() -> None:
    text = """
        bpsGenerateConfig: generating.nested()
        pipetask: {A: {queue: q}, B: {bpsGenerateConfig: 'generating.sized(len)'}}
    """
    with pytest.raises(ConfigError, match="are no literals"):
        generated(text)
    text = text.replace("(len)", "({many})")
    configuration, _ = generated(text)
    assert configuration.config.search("requestCpus", Scope(current={"curr_pipetask": "A"})).value == 2
    assert configuration.config.search("queue", Scope(current={"curr_pipetask": "A"})).value == "q"
    assert configuration.config.search("requestMemory", Scope(current={"curr_pipetask": "B"})).value == 2000
    assert configuration.search("list") == [1, [2, None]]


def test_a_site_that_a_function_chooses() -> None:
    Path("sites").mkdir()
    Path("sites/one.yaml").write_text("{service: local, queue: of_one}\n", "utf-8")
    configuration, _ = generated("sitePath: sites\nbpsGenerateConfig: dict(computeSite='one')\n")
    assert (configuration.site, configuration.text("queue")) == ("one", "of_one")
    Path("sites/one.yaml").write_text("{service: local, bpsGenerateConfig: generating.nested()}\n", "utf-8")
    assert generated("sitePath: sites\ncomputeSite: one\n")[0].search("a") == {"b": {"c": 1.5}}
    with pytest.raises(ConfigError, match="'bpsGenerateConfig' of the site 'one' comes too late"):
        generated("sitePath: sites\nbpsGenerateConfig: dict(computeSite='one')\n")


def test_what_is_defined_now_is_no_warning_any_more() -> None:
    _, warnings = generated("category: '{cluster_size}'\nbpsGenerateConfig: dict(cluster_size='9')\n")
    assert warnings == []
    _, warnings = generated("bpsGenerateConfig: dict(requestMemry=9)\n")
    assert ["requestMemory" in warning.message + warning.hint for warning in warnings] == [True]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("generating.nested", "'generating.nested' is no call of a function"),
        ("generating.same() or 1", "is no call of a function"),
        ("a(1) + b(2)", "is no call of a function"),
        ("7", "must be the call of a function, not '7'"),
        ("[generating.nested()]", "bpsGenerateConfig' must be"),
        ("generating.sized(n)", "the arguments of .* are no literals"),
        ("generating.sized(__import__('os'))", "are no literals"),
        ("nowhere.f()", "the function 'nowhere.f' cannot be imported"),
        ("generating.nope()", "cannot be imported"),
        ("generating.fails()", "fails: RuntimeError: no such luck"),
        ("generating.nothing()", "'generating.nothing' returns 'None', which is no map"),
        ("generating.odd()", "'generating.odd' returns a.0.where as 'PosixPath', which is no YAML data"),
        ("generating.numbered()", "returns '1' as a key"),
        ("generating.again()", "returns 'bpsGenerateConfig'"),
        ("generating.deep()", "more than 100 deep"),
        ("generating.torn()", "which is not UTF-8 text"),
        ("generating.same(requestCpus='many')", "what 'generating.same\\(\\)' returned is wrong: 'requestCpus'"),
    ],
)
def test_what_is_wrong(call: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        generated(f"project: p\nbpsGenerateConfig: {call}\n")
    assert str(caught.value.origin).startswith("run.yaml:2:")


def test_it_can_be_forbidden() -> None:
    with pytest.raises(ConfigError, match="calls a function, which 'allowFunctions' forbids"):
        generated("allowFunctions: false\nbpsGenerateConfig: generating.nested()\n")
    configuration, _ = generated("bpsGenerateConfig: dict(allowFunctions=False)\nqueue: bpsEval(os.getcwd)\n")
    with pytest.raises(ConfigError, match="calls a function, which 'allowFunctions' forbids"):
        configuration.text("queue")


def test_only_a_run_calls_and_its_directory_knows(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def f(n):\n    open('called', 'a').write('.')\n    return {'requestDisk': n}\n", "utf-8"
    )
    path = written("runQuantumCommand: 'true'\nn: 12\npipetask: {A: {bpsGenerateConfig: 'mine.f({n})'}}\n")
    for words in (["lint", "--strict"], ["show"], ["explain"]):
        ran = cli(
            "config",
            words[0],
            path.name,
            *words[1:],
            *(["bpsGenerateConfig", "--label", "A"] if "explain" in words else []),
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert ("mine.f(" in ran.stdout) is ("lint" not in words)
    assert not (tmp_path / "called").exists()
    ran = cli("prepare", path.name)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "called").read_text("utf-8") == "."
    (run,) = (tmp_path / "submit").rglob("origins.json")
    origins = json.loads(run.read_text("utf-8"))
    assert origins["pipetask.A.requestDisk"] == {
        "file": "run.yaml",
        "line": 4,
        "column": 35,
        "layer": "bpsGenerateConfig mine.f()",
    }
    assert "pipetask.A.bpsGenerateConfig" not in origins
    (effective,) = run.parent.glob("*_config.yaml")
    assert yaml.safe_load(effective.read_text("utf-8"))["pipetask"]["A"] == {"requestDisk": 12}
    (job,) = [
        json.loads(line) for line in (run.parent / "workflow.jsonl").read_text("utf-8").splitlines() if "disk_b" in line
    ]
    assert job


def test_a_label_at_a_site_of_its_own_calls_nothing(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites" / "late.yaml").write_text("{service: local, bpsGenerateConfig: generating.nested()}\n", "utf-8")
    path = written("runQuantumCommand: 'true'\nsitePath: sites\npipetask: {A: {computeSite: late}}\n")
    ran = cli("transform", path.name)
    assert ran.returncode == 3
    assert "late.yaml:1:37: 'bpsGenerateConfig' of the site 'late' comes too late" in ran.stderr
