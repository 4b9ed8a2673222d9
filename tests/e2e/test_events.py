"""``longshore events``: all that happened, in order, with names, and as it comes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.command import Cli
from tests.waiting import engine_of
from tests.workflows import Tasks, WriteRun

TWO: Tasks = {"a": ("A", []), "b": ("B", ["a"])}


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_all_that_happened(cli: Cli, write_run: WriteRun) -> None:
    run = cli(
        "submit", write_run("runQuantumCommand: 'exit 3'\nnumberOfRetries: 1\n", TWO).name, "--wait", "--json"
    ).json
    events = lines(cli("events", "@last").stdout)
    assert [(event["event"], event.get("attempt")) for event in events] == [
        ("life", None),
        ("submitting", None),
        ("submitted", None),
        ("started", 1),
        ("ended", 1),
        ("retry", 2),
        ("submitting", None),
        ("submitted", None),
        ("started", 2),
        ("ended", 2),
        ("failed", None),
        ("finished", None),
    ]
    assert {event["run"] for event in events} == {run["id"]}
    assert [event["job"] for event in events if "job" in event] == ["a"] * 6
    assert events[1]["jobs"] == [{"job": "a", "index": 0, "label": "A", "attempt": 1}]
    assert events[1]["request"]["cpus"] == 1
    assert (events[4]["exit_code"], events[4]["cause"]) == (3, "EXIT")
    assert events[-1]["state"] == "FAILED"
    rest = lines(cli("events", "@last", "--since", events[8]["mark"]).stdout)
    assert rest == events[9:]
    assert lines(cli("events", "@last", "--follow").stdout) == events, "what is over is not waited for"
    wrong = cli("events", "@last", "--since", "yesterday")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "'yesterday' is no mark" in wrong.stderr


def follow(cwd: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "longshore", "events", "@last", "--follow"]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_following_a_run_to_its_end(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    wait = f"while [ ! -e {tmp_path / 'go'} ]; do sleep 0.05; done"
    cli("submit", write_run(f"runQuantumCommand: '{wait}'\n", TWO).name)
    with follow(tmp_path) as followed:
        assert followed.stdout is not None
        while json.loads(line := followed.stdout.readline())["event"] != "started":
            pass
        assert json.loads(line)["job"] == "a"
        (tmp_path / "go").touch()
        rest, said = followed.communicate(timeout=120)
    events = lines(rest)
    assert (events[-1]["event"], events[-1]["state"], said, followed.returncode) == ("finished", "SUCCEEDED", "", 0)
    assert [event["job"] for event in events if event["event"] == "ended"] == ["a", "b"]


def test_following_across_lives_of_the_engine(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    """What two lives wrote is one sequence, whether it is read at once or in two parts."""
    wait = f"while [ ! -e {tmp_path / 'go'} ]; do sleep 0.05; done"
    run = Path(cli("submit", write_run(f"runQuantumCommand: '{wait}'\n", TWO).name, "--json").json["submit_dir"])
    os.kill(engine_of(run), signal.SIGKILL)
    with follow(tmp_path) as followed:
        first, said = followed.communicate(timeout=120)
    assert followed.returncode == 10
    assert "engine not running since" in said
    (tmp_path / "go").touch()
    cli("resume", "@last")
    mark = lines(first)[-1]["mark"]
    rest = lines(cli("events", "@last", "--follow", "--since", mark).stdout)
    assert rest[0]["event"] == "life"
    assert rest[0]["mark"] == "2.0"
    assert rest[-1]["event"] == "finished"
    assert lines(first) + rest == lines(cli("events", "@last").stdout)
