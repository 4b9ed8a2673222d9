"""What is killed, and when, costs no success and repeats none: engine, keeper, both, and the jobs themselves."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Cli

JOBS = 40
WIDTH = 8


@pytest.fixture
def run_yaml(tmp_path: Path) -> Path:
    """A layered run of short jobs, each of which writes down when it starts and when it is done."""
    tasks = [
        {
            "name": "job",
            "id": f"job_{number}",
            "parents": [f"job_{number - WIDTH}", f"job_{number - WIDTH + 1}"] if number >= WIDTH else [],
            "children": [],
        }
        for number in range(JOBS)
    ]
    graph = {"name": "layers", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": tasks}}}
    (tmp_path / "graph.json").write_text(json.dumps(graph), "utf-8")
    note = '"$LONGSHORE_JOB_NAME $LONGSHORE_JOB_ATTEMPT"'
    path = tmp_path / "run.yaml"
    path.write_text(
        "wfformat: graph.json\nresources: {cpus: 4}\nretryOnLost: 20\n"
        f"runQuantumCommand: 'echo start {note} >> notes; sleep 0.1$(($$ % 9)); echo done {note} >> notes'\n",
        "utf-8",
    )
    return path


def submitted(cli: Cli, path: Path, *more: str) -> Path:
    """Submit a run and return its directory."""
    answer = cli("submit", path, "--json", *more)
    assert answer.returncode == 0, answer.stderr
    return Path(answer.json["submit_dir"])


def eventually(what: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Wait until something is true."""
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.005)
    return found


def events(run: Path) -> Iterator[dict[str, Any]]:
    """Every event of a run that counts."""
    files = sorted((run / "journal").glob("*.jsonl"))
    lives = [[json.loads(line) for line in file.read_text("utf-8").splitlines()] for file in files]
    for life in lives:
        yield from life


def engine(run: Path) -> int:
    """Process number of the newest engine."""
    return int(next(event["pid"] for event in reversed(list(events(run))) if event["e"] == "life"))


def keeper(run: Path) -> int:
    """Process number of the newest keeper."""
    newest = max((run / "keeper").glob("*.jsonl"))
    first: dict[str, Any] = json.loads(newest.read_text("utf-8").splitlines()[0])
    return int(first["pid"])


def kill(pid: int) -> None:
    """Kill a process that may be gone."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def ended_jobs(run: Path) -> int:
    """Number of jobs that ended so far."""
    return sum(event["e"] == "ended" for event in events(run))


def finish(cli: Cli, run: Path) -> dict[str, Any]:
    """See a run through to its end, resuming it as often as its engine is gone, and return its report."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        answer = cli("report", "--id", run, "--json")
        assert answer.returncode == 0, answer.stderr
        report: dict[str, Any] = answer.json["runs"][0]
        assert sum(report["counts"].values()) == report["expected"] == JOBS
        if report["state"] == "UNKNOWN":
            resumed = cli("resume", run)
            # It may have ended, or an engine may have been a moment late, since the report.
            assert resumed.returncode in (0, 6), resumed.stderr
        elif report["state"] != "RUNNING":
            return report
        time.sleep(0.05)
    pytest.fail("the run does not end")


def check_promise(run: Path, report: dict[str, Any], notes: Path) -> None:
    """Every job succeeded, and exactly once; no attempt was started twice; none is unaccounted for."""
    assert report["state"] == "SUCCEEDED", report
    said = Counter(notes.read_text("utf-8").splitlines())
    twice = {line: count for line, count in said.items() if count > 1}
    assert not twice
    successes = [event for event in events(run) if event["e"] == "ended" and "cause" not in event]
    assert len({event["j"] for event in successes}) == len(successes) == JOBS
    intended = {tuple(pair) for event in events(run) if event["e"] == "submitting" for pair in event["jobs"]}
    started = {
        (int(name.removeprefix("job_")), int(attempt))
        for what, name, attempt in (line.split() for line in said)
        if what == "start"
    }
    names = {
        number: json.loads(line)["name"]
        for number, line in enumerate((run / "workflow.jsonl").read_text("utf-8").splitlines()[1 : JOBS + 1])
    }
    assert {(names[job], attempt) for job, attempt in intended} >= {(f"job_{job}", a) for job, a in started}
    accounted = {(event["j"], event["a"]) for event in events(run) if event["e"] in {"ended", "lost"}}
    refused = {event["b"] for event in events(run) if event["e"] == "refused"}
    handed = {
        tuple(pair)
        for event in events(run)
        if event["e"] == "submitting" and event["b"] not in refused
        for pair in event["jobs"]
    }
    assert handed <= accounted


@pytest.mark.parametrize("victims", [("engine",), ("keeper",), ("engine", "keeper"), ("keeper", "engine")])
def test_a_kill_in_the_middle_costs_nothing(cli: Cli, run_yaml: Path, victims: tuple[str, ...]) -> None:
    run = submitted(cli, run_yaml)
    eventually(lambda: ended_jobs(run) >= JOBS // 4)
    pids = {"engine": engine(run), "keeper": keeper(run)}
    for victim in victims:
        kill(pids[victim])
    report = finish(cli, run)
    check_promise(run, report, run_yaml.parent / "notes")


def test_a_run_is_resumed_with_no_job_run_twice(cli: Cli, run_yaml: Path) -> None:
    run = submitted(cli, run_yaml)
    eventually(lambda: ended_jobs(run) >= JOBS // 4)
    kill(engine(run))
    stopped = eventually(lambda: (answer := cli("status", run)).returncode != 15 and answer)
    assert stopped.returncode == 10
    assert "longshore resume" in stopped.stderr
    assert cli("resume", run).returncode == 0
    report = finish(cli, run)
    check_promise(run, report, run_yaml.parent / "notes")
    assert {job["attempts"] for job in report["jobs"]} == {1}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_kills_at_random_cost_nothing(cli: Cli, run_yaml: Path, seed: int) -> None:
    chance = random.Random(seed)
    run = submitted(cli, run_yaml)
    for _ in range(5):
        time.sleep(chance.uniform(0.0, 0.4))
        victims = chance.choice([(engine,), (keeper,), (engine, keeper)])
        for victim in victims:
            try:
                kill(victim(run))
            except (ValueError, IndexError):
                # No keeper yet, or one that has not said its number.
                continue
        if engine in victims:
            cli("resume", run)
    report = finish(cli, run)
    check_promise(run, report, run_yaml.parent / "notes")


def test_a_job_that_is_killed_is_tried_again(cli: Cli, run_yaml: Path) -> None:
    run = submitted(cli, run_yaml)
    started = eventually(lambda: _a_running_job(run))
    os.killpg(started, signal.SIGKILL)
    report = finish(cli, run)
    assert report["state"] == "SUCCEEDED"
    killed = [event for event in events(run) if event["e"] == "ended" and event.get("signal") == signal.SIGKILL]
    assert len(killed) <= 1


def _a_running_job(run: Path) -> int | None:
    running: dict[tuple[int, int], int] = {}
    for file in (run / "keeper").glob("*.jsonl"):
        for line in file.read_text("utf-8").splitlines():
            record = json.loads(line)
            if record["r"] == "start":
                running[record["j"], record["a"]] = record["pid"]
            elif record["r"] == "end":
                running.pop((record["j"], record["a"]), None)
    return next(iter(running.values()), None)


def test_a_run_that_is_moved_is_taken_up_where_it_is(cli: Cli, run_yaml: Path) -> None:
    run = submitted(cli, run_yaml)
    eventually(lambda: ended_jobs(run) >= JOBS // 4)
    moved = run.rename(run.with_name("elsewhere"))
    eventually(lambda: cli("status", moved).returncode != 15)
    report = finish(cli, moved)
    check_promise(moved, report, run_yaml.parent / "notes")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a small disk")
def test_a_disk_that_fills_up_is_waited_for(cli: Cli, run_yaml: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk], check=True)
    try:
        run = submitted(cli, run_yaml, "--set", f"submitPath={disk}/run")
        eventually(lambda: ended_jobs(run) >= 2)
        ballast = disk / "ballast"
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 1024)
        time.sleep(1.5)
        assert cli("status", run).returncode == 15
        ballast.unlink()
        report = finish(cli, run)
        check_promise(run, report, run_yaml.parent / "notes")
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
