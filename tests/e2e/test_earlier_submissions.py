"""A run whose newest submission has another workflow: events of earlier ones are read with the new job numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.command import Cli
from tests.waiting import eventually
from tests.workflows import WriteRun

from longshore.contract.service import RunPaths
from longshore.model.submission import hash_identity
from longshore.rundir.run_directory import read_card, write_card
from longshore.rundir.submissions import create_manifest, hash_file, read_manifest, write_job_map

TASKS = {"a": ("A", []), "b": ("A", []), "c": ("B", ["a", "b"])}
TEXT = """\
runQuantumCommand: echo {{jobName}} >> {ran}
numberOfRetries: 0
pipetask: {{B: {{runQuantumCommand: "exit 3"}}}}
"""


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture
def changed(cli: Cli, write_run: WriteRun, tmp_path: Path) -> Path:
    """A failed run, of which a second submission drops `a`, adds `d` after `b`, mends `c`, and has another order."""
    ran = cli("submit", write_run(TEXT.format(ran=tmp_path / "ran"), TASKS), "--wait", "--json")
    assert ran.returncode == 19, ran.stderr
    run = RunPaths(Path(ran.json["submit_dir"]))
    header, *jobs = lines_of(run.workflow)
    by_name = {job["name"]: job for job in jobs}
    assert [job["name"] for job in jobs] == ["a", "b", "c"]
    b = by_name["b"]
    c = {**by_name["c"], "p": [1], "c": f"echo c >> {tmp_path}/ran"}
    d = {**b, "name": "d", "p": [1], "c": f"echo d >> {tmp_path}/ran"}
    x = {**b, "name": "x", "c": f"echo x >> {tmp_path}/ran"}
    workflow = run.submissions / "0002-workflow.jsonl"
    with workflow.open("wb") as file:
        file.writelines(msgspec.json.encode(line) + b"\n" for line in ({**header, "jobs": 4}, x, b, d, c))
    first = read_manifest(run)
    assert first is not None
    card = msgspec.structs.replace(read_card(run), expected=4, labels={"A": 3, "B": 1})
    write_card(run, card)
    job_map = write_job_map(run, 2, {1: 1, 2: 3})
    name = workflow.relative_to(run.root).as_posix()
    files = {**first.files, name: hash_file(workflow), job_map: hash_file(run.root / job_map)}
    second = msgspec.structs.replace(first, number=2, workflow=name, job_map=job_map, files=files)
    create_manifest(run, msgspec.structs.replace(second, card=hash_identity(card)))
    return run.root


def states(cli: Cli, run: Path) -> dict[str, str]:
    report = cli("report", run, "--json")
    return {job["name"]: job["state"] for job in report.json["runs"][0]["jobs"]}


def test_a_report_has_the_states_of_the_jobs_that_are_left(cli: Cli, changed: Path) -> None:
    assert states(cli, changed) == {"x": "READY", "b": "SUCCEEDED", "d": "READY", "c": "FAILED"}
    explained = cli("explain", changed, "c").stdout
    assert "exit" in explained
    events = [json.loads(line) for line in cli("events", changed, "--json").stdout.splitlines()]
    assert {event["index"] for event in events if event["event"] == "ended"} == {1, 3}
    assert cli("verify", changed).returncode == 0


def test_a_restart_runs_what_did_not_succeed_and_what_is_new(cli: Cli, changed: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in changed.rglob("*.json*") if path.parent.name == "submissions"}
    (tmp_path / "ran").unlink()
    ran = cli("restart", changed, "--as-it-was")
    assert ran.returncode == 0, ran.stderr
    eventually(lambda: cli("status", changed).returncode == 0)
    assert states(cli, changed) == dict.fromkeys("xbdc", "SUCCEEDED")
    assert sorted((tmp_path / "ran").read_text("utf-8").split()) == ["c", "d", "x"]
    assert {path: path.read_bytes() for path in before} == before
    assert json.loads((changed / "submissions" / "0003.json").read_text("utf-8"))["workflow"].endswith("workflow.jsonl")
    life = lines_of(changed / "journal" / "0002.jsonl")[0]
    assert life["s"] == 3
    assert cli("verify", changed).returncode == 0


def test_a_map_that_is_not_as_it_was_is_damage(cli: Cli, changed: Path) -> None:
    path = changed / "submissions" / "0002" / "jobs.json"
    path.write_bytes(path.read_bytes().replace(b"[2,3]", b"[2,0]"))
    ran = cli("verify", changed)
    assert ran.returncode == 5
    assert "0002/jobs.json" in ran.stdout
    assert cli("restart", changed).returncode == 6
