"""A live run is steered: paused, throttled, held, released, given other requests; `status` and `report` say so."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.command import Cli, CommandResult
from tests.waiting import rest, whole_lines
from tests.workflows import Tasks, WriteRun

CHAIN: Tasks = {"a": ("A", []), "b": ("B", ["a"]), "c": ("C", ["b"])}
WAITS = """
requestMemory: 10
runQuantumCommand: 'while test ! -e ${PWD}/go; do sleep 0.05; done; echo $LONGSHORE_JOB_NAME $LONGSHORE_JOB_MEMORY_MB'
"""


def submitted(cli: Cli, path: Path) -> str:
    answer = cli("submit", path, "--json")
    assert answer.returncode == 0, answer.stderr
    return str(answer.json["submit_dir"])


def events(run: str, kind: str) -> list[dict[str, Any]]:
    lines = [line for file in sorted(Path(run, "journal").glob("*.jsonl")) for line in whole_lines(file)]
    return [event for event in map(json.loads, lines) if event["e"] == kind]


def eventually(look: Callable[[], CommandResult], good: Callable[[CommandResult], object]) -> CommandResult:
    deadline = time.monotonic() + 120
    while True:
        began = time.monotonic()
        if good(answer := look()):
            return answer
        assert time.monotonic() < deadline, answer
        rest(began, 0.05)


def states(cli: Cli, run: str) -> dict[str, str]:
    (found,) = cli("report", run, "--json").json["runs"]
    assert sum(found["counts"].values()) == found["expected"]
    return {job["name"]: job["state"] for job in found["jobs"]}


def test_a_paused_run_shows_why_and_starts_nothing(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    run = submitted(cli, write_run(WAITS, CHAIN))
    eventually(lambda: cli("report", run, "--json"), lambda ran: ran.json["runs"][0]["counts"]["RUNNING"] == 1)
    paused = cli("pause", run, "--why", "the archive is down", "--json")
    assert paused.returncode == 0
    assert (paused.json["kind"], paused.json["act"], paused.json["set"]["why"]) == (
        "steer",
        "pause",
        "the archive is down",
    )
    assert (paused.json["state"], paused.json["paused"]) == ("RUNNING", True)
    (event,) = events(run, "steer")
    assert event["act"] == "pause"
    assert event["who"]
    assert event["t"] > 1e9
    (tmp_path / "go").touch()
    eventually(lambda: cli("report", run, "--json"), lambda ran: ran.json["runs"][0]["counts"]["SUCCEEDED"] == 1)
    status = eventually(lambda: cli("status", run), lambda ran: "PAUSED" in ran.stderr)
    assert status.returncode == 15
    run_id = json.loads(Path(run, "run.json").read_text("utf-8"))["id"]
    why = f"PAUSED: the archive is down; no job starts; to continue it: longshore unpause {run_id}"
    assert why in status.stderr
    assert why in cli("report", run).stdout
    assert states(cli, run) == {"a": "SUCCEEDED", "b": "READY", "c": "UNREADY"}
    listed = cli("report")
    assert "is PAUSED" in listed.stderr
    assert "PAUSED" not in listed.stdout, "BPS's table"
    for job in ("b", "c"):
        explained = cli("explain", run, job).stdout
        assert "The run is PAUSED: the archive is down; to continue it: longshore unpause " in explained
        assert "There is room" not in explained
    assert cli("explain", run, "b", "--json").json["paused"] is True
    went_on = cli("unpause", run_id)
    assert went_on.returncode == 0
    assert went_on.stdout.startswith("unpause: ")
    assert "PAUSED" not in went_on.stdout + went_on.stderr
    eventually(lambda: cli("status", run), lambda ran: ran.returncode == 0)
    assert "PAUSED: " not in cli("report", run).stdout


def test_what_is_held_is_held_and_so_is_the_run(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    run = submitted(cli, write_run(WAITS, CHAIN))
    assert cli("hold", run, "b").returncode == 0
    (tmp_path / "go").touch()
    held = eventually(lambda: cli("status", run), lambda ran: ran.returncode != 15)
    assert (held.returncode, held.stdout) == (17, "HELD\n")
    assert states(cli, run) == {"a": "SUCCEEDED", "b": "HELD", "c": "UNREADY"}
    nothing = cli("hold", run, "a")
    assert nothing.returncode == 6
    assert "nothing to hold: 'a' is SUCCEEDED" in nothing.stderr
    assert cli("release", run, "--label", "B").returncode == 0
    eventually(lambda: cli("status", run), lambda ran: ran.returncode == 0)
    over = cli("pause", run)
    assert over.returncode == 6
    assert "is SUCCEEDED" in over.stderr


def test_jobs_that_have_not_started_get_other_requests(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    run = submitted(cli, write_run(WAITS, CHAIN))
    assert cli("set", run, "requestMemory=20", "--label", "B", "--label", "C").returncode == 0
    assert cli("set", run, "requestMemory=30", "--job", "c").returncode == 0
    (tmp_path / "go").touch()
    eventually(lambda: cli("status", run), lambda ran: ran.returncode == 0)
    logs = sorted(path.read_text("utf-8") for path in Path(run, "logs").rglob("*.log"))
    assert logs == ["a 10\n", "b 20\n", "c 30\n"]


def test_what_can_never_be_given_cannot_be_set(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    run = submitted(cli, write_run(f"resources: {{cpus: 2, memory: 100}}\n{WAITS}", CHAIN))
    for words, said in {
        "requestCpus=3": "'requestCpus=3' asks for 3 of 'cpus', and there are only 2",
        "requestMemory=101": "'requestMemory=101' asks for 101 MiB of 'memory', and there are only 100 MiB",
        "requestResources.gpu=1": "asks for 1 of 'gpu', which this machine does not count",
    }.items():
        refused = cli("set", run, words, "--label", "C")
        assert refused.returncode == 7
        assert said in refused.stderr
    assert cli("set", run, "requestCpus=2", "--label", "C").returncode == 0
    (tmp_path / "go").touch()
    eventually(lambda: cli("status", run), lambda ran: ran.returncode == 0)
    assert Path(run, "journal", "0001.jsonl").read_text("utf-8").count('"e":"steer"') == 1


def test_a_throttle_is_kept_and_lifted(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    wide: Tasks = {f"w{number}": ("W", []) for number in range(8)}
    run = submitted(cli, write_run(f"resources: {{cpus: 4}}\n{WAITS}", {"a": ("A", []), **wide}))
    assert cli("throttle", run, "--max", "1", "--label", "W").returncode == 0
    run_id = json.loads(Path(run, "run.json").read_text("utf-8"))["id"]
    shown = f"throttled: at most 1 of 'W' at once; to lift it: longshore throttle {run_id} --off"
    eventually(lambda: cli("status", run), lambda ran: shown in ran.stderr)
    assert shown in cli("report", run).stdout
    lifted = cli("throttle", run_id, "--off")
    assert (lifted.returncode, "throttled:" in lifted.stderr) == (0, False), "that is what this command does"
    eventually(lambda: cli("status", run), lambda ran: "throttled:" not in ran.stderr)
    assert cli("throttle", run, "--max", "1", "--label", "W").returncode == 0
    (tmp_path / "go").touch()
    eventually(lambda: cli("status", run), lambda ran: ran.returncode == 0)
    throttled = False
    taken: set[tuple[int, int]] = set()
    for line in Path(run, "journal", "0001.jsonl").read_text("utf-8").splitlines():
        event = json.loads(line)
        throttled = throttled or event["e"] == "steer"
        if event["e"] == "ended":
            taken.discard((event["j"], event["a"]))
        elif event["e"] == "submitting":
            taken.update((job, attempt) for job, attempt in event["jobs"] if job > 0)
            assert not throttled or len(taken) <= 1
    assert throttled
    assert "throttled" not in cli("report", run).stdout
    assert cli("throttle", run).returncode == 2


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("hold", "aa"), 5, "Did you mean 'a'?"),
        (("hold", "--label", "AA"), 5, "has no label 'AA'"),
        (("set", "requestMemroy=1"), 2, "Did you mean 'requestMemory'?"),
        (("set", "requestMemory"), 2, "'requestMemory' is no KEY=VALUE"),
        (("set", "requestMemory=much"), 3, "'requestMemory' must be an amount"),
        (("throttle", "--max", "0"), 2, "0 is not in the range"),
        (("throttle", "--max", "2", "--off"), 2, "--max 4, or --off"),
    ],
)
def test_what_cannot_be_ordered_is_told(
    cli: Cli, write_run: WriteRun, words: tuple[str, ...], status: int, told: str
) -> None:
    act, *rest = words
    run = submitted(cli, write_run("runQuantumCommand: sleep 60\nrequestMemory: 10\n"))
    ran = cli(act, run, *rest, "--json")
    assert ran.returncode == status
    assert told in ran.stderr
    assert ran.json["error"]["exit_status"] == status
    assert cli("cancel", run).returncode == 0
    assert not events(run, "steer")[:-1]


def test_an_order_to_a_run_without_an_engine_waits_for_the_next(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    run = submitted(cli, write_run(WAITS, CHAIN))
    os.kill(int(events(run, "life")[0]["pid"]), signal.SIGKILL)
    eventually(lambda: cli("status", run), lambda ran: ran.returncode == 10)
    waits = cli("hold", run, "b")
    assert waits.returncode == 0
    assert "no engine runs: the next one takes the order" in waits.stderr
    assert cli("resume", run).returncode == 0
    (tmp_path / "go").touch()
    eventually(lambda: cli("status", run), lambda ran: ran.returncode == 17)
    assert cli("cancel", run).returncode == 0
    assert states(cli, run) == {"a": "SUCCEEDED", "b": "DELETED", "c": "DELETED"}
