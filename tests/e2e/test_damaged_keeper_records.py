"""Damage of a keeper's records is told by all that looks; a run continues once its user accepts the loss."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from tests.command import Cli
from tests.waiting import eventually
from tests.workflows import Tasks, WriteRun

TASKS: Tasks = {"a": ("A", []), "b": ("B", ["a"])}
YAML = """
runQuantumCommand: sh -c "echo {jobName} >> ${PWD}/ran"
requestMemory: 10
numberOfRetries: 0
retryOnLost: 3
pipetask:
  B: {runQuantumCommand: 'sh -c "echo {jobName} >> ${PWD}/ran; test -e ${PWD}/go || sleep 600"'}
"""


def ran(folder: Path) -> list[str]:
    path = folder / "ran"
    return path.read_text("utf-8").split() if path.exists() else []


@pytest.fixture
def dead(cli: Cli, write_run: WriteRun, tmp_path: Path) -> tuple[Path, Path]:
    """A run that was killed with all its processes while 'b' ran, and its keeper's file."""
    run = Path(cli("submit", write_run(YAML, TASKS), "--json").json["submit_dir"])
    eventually(lambda: len(ran(tmp_path)) == 2)
    (path,) = (run / "keeper").glob("*.jsonl")
    eventually(lambda: path.read_bytes().count(b'"r":"start"') == 2)
    life = json.loads((run / "journal" / "0001.jsonl").read_bytes().split(b"\n")[0])
    first = json.loads(path.read_bytes().split(b"\n")[0])
    start = json.loads(path.read_bytes().split(b"\n")[-2])
    for pid in (life["pid"], first["guard"], first["pid"]):
        os.kill(pid, signal.SIGKILL)
    os.killpg(start["pid"], signal.SIGKILL)
    eventually(lambda: cli("report", "--id", run, "--json").json["runs"][0]["state"] == "UNKNOWN")
    (tmp_path / "go").touch()
    return run, path


def test_it_is_told_and_a_new_engine_waits_for_acceptance(cli: Cli, dead: tuple[Path, Path], tmp_path: Path) -> None:
    run, path = dead
    text = path.read_bytes()
    at = text.rindex(b'"r":"got"')
    path.write_bytes(text[:at] + b'"r":"goT"' + text[at + 9 :])
    line = text[:at].count(b"\n") + 1
    words = f"'{path}', line {line}: it is not as it was written"

    shown = cli("report", "--id", run, "--json").json["runs"][0]
    assert [damage["line"] for damage in shown["damage"]] == [line]
    assert words in cli("report", "--id", run).stdout
    status = cli("status", run)
    assert words in status.stdout + status.stderr
    assert words in cli("explain", run, "b").stderr
    assert cli("events", run, "--json").returncode == 0, "the journal is intact"
    assert words in cli("verify", run).stdout

    for command in ("resume", "restart"):
        refused = cli(command, run)
        assert refused.returncode == 6, command
        assert words in refused.stderr
        assert "--accept-loss" in refused.stderr
    assert os.listdir(run / "journal") == ["0001.jsonl"]

    resumed = cli("resume", run, "--accept-loss")
    assert resumed.returncode == 0, resumed.stderr
    assert f"lost, as accepted: {words}" in resumed.stderr
    assert cli("report", "--id", run, "--watch", timeout=40).returncode == 0
    after = cli("report", "--id", run, "--json").json["runs"][0]
    assert (after["state"], after["damage"]) == ("SUCCEEDED", [])
    names = ran(tmp_path)
    assert names == ["a", "b", "b"], "what succeeded before is not run again"


def test_damage_of_a_run_that_is_over_changes_nothing(cli: Cli, dead: tuple[Path, Path]) -> None:
    run, path = dead
    assert cli("resume", run).returncode == 0
    assert cli("report", "--id", run, "--watch", timeout=40).returncode == 0
    path.write_bytes(path.read_bytes().replace(b'"r":"got"', b'"r":"goT"'))
    assert cli("report", "--id", run, "--json").json["runs"][0]["damage"] == []
    assert cli("verify", run).returncode == 0
    assert "nothing to resume" in (resumed := cli("resume", run)).stdout + resumed.stderr
