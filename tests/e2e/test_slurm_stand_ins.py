"""Whole runs beside stand-ins of Slurm's programs: no hope, facts that come late, and a fence after a lost node."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.command import Cli
from tests.e2e.slurm_stand_ins import fail_nodes, write_programs
from tests.waiting import eventually
from tests.workflows import Tasks, wfformat

Begin = Callable[..., Path]


@pytest.fixture
def programs(tmp_path: Path, own_environment: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the programs."""
    profile = own_environment / ".config" / "longshore" / "sites" / "cluster.yaml"
    profile.parent.mkdir(parents=True)
    profile.write_text("title: A cluster\nservice: slurm\n", "utf-8")
    folder = tmp_path / "slurm"
    for name, value in write_programs(folder).items():
        monkeypatch.setenv(name, value)
    return folder


@pytest.fixture
def begin(cli: Cli, tmp_path: Path, programs: Path) -> Begin:
    """Begin a run of tasks with lines of YAML."""

    def submit(text: str, tasks: Tasks) -> Path:
        (tmp_path / "run.json").write_text(json.dumps(wfformat(tasks)), "utf-8")
        path = tmp_path / "run.yaml"
        path.write_text(f"computeSite: cluster\nwfformat: run.json\n{text}", "utf-8")
        ran = cli("submit", path, "--json", env={"PATH": os.environ["PATH"]})
        assert ran.returncode == 0, ran.stderr
        return Path(ran.json["submit_dir"])

    return submit


def report(cli: Cli, run: Path) -> dict[str, Any]:
    found: dict[str, Any] = cli("report", run, "--json").json["runs"][0]
    return found


def end_of(cli: Cli, run: Path) -> str:
    state: str = eventually(lambda: (now := report(cli, run)["state"]) in {"SUCCEEDED", "FAILED"} and now, pause_s=0.2)
    return state


def attempts(cli: Cli, run: Path, job: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cli("explain", run, job, "--json").json["attempts"]
    return found


def test_a_job_without_hope_fails_once(cli: Cli, programs: Path, begin: Begin) -> None:
    (programs / "reason").write_text("PartitionNodeLimit", "utf-8")
    run = begin(
        "numberOfRetries: 3\nrunQuantumCommand: 'true'\nslurm: {pollInterval: 0.2, hopelessAfter: 2}\n",
        {"a": ("A", []), "b": ("A", []), "c": ("C", ["a"])},
    )
    assert eventually(lambda: report(cli, run)["hopeless_jobs"] == 2)
    assert end_of(cli, run) == "FAILED"
    (attempt,) = attempts(cli, run, "b")
    assert (attempt["cause"], attempt["exit_code"]) == ("SUBMIT", None)
    assert "can never start it (PartitionNodeLimit): request fewer nodes" in attempt["reason"]


def test_facts_follow_the_end_of_a_run(cli: Cli, programs: Path, begin: Begin) -> None:
    (programs / "accounting").touch()
    run = begin("runQuantumCommand: 'true'\nslurm: {pollInterval: 0.2}\n", {"a": ("A", []), "b": ("B", ["a"])})
    assert end_of(cli, run) == "SUCCEEDED"
    assert [each["cpu_s"] for job in "ab" for each in attempts(cli, run, job)] == [None, None]
    (programs / "recorded").touch()
    eventually((run / "journal" / "0001.late.jsonl").exists)
    eventually(lambda: [each["cpu_s"] for job in "ab" for each in attempts(cli, run, job)] == [1.25, 1.25])
    verified = cli("verify", run)
    assert verified.returncode == 0, verified.stdout


def test_behind_a_fence_the_next_attempt_waits_for_a_boot_of_the_node(
    cli: Cli, programs: Path, begin: Begin, tmp_path: Path
) -> None:
    notes, go = tmp_path / "notes", tmp_path / "go"
    command = f"echo x >>{notes}; until test -e {go}; do sleep 0.1; done"
    run = begin(
        f'numberOfRetries: 0\nrunQuantumCommand: "{command}"\n'
        "slurm: {pollInterval: 0.2, pollCeiling: 0.5, fence: true}\n",
        {"a": ("A", [])},
    )
    try:
        eventually(notes.exists)
        eventually(lambda: list(run.glob("ends/*/0.1.began")) and report(cli, run)["counts"]["RUNNING"] == 1)
        fail_nodes(programs)
        told = "job 'a' waits until its attempt 1 on 'n1' is certainly dead ('fence')"
        eventually(lambda: any(told in note for note in report(cli, run)["notes"]), pause_s=0.2)
        assert notes.read_text("utf-8") == "x\n"
        (programs / "booted").write_text("2026-11-20T15:00:00", "utf-8")
    finally:
        # Its first copy lives on, as on a node that only does not answer.
        go.touch()
    assert end_of(cli, run) == "SUCCEEDED"
    assert notes.read_text("utf-8") == "x\nx\n"
    assert [each["cause"] for each in attempts(cli, run, "a")] == ["LOST", None]
