"""Functions that a configuration names are called when a run is prepared, and not where a layer forbids it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.command import Cli
from tests.workflows import wfformat

from longshore.config.interpolate import FunctionCall
from longshore.config.layers import Overrides
from longshore.errors import ConfigError
from longshore.plan.configuration import Draft, call_builtin_or_imported, read_draft
from longshore.plan.resolved_run import resolve_configuration


def draft_of(folder: Path, text: str, *sets: str) -> Draft:
    path = folder / "run.yaml"
    path.write_text(text, "utf-8")
    return read_draft(path, Overrides(sets=sets), now=0)


def test_a_function_is_called_only_when_asked(tmp_path: Path) -> None:
    draft = draft_of(tmp_path, "queue: q_bpsEval(os.path.basename, '/a/{n}')\nn: 7\n")
    assert draft.text("queue") == "q_bpsEval(os.path.basename, '/a/7')"
    assert resolve_configuration(draft).text("queue") == "q_7"
    assert resolve_configuration(draft).with_values({"n": "8"}).text("queue") == "q_8"


def test_a_layer_that_forbids_holds(tmp_path: Path) -> None:
    text = "allowFunctions: false\nqueue: bpsEval(os.getcwd)\nproject: bpsEval(max, 1, 2)\n"
    configuration = resolve_configuration(draft_of(tmp_path, text, ".allowFunctions=true"))
    assert configuration.text("project") == "2"
    with pytest.raises(ConfigError, match="which 'allowFunctions' forbids"):
        configuration.text("queue")


@pytest.mark.parametrize(
    ("name", "message"),
    [("nowhere.f", "cannot be imported"), ("os.nope", "cannot be imported"), ("os.stat", "fails: FileNotFoundError")],
)
def test_functions_that_are_none_or_fail(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call_builtin_or_imported(FunctionCall(name, ("/no/such/file",), {}, f"bpsEval({name})"))


def test_forbidding_cannot_be_deleted(tmp_path: Path) -> None:
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites" / "strict.yaml").write_text("{service: local, allowFunctions: false}\n", "utf-8")
    text = f"sitePath: {tmp_path}/sites\ncomputeSite: strict\nallowFunctions: !delete\nqueue: bpsEval(os.getcwd)\n"
    with pytest.raises(ConfigError, match="which 'allowFunctions' forbids") as caught:
        resolve_configuration(draft_of(tmp_path, text)).text("queue")
    assert "strict.yaml:1:34" in caught.value.hint


def test_only_a_run_calls(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def name(text):\n    open('called', 'a').close()\n    return text\n", "utf-8")
    (tmp_path / "graph.json").write_text(json.dumps(wfformat({"a": ("A", [])})), "utf-8")
    text = "wfformat: graph.json\nrunQuantumCommand: 'true'\nproject: bpsEval(mine.name, 'x')\n"
    (tmp_path / "run.yaml").write_text(text, "utf-8")
    for words in (["config", "lint"], ["config", "show"], ["config", "explain"]):
        ran = cli(*words, "run.yaml", *(["project"] if "explain" in words else []))
        assert ran.returncode == 0, ran.stderr
        assert "mine.name" in ran.stdout
    assert not (tmp_path / "called").exists()
    assert cli("transform", "run.yaml").returncode == 0
    assert (tmp_path / "called").exists()
