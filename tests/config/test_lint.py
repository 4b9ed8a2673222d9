"""The lint finds what a configuration's author should know, in order, and nothing in what is right."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from longshore.app.configuration import read_configuration
from longshore.app.explain import explain
from longshore.app.lint import lint_file
from longshore.config.check import Finding
from longshore.config.lint import lint
from longshore.config.merge import Layer, LayerRank, layer_from_mapping, merge
from longshore.config.search import Config
from longshore.config.spelling import respelled
from longshore.config.traps import trap_of
from longshore.config.variables import Surroundings
from longshore.errors import LongshoreError
from longshore.world.etc import shipped
from longshore.world.yamlfile import parse_yaml

SCHEMA: dict[str, Any] = json.loads(shipped("etc", "schema", "config.json").read_text("utf-8"))
PLAIN = Surroundings(payload_uses=frozenset())
HERE = "wmsServiceClass: local\n"


def findings_of(text: str, around: Surroundings = PLAIN, labels: frozenset[str] | None = None) -> list[Finding]:
    weak = layer_from_mapping({"payload": {"outputRun": "d"}, "operator": "ada"}, "defaults", LayerRank.DEFAULTS)
    own = Layer("f.yaml", LayerRank.FILE, respelled(parse_yaml(text, "f.yaml")))
    return lint(Config(merge([weak, own])), SCHEMA, around, labels=labels)


def said(text: str, around: Surroundings = PLAIN, labels: frozenset[str] | None = None) -> list[str]:
    return [f"{each.severity}: {each.message}" for each in findings_of(HERE + text, around, labels)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("requestMemroy: 5", "warning: nothing knows the key 'requestMemroy'"),
        ("mine: 5", "warning: nothing uses 'mine'"),
        ("requestCpus: two", "error: 'requestCpus' cannot be 'two'"),
        ("requestWalltime: '1:75'", "error: 'requestWalltime'"),
        (
            "pipetask: {isr: {requestMemoryMax: 1, requestMemory: 2}}",
            "warning: 'pipetask.isr.requestMemoryMax' is less",
        ),
        ("queue: 'q{nope}'", "warning: nothing defines the variable 'nope'"),
        ("runQuantumCommand: 'echo {nope}'", "warning: the command uses '{nope}', which nothing defines"),
        ("queue: '{queue}'", "error: a value is defined by itself"),
        ("queue: bpsEval(max)", "error: 'bpsEval(max)' fails"),
        ("queue: bpsEval(my.f, 1)", "note: 'bpsEval' calls 'my.f' when a run is prepared"),
        ("queue: 'a <b>'", "note: '<b>' stays as it is, for there is no variable 'b'"),
        ("queue: 'a $<B>'", "note: '$<B>' stays as it is, for there is no environment variable 'B'"),
        ("outputRun: x", "warning: 'outputRun' at the root has no effect"),
        ("outCollection: x", "error: 'outCollection' is deprecated"),
        ("executionButler: {whenCreate: NEVER}", "warning: 'executionButler' is a relic of BPS"),
        ("subdirTemplate: x", "warning: 'subdirTemplate' is read as 'subDirTemplate'"),
        ("gqraphFile: x", "warning: 'gqraphFile' is read as 'qgraphFile'"),
        ("pipetasks: {isr: {requestCpus: 2}}", "warning: 'pipetasks' is read as 'pipetask'"),
        ("finalJob: {concurrency_limit: x}", "warning: 'finalJob.concurrency_limit' is read as 'finalJob.concurrencyL"),
        ("environment: {DB_PASSWORD: hunter2}", "warning: the value of 'DB_PASSWORD' looks like a secret"),
        ("environment: {URL: 'https://ada:pw@host/x'}", "warning: the value of 'URL' looks like a secret"),
        ("site: {campus: {queue: x}}\ncomputeSite: canpus", "warning: 'site.campus' matches no 'computeSite'"),
    ],
)
def test_one_thing(text: str, message: str) -> None:
    (found,) = said(text)
    assert found.startswith(message)


@pytest.mark.parametrize(
    "text",
    [
        "mine: 5\nqueue: '{mine}'",
        "mine: 5\nqueue: '<mine>'",
        "mine: {any: [1]}\ncurrent: {curr_site: x}",
        "subDirTemplate: '{label}/{no_dimension}'",
        "queue: 'cat ${HOME}/{{x}}'",
        "extraRunQuantumOptions: '{extraWhatOptions} {somePreCmdOpts} {wmsAttemptNum}'",
        "requestMemory: bpsEval(max, [1, 2])",
        "environment: {TOKEN: '${TOKEN}', PASSWORD_FILE: x, secretName: y}",
        "cluster: {c: {pipetasks: 'a, b'}}",
        "pipetask: {pipetaskInit: {queue: x}}",
        "site: {campus: {queue: x}, other: {queue: y}}\ncomputeSite: campus",
        "retryUnlessExit: null\nnumberOfRetries: 0\nmemoryMultiplier: 1",
    ],
)
def test_nothing_to_say(text: str) -> None:
    assert said(text) == []


def test_what_a_command_may_use_is_known_when_the_payload_is() -> None:
    known = Surroundings(payload_names=frozenset({"visit"}), payload_uses=frozenset())
    assert said("runQuantumCommand: 'echo {visit}'", known) == []
    assert said("runQuantumCommand: 'echo {visti}'", known) == [
        "error: the command uses '{visti}', which nothing defines"
    ]


def test_sections_that_match_nothing() -> None:
    text = "pipetask: {isr: {queue: x}, isrr: {queue: y}}\ncluster: {c: {pipetasks: 'isr, call'}, d: {queue: x}}"
    found = findings_of(HERE + text, labels=frozenset({"isr", "cal"}))
    assert [each.message for each in found] == [
        "'pipetask.isrr' matches nothing: no task has the label 'isrr'",
        "'cluster.c.pipetasks' matches nothing: no task has the label 'call'",
        "'cluster.d' matches nothing: it has no 'pipetasks', and no task has the label 'd'",
    ]
    assert [each.hint for each in found] == ["Did you mean 'isr'?", "Did you mean 'cal'?", ""]


def test_bps_would_use_htcondor() -> None:
    text = "payload: {butlerConfig: r}\nnodeset: x\nprofile: {condor: {a: 1}}"
    (found,) = findings_of(text)
    assert found.message.startswith("no 'wmsServiceClass' is named: BPS would use HTCondor here")
    assert findings_of(HERE + text) == []


def test_misspelt_keys_are_read() -> None:
    root = respelled(parse_yaml("pipetasks: {isr: {requestCpus: 2, concurrency_limit: y}}\ngqraphFile: g", "f"))
    config = Config(root)
    current = {"curr_pipetask": "isr"}
    assert config.search("requestCpus", current=current).value == 2
    assert config.search("concurrencyLimit", current=current).value == "y"
    assert config.get("qgraphFile") == "g"
    both = respelled(parse_yaml("pipetasks: {a: {queue: 1, x: 1}}\npipetask: {a: {queue: 2}}", "f"))
    assert Config(both).get(".pipetask.a.queue") == 2
    assert Config(both).get(".pipetask.a.x") == 1


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("12:30:45", 'Quote it: "12:30:45".'),
        ("1:30", 'Quote it: "1:30".'),
        ("010", "Write 10 for the decimal number, 8 if the octal one is meant"),
        ("no", "Write false, or quote it"),
        ("Yes", "Write true"),
        ("on", "Write true"),
        ("1e3", "Write 1000,"),
        ("1.5e-3", None),
        ("2.5e3", "Write 2500,"),
        ("1e999", "Write 1.0e+999,"),
        ("0o10", "Write 8,"),
        ("true", None),
        ("10", None),
        ("0", None),
        ("1.0e+3", None),
        ("2-03:00:00", None),
        ("0.5", None),
        ("word", None),
        ("'no'", None),
        ('"010"', None),
    ],
)
def test_traps(tmp_path: Path, text: str, hint: str | None) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(f"{HERE}project: {text}\n", "utf-8")
    hints = [
        each.hint for each in lint_file(path, options={}, sets=(), now=0).findings if " be 'text'" not in each.hint
    ]
    assert len([each for each in hints if hint and each.startswith(hint)]) == bool(hint)
    assert trap_of("word", "word") is None


def test_a_key_given_twice_is_an_error_beside_others(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(f"{HERE}queue: a\nqueue: b\nrequestCpus: two\n", "utf-8")
    found = lint_file(path, options={}, sets=(), now=0).findings
    assert [(each.origin.line, each.message) for each in found] == [
        (3, "the key 'queue' is given twice"),
        (4, "'requestCpus' cannot be 'two'"),
    ]


def test_what_cannot_be_read_is_one_finding(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("a: [1\nb: 2\n", "utf-8")
    linted = lint_file(path, options={}, sets=(), now=0)
    assert [each.origin.line for each in linted.findings] == [2]
    assert list(linted.sources) == [str(path)]
    assert (
        lint_file(tmp_path / "none.yaml", options={}, sets=(), now=0).findings[0].message.startswith("there is no file")
    )


def test_a_line_with_a_secret_is_hidden_from_all_findings() -> None:
    found = findings_of(HERE + "password: hunter2")
    assert len(found) == 2
    assert all(each.hidden for each in found)
    assert not any("hunter2" in each.message + each.hint for each in found)


KEYS = st.sampled_from([*SCHEMA["$defs"]["job"]["properties"], *SCHEMA["properties"], "pipetasks", "x", "password"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text("{}<>$ax1", max_size=6) | st.just("bpsEval(max)"),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(KEYS | st.text(max_size=3), below, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
@settings(deadline=None, max_examples=60)
def test_anything_is_linted_and_explained_or_refused_by_us(tmp_path_factory: pytest.TempPathFactory, tree: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(yaml.safe_dump(tree), "utf-8")
    for finding in lint_file(path, options={}, sets=(), now=0).findings:
        assert len(finding.message) < 500
    with suppress(LongshoreError):
        configuration, _ = read_configuration(path, options={}, sets=(), now=0)
        for key in ("x", *tree):
            with suppress(LongshoreError):
                explain(configuration, [key], current={"curr_pipetask": "x"}, given=["a=1"])
