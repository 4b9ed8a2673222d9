"""A run directory of an older format, written before lines had checksums, is reported, resumed and restarted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.command import Cli

_OLD = Path(__file__).parent.parent / "golden" / "old_run"


@pytest.fixture
def old_run(tmp_path: Path) -> Path:
    """A copy of the run, with its place filled in: 'check' failed, and 'last' was pruned."""
    root = tmp_path / "old_run"
    shutil.copytree(_OLD, root)
    for path in root.rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes().replace(b"@ROOT@", bytes(root)))
    return root


OVER = {
    "make1": "SUCCEEDED",
    "make2": "SUCCEEDED",
    "aside": "SUCCEEDED",
    "join": "SUCCEEDED",
    "check": "FAILED",
    "last": "PRUNED",
}


def _states(cli: Cli, root: Path) -> dict[str, str]:
    jobs = cli("report", "--id", root, "--json").json["runs"][0]["jobs"]
    return {job["name"]: job["state"] for job in jobs}


def _await_end(cli: Cli, root: Path) -> int:
    return cli("report", "--id", root, "--watch").returncode


def test_it_is_reported_with_all_it_says(cli: Cli, old_run: Path) -> None:
    ran = cli("report", "--id", old_run)
    assert ran.returncode == 0
    assert ran.stderr == ""
    assert _states(cli, old_run) == OVER
    assert len(cli("events", old_run, "--json").stdout.splitlines()) == 26
    assert "exit code 1 is in retryUnlessExit" in cli("explain", old_run, "check").stdout


def test_it_is_verified_without_what_that_format_never_had(cli: Cli, old_run: Path) -> None:
    told = cli("verify", old_run)
    assert told.returncode == 0
    assert "it has no manifest to compare its files with" in told.stdout
    assert "end.json" not in told.stdout


def test_it_restarts(cli: Cli, old_run: Path) -> None:
    (old_run / "passes").touch()
    ran = cli("restart", old_run)
    assert ran.returncode == 0, ran.stderr
    assert _await_end(cli, old_run) == 0
    assert set(_states(cli, old_run).values()) == {"SUCCEEDED"}
    assert sorted(path.name for path in (old_run / "journal").glob("0*")) == ["0001.jsonl", "0002.jsonl", "0003.jsonl"]


def test_it_resumes_after_its_engine_died(cli: Cli, old_run: Path) -> None:
    for name in ("journal/0002.jsonl", "keeper/0002.1.jsonl", "status.json"):
        (old_run / name).unlink()
    (old_run / "passes").touch()
    ran = cli("resume", old_run)
    assert ran.returncode == 0, ran.stderr
    assert _await_end(cli, old_run) == 0
    # The keeper recorded the end that the engine missed: 'join' did not run again.
    attempts = {
        job["name"]: job["attempts"] for job in cli("report", "--id", old_run, "--json").json["runs"][0]["jobs"]
    }
    assert set(attempts.values()) == {1}
