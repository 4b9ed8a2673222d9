"""A regular expression that is invalid, too large or too slow is an error or counts as not matched; nothing hangs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.command import Cli
from tests.workflows import WriteRun

SLOW = "(a+)+$"
SLOW_LINE = "a" * 60 + "b"


@pytest.mark.parametrize(
    "key", ["retryOn: {log: %s}", "successIf: {log: %s}", "successIf: {value: {regex: %s, min: 1}}"]
)
@pytest.mark.parametrize(
    ("regex", "reason"),
    [
        ("(" * 5000, "it has 5,000 characters, and at most 4,096 are allowed"),
        ("(" * 90, "not a regular expression"),
        ("a{99999999999999999999}", "it is too large: the repetition number is too large"),
    ],
)
def test_an_impossible_expression_is_an_error_with_its_place(
    cli: Cli, write_run: WriteRun, key: str, regex: str, reason: str
) -> None:
    refused = cli("submit", write_run("runQuantumCommand: 'true'\n" + key % json.dumps(regex) + "\n"))
    assert refused.returncode == 3
    assert "run.yaml:3:" in refused.stderr
    assert reason in refused.stderr
    assert len(refused.stderr) < 1000


@pytest.mark.timeout(120)
def test_a_slow_expression_counts_as_not_matched_and_the_run_goes_on(cli: Cli, write_run: WriteRun) -> None:
    command = f"sh -c 'echo {SLOW_LINE}; exit 1'"
    text = f'runQuantumCommand: "{command}"\nretryOn: {{log: "{SLOW}"}}\n'
    done = cli("submit", write_run(text), "--wait", "--json")
    assert done.returncode == 19
    run = Path(done.json["submit_dir"])
    assert "counts as not matched" in (run / "engine.log").read_text("utf-8")
    job = cli("report", "--id", run, "--json").json["runs"][0]["jobs"][0]
    assert job["attempts"] == 1


@pytest.mark.timeout(120)
def test_a_slow_condition_of_success_is_told_with_the_failure(cli: Cli, write_run: WriteRun) -> None:
    text = f"runQuantumCommand: \"echo {SLOW_LINE}\"\nnumberOfRetries: 0\nsuccessIf: {{log: '{SLOW}'}}\n"
    done = cli("submit", write_run(text), "--wait", "--json")
    assert done.returncode == 19
    assert "counts as not matched" in cli("explain", done.json["submit_dir"], "a").stdout


@pytest.mark.timeout(120)
def test_commands_give_up_a_slow_expression(cli: Cli, write_run: WriteRun) -> None:
    run = cli("submit", write_run(f"runQuantumCommand: echo {SLOW_LINE}\n"), "--wait", "--json").json["submit_dir"]
    found = cli("logs", run, "a", "--grep", SLOW)
    assert found.returncode == 2
    assert "takes too long" in found.stderr
    listed = cli("report", "--filter", "payload~(" + "(" * 5000)
    assert listed.returncode == 2
    assert "no regular expression" in listed.stderr
    assert cli("logs", run, "a", "--grep", "(" * 5000).returncode == 2
