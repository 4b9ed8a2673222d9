"""A journal that was cut between lines equals a crash; `verify` tells where other records of the run know more."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from tests.command import Cli
from tests.waiting import engine_of, eventually
from tests.workflows import WriteRun

YAML = "runQuantumCommand: sh -c 'echo x >> ${PWD}/ran; sleep 1'\nrequestMemory: 10\n"
VALUES = '"j":0,"a":1,"status":{status},"run":2.50,"host":"n1","batch":"{tag}"'


@pytest.fixture
def dead(cli: Cli, write_run: WriteRun) -> Path:
    """A run whose engine was killed; its keeper recorded the end of its job, which the journal lacks."""
    run = Path(cli("submit", write_run(YAML), "--json").json["submit_dir"])
    journal = run / "journal" / "0001.jsonl"
    eventually(lambda: b'"e":"started"' in journal.read_bytes())
    os.kill(engine_of(run), signal.SIGKILL)
    (keeper,) = (run / "keeper").glob("*.jsonl")
    eventually(lambda: b'{"r":"end"' in keeper.read_bytes())
    assert b'"e":"ended"' not in journal.read_bytes()
    (run / "status.json").unlink(missing_ok=True)
    return run


def cut_before(run: Path, kind: str) -> str:
    """Cut the journal before the first event of a kind, and return the tag of the batch."""
    path = run / "journal" / "0001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    (batch,) = [line for line in lines if b'"e":"submitting"' in line]
    at = next(number for number, line in enumerate(lines) if f'"e":"{kind}"'.encode() in line)
    path.write_bytes(b"".join(lines[:at]))
    return str(json.loads(batch)["tag"])


def leave_end(run: Path, tag: str, *, status: str = "0", name: str = "0.1") -> Path:
    """Write an end record of the job, as the wrapper of a batch system's job does."""
    path = run / "ends" / tag / name
    path.parent.mkdir(parents=True, exist_ok=True)
    values = VALUES.format(status=status, tag=tag)
    path.write_text(f'{{{values},"again":{{{values}}}}}\n', "utf-8")
    return path


def test_an_end_that_only_the_keeper_recorded_is_noted_and_used(cli: Cli, dead: Path, tmp_path: Path) -> None:
    cut_before(dead, "started")
    found = cli("verify", dead)
    assert found.returncode == 0
    assert f"lacks the ends of 1 attempt that '{dead}/keeper' has" in found.stdout
    assert cli("resume", dead).returncode == 0
    assert cli("report", "--id", dead, "--watch").returncode == 0
    assert (tmp_path / "ran").read_text("utf-8") == "x\n", "its job is not run again"
    assert "lacks the ends" not in cli("verify", dead).stdout


def test_an_end_that_only_an_end_record_tells_is_noted(cli: Cli, dead: Path) -> None:
    tag = cut_before(dead, "submitted")
    (keeper,) = (dead / "keeper").glob("*.jsonl")
    keeper.unlink()
    leave_end(dead, tag)
    found = cli("verify", dead, "--list")
    assert found.returncode == 0
    assert f"lacks the ends of 1 attempt that '{dead}/ends' has" in found.stdout
    assert f"checked      ends/{tag}/0.1: checksum" in found.stdout


def test_a_batch_whose_submission_was_cut_off_is_damage(cli: Cli, dead: Path) -> None:
    tag = cut_before(dead, "submitting")
    (keeper,) = (dead / "keeper").glob("*.jsonl")
    keeper.unlink()
    leave_end(dead, tag)
    found = cli("verify", dead)
    assert found.returncode == 5
    assert f"it lacks the submission of 1 batches that '{dead}/batches' has, such as '{tag}'" in found.stdout


def test_damage_of_batch_and_end_records_is_told_by_all_that_look_until_the_loss_is_accepted(
    cli: Cli, dead: Path
) -> None:
    tag = cut_before(dead, "started")
    end = leave_end(dead, tag, status="0,")
    record = dead / "batches" / f"{tag}.json"
    record.parent.mkdir(exist_ok=True)
    record.write_bytes(b'{"tag":"x","c":"01234567"}\n')
    words = [f"'{record}': it does not fit its checksum", f"'{end}': it is not an end record of its job"]
    for command in (("report", "--id", dead), ("status", dead), ("explain", dead, "a"), ("verify", dead)):
        told = cli(*command)
        assert all(each in told.stdout + told.stderr for each in words), command
    shown = cli("report", "--id", dead, "--json").json["runs"][0]
    assert [damage["path"] for damage in shown["damage"]] == [str(record), str(end)]
    assert sum(shown["counts"].values()) == 1
    for command in (("resume", dead), ("restart", dead)):
        refused = cli(*command)
        assert refused.returncode == 6
        assert words[0] in refused.stderr
        assert "--accept-loss" in refused.stderr
    resumed = cli("resume", dead, "--accept-loss")
    assert resumed.returncode == 0, resumed.stderr
    assert all(f"lost, as accepted: {each}" in resumed.stderr for each in words)
    assert cli("report", "--id", dead, "--watch").returncode == 0
    assert cli("report", "--id", dead, "--json").json["runs"][0]["damage"] == []
