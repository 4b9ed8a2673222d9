"""A service that has no events, only a report, works in every command that reads; the others say what it cannot do."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.command import Cli
from tests.workflows import WriteRun

CHAIN = {"a": ("A", []), "b": ("B", ["a"]), "c": ("C", ["b"])}
YAML = "wmsServiceClass: tests.shell_service.ShellService\ncomputeSite: here\nsite: {here: {}}\n"


@pytest.fixture(autouse=True)
def _its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


def submitted(cli: Cli, write_run: WriteRun, command: str, *more: str) -> str:
    path = write_run(f"{YAML}runQuantumCommand: {command!r}\n", CHAIN)
    ran = cli("submit", path.name, *more)
    assert ran.returncode in (0, 19), ran.stderr
    return ran.stdout.split("Run Id: ")[1].split()[0] if "Run Id: " in ran.stdout else "@last"


def test_a_run_that_succeeds(cli: Cli, write_run: WriteRun) -> None:
    submitted(cli, write_run, "echo from a shell", "--wait")
    assert cli("status", "@last").returncode == 0
    report = cli("report", "@last", "--json").json["runs"][0]
    assert report["state"] == "SUCCEEDED"
    assert [(job["name"].split("_")[0], job["state"], job["exit_code"]) for job in report["jobs"]] == [
        ("a", "SUCCEEDED", 0),
        ("b", "SUCCEEDED", 0),
        ("c", "SUCCEEDED", 0),
    ]
    assert "SUCCEEDED" in cli("report", "@last").stdout
    events = cli("events", "@last")
    assert events.returncode == 0, events.stderr
    assert events.stdout.count('"event":"ended"') == 3, events.stdout
    assert "from a shell" in cli("logs", "@last", "a").stdout
    explained = cli("explain", "@last", "c")
    assert explained.returncode == 0, explained.stderr
    assert "SUCCEEDED" in explained.stdout


def test_a_run_that_fails(cli: Cli, write_run: WriteRun) -> None:
    submitted(cli, write_run, "echo no >&2; exit 3", "--wait")
    assert cli("status", "@last").returncode == 19
    run = cli("report", "@last", "--json").json["runs"][0]
    assert [job["state"] for job in run["jobs"]] == ["FAILED", "PRUNED", "PRUNED"]
    assert run["digest"][0]["exit_code"] == 3


def test_a_run_that_goes_on(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    submitted(cli, write_run, f"while ! test -e {gate}; do sleep 0.05; done")
    assert cli("status", "@last").returncode == 15
    counts = cli("report", "@last", "--json").json["runs"][0]["counts"]
    assert (counts["RUNNING"] + counts["READY"], counts["UNREADY"]) == (1, 2)
    gate.touch()
    assert cli("events", "@last", "--follow", timeout=60).returncode == 0
    assert cli("status", "@last").returncode == 0


CANNOT = [
    (("cancel", "@last"), "cancel runs"),
    (("restart", "@last"), "restart runs"),
    (("restart", "@last", "--dry-run"), "restart runs"),
    (("resume", "@last"), "resume runs"),
    (("hold", "@last"), "hold runs"),
    (("pause", "@last"), "pause runs"),
    (("throttle", "@last", "--max", "3"), "throttle runs"),
    (("set", "@last", "requestMemory=2G"), "set runs"),
]
"""Commands that need a capability, and what their refusal names."""


def test_what_it_cannot_do_is_said(cli: Cli, write_run: WriteRun) -> None:
    submitted(cli, write_run, "true", "--wait")
    for words, cannot in CANNOT:
        ran = cli(*words)
        assert ran.returncode == 6, (words, ran.stdout)
        assert f"the service 'shell' cannot {cannot}" in ran.stderr, words
