"""A section of which no key has an effect is told, with its place; `command` is a spelling of `command1`."""

from __future__ import annotations

import pytest
from tests.config.findings import PLAIN, findings_of

from longshore.config.lint import add_intended_keys
from longshore.config.lint_variables import LintContext
from longshore.config.schema import Severity
from longshore.config.search import Config
from longshore.config.yaml_text import parse_yaml

PIPELINE = "pipeline: {tasks: {a: {command: 'true'}}}\n"


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("finalJob: {requestCpus: 2}", (2, 11), "no key of 'finalJob' has an effect: it has no command", "Give it a"),
        (
            "finalJob: {runQuantumCommand: x}",
            (2, 11),
            "no key of 'finalJob' has an effect: it has no command",
            "Write 'command' instead of 'runQuantumCommand'.",
        ),
        ("lastJob: {command1: x}", (2, 10), "no key of 'lastJob' has an effect", "It is not a section"),
        ("taks: {a: {command: x}}", (2, 7), "no key of 'taks' has an effect", "It is not a section"),
        ("tasks: {a: {command: x}}", (2, 8), "no key of 'tasks' has an effect", "'tasks' belongs under 'pipeline'"),
        ("mine: [1, 2]", (2, 7), "no item of 'mine' has an effect", "It is not a section"),
        ("cluster: {a: {dimensions: visit}}", (2, 14), "no key of 'cluster.a' has an effect: 'clusterAlg", "Say 'clus"),
        ("replay: {timeScale: 2}", (2, 9), "no key of 'replay' has an effect: the payload is not", "Leave it out."),
        (
            "pipetask: {pipetaskInit: {queue: x}}",
            (2, 26),
            "no key of 'pipetask.pipetaskInit' has an effect: the run has no init job",
            "Set 'runInit: true'",
        ),
    ],
)
def test_a_section_without_any_effect_is_told(text: str, place: tuple[int, int], message: str, hint: str) -> None:
    found = [each for each in findings_of(f"wmsServiceClass: local\n{text}\n{PIPELINE}") if "effect" in each.message]
    assert [(each.severity, each.origin.line, each.origin.column) for each in found] == [(Severity.WARNING, *place)]
    assert found[0].message.startswith(message)
    assert found[0].hint.startswith(hint)


@pytest.mark.parametrize(
    "text",
    [
        "finalJob: {command: x}",
        "finalJob: {command2: x}",
        "finalJob: {requestCpus: 2, whenRun: NEVER}",
        "finalJob: {}",
        "cluster: {a: {dimensions: visit}}\nclusterAlgorithm: dimension_clustering",
        "cluster: {a: {queue: x}}",
        "payload: {runInit: true}\npipetask: {pipetaskInit: {queue: x}}",
        "finalJob: {command: x, command1: '{command} y'}",
    ],
)
def test_a_section_with_an_effect_is_not_told(text: str) -> None:
    assert findings_of(f"wmsServiceClass: local\n{text}\n{PIPELINE}") == []


def test_an_unknown_section_may_belong_to_a_plugin() -> None:
    around = LintContext(env=PLAIN.env, payload_uses=frozenset(), plugins_read=True)
    assert findings_of("wmsServiceClass: mine.Service\nmine: {any: 1}", around) == []


def test_command_of_the_final_job_is_a_spelling_of_its_first_command() -> None:
    root = add_intended_keys(parse_yaml("finalJob: {command: gather, command2: tell}", "f.yaml"))
    assert Config(root).search(".finalJob.command1").value == "gather"
    assert findings_of("wmsServiceClass: local\nfinalJob: {command: gather, command2: tell}") == []


def test_a_command_of_the_final_job_after_a_gap_is_told() -> None:
    (found,) = findings_of("wmsServiceClass: local\nfinalJob: {command1: gather, command3: tell}")
    assert found.severity is Severity.WARNING
    assert found.message == "'finalJob.command3' has no effect: there is no 'command2'"
    assert found.origin is not None
    whole = 'wmsServiceClass: local\nfinalJob: {command: gather, command2: "", command3: tell}'
    assert findings_of(whole) == []


def test_one_command_given_twice_is_an_error() -> None:
    (found,) = findings_of("wmsServiceClass: local\nfinalJob: {command: gather, command1: tell}")
    assert found.severity is Severity.ERROR
    assert found.message == "the final job has 'command' and 'command1', which mean the same"
    assert found.origin.line == 2
