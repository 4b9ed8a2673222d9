"""`restart` runs again what did not succeed, and nothing else; `resume --all` takes up what has lost its engine."""

from __future__ import annotations

import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.command import Cli
from tests.waiting import engine_of
from tests.workflows import Tasks, WriteRun, in_place

CHAIN: Tasks = {"a": ("A", []), "b": ("B", ["a"]), "c": ("C", ["b"]), "d": ("D", [])}
ORDER = "adbc"
"""The jobs in the order of the run: what others wait for comes before them."""
YAML = """
runQuantumCommand: echo {jobName} >> ${PWD}/notes
requestMemory: 10
numberOfRetries: 0
pipetask:
  B: {runQuantumCommand: "test -e ${PWD}/mended && echo {jobName} >> ${PWD}/notes"}
"""


def test_only_what_did_not_succeed_runs_again(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    first = cli("submit", write_run(YAML, CHAIN), "--wait", "--json")
    assert first.returncode == 19
    run = first.json["submit_dir"]
    plan = cli("restart", run, "--dry-run", "--json")
    assert plan.returncode == 0
    assert plan.json["again"] == {"B": {"FAILED": 1}, "C": {"PRUNED": 1}}
    assert plan.json["reasons"] == {"B": {"failed": 1}, "C": {"pruned": 1}}
    assert plan.json["submitted"] is False
    words = cli("restart", run, "--dry-run").stderr
    assert "B: 1 failed" in words
    assert "C: 1 waited for one that failed or was cancelled" in words
    (tmp_path / "mended").touch()
    again = cli("restart", "--id", run)
    assert again.returncode == 0, again.stderr
    assert f"Run Id: {first.json['id']}" in again.stdout
    assert "Run Name: " in again.stdout
    assert _end(cli, run) == 0
    assert sorted((tmp_path / "notes").read_text("utf-8").split()) == ["a", "b", "c", "d"]
    card = json.loads(Path(run, "run.json").read_text("utf-8"))
    assert [submission["by"] for submission in card["submissions"]] == ["submit", "restart"]


def test_what_is_named_runs_again_with_what_descends_from_it(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    (tmp_path / "mended").touch()
    run = cli("submit", write_run(YAML, CHAIN), "--wait", "--json").json["submit_dir"]
    plan = cli("restart", run, "--from", "B", "--rerun-failed", "--dry-run", "--json").json
    assert plan["again"] == {"B": {"SUCCEEDED": 1}, "C": {"SUCCEEDED": 1}}
    assert plan["reasons"] == {"B": {"named": 1}, "C": {"descends": 1}}
    assert (plan["from"], plan["submitted"]) == (["B"], False)
    said = cli("restart", run, "--from", "B", "--dry-run").stderr
    assert "B: 1 succeeded, named by --from" in said
    assert "C: 1 succeeded, descends from 'B'" in said
    again = cli("restart", run, "--from", "B", "--wait", "--json")
    assert again.returncode == 0, again.stderr
    assert (again.json["state"], again.json["exit_status"]) == ("SUCCEEDED", 0)
    assert (tmp_path / "notes").read_text("utf-8").split().count("a") == 1
    assert sorted((tmp_path / "notes").read_text("utf-8").split()) == ["a", "b", "b", "c", "c", "d"]
    assert "it is to run again, in a restart of" in cli("explain", run, "c").stdout
    assert "from B" in cli("explain", run, "c").stdout
    assert "restart" not in cli("explain", run, "a").stdout
    assert cli("status", run, "--json").json["counts"]["SUCCEEDED"] == 4


def test_what_is_set_holds_for_what_runs_again_and_is_explained(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    run = cli("submit", write_run(YAML, CHAIN), "--wait", "--json").json["submit_dir"]
    (tmp_path / "mended").touch()
    values = ("--set", "requestMemory=20", "--set", "numberOfRetries=1")
    plan = cli("restart", run, *values, "--label", "B", "--dry-run", "--json").json
    assert plan["set"] == {"requestMemory": "20", "numberOfRetries": "1"}
    assert (plan["set_for"], plan["set_of"]) == ({"jobs": [], "labels": ["B"]}, 1)
    assert not list(Path(run).glob("steer/*")), "a dry run leaves nothing"
    again = cli("restart", run, *values, "--label", "B")
    assert again.returncode == 0, again.stderr
    assert "requestMemory=20, numberOfRetries=1 is set for 1 of them" in again.stderr
    assert _end(cli, run) == 0
    asked = {name: _asked(run, job) for job, name in enumerate(ORDER)}
    mib = 1 << 20
    assert asked == {"a": [10 * mib], "b": [10 * mib, 20 * mib], "c": [10 * mib], "d": [10 * mib]}
    assert "ordered: set labels B (requestMemory=20, numberOfRetries=1)" in cli("explain", run, "b").stdout
    assert "requestMemory=20" not in cli("explain", run, "c").stdout
    assert not list(Path(run).glob("steer/*"))


def test_what_is_set_of_a_job_is_not_set_of_others(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    run = cli("submit", write_run(YAML, CHAIN), "--wait", "--json").json["submit_dir"]
    (tmp_path / "mended").touch()
    again = cli("restart", run, "--set", "requestMemory=20", "--job", "c", "--json")
    assert again.returncode == 0, again.stderr
    assert (again.json["set_for"], again.json["set_of"]) == ({"jobs": ["c"], "labels": []}, 1)
    assert _end(cli, run) == 0
    assert [_asked(run, ORDER.index(name))[-1] >> 20 for name in "abcd"] == [10, 10, 20, 10]
    assert "ordered: set jobs c (requestMemory=20)" in cli("explain", run, "c").stdout
    assert "requestMemory=20" not in cli("explain", run, "b").stdout


def test_the_final_job_runs_again_and_its_record_says_so(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    final = f"finalJob: {{whenRun: ALWAYS, command1: 'echo final >> {tmp_path}/notes'}}\n"
    run = cli("submit", write_run(YAML + final, CHAIN), "--wait", "--json").json["submit_dir"]
    assert cli("restart", run, "--dry-run", "--json").json["reasons"]["finalJob"] == {"final": 1}
    (tmp_path / "mended").touch()
    assert cli("restart", run).returncode == 0
    assert _end(cli, run) == 0
    assert (tmp_path / "notes").read_text("utf-8").split().count("final") == 2
    (job,) = [job for job in cli("report", run, "--json").json["runs"][0]["jobs"] if job["label"] == "finalJob"]
    assert (job["state"], job["attempts"], job["cause"]) == ("SUCCEEDED", 2, None)
    told = cli("explain", run, "finalJob", "--json").json
    assert [attempt["number"] for attempt in told["attempts"]] == [1, 2]
    (restarted,) = [event for event in told["history"] if event["event"] == "restarted"]
    assert [each["job"] for each in restarted["jobs"]] == ["finalJob"]


def test_of_two_restarts_at_once_each_is_told_what_became_of_it(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    run = cli("submit", write_run(YAML, CHAIN), "--wait", "--json").json["submit_dir"]
    with ThreadPoolExecutor() as pool:
        both = list(pool.map(lambda value: cli("restart", run, "--set", f"requestMemory={value}"), (20, 30)))
    taken = [value for value, again in zip((20, 30), both, strict=True) if again.returncode == 0]
    assert taken, [again.stderr for again in both]
    assert {again.returncode for again in both} <= {0, 6}, [again.stderr for again in both]
    assert _end(cli, run) == 19
    card = json.loads(Path(run, "run.json").read_text("utf-8"))
    assert [submission["by"] for submission in card["submissions"]] == ["submit", *["restart"] * len(taken)]
    assert sorted(_asked(run, ORDER.index("b"))[1:]) == [value << 20 for value in taken], "no order was taken back"


def test_each_restart_is_a_submission(cli: Cli, write_run: WriteRun) -> None:
    run = cli("submit", write_run(YAML, CHAIN), "--wait", "--json").json["submit_dir"]
    for _ in range(2):
        assert cli("restart", run, "--wait").returncode == 19, "right after the end of the run"
    card = json.loads(Path(run, "run.json").read_text("utf-8"))
    assert [submission["by"] for submission in card["submissions"]] == ["submit", "restart", "restart"]


def test_what_is_under_way_when_the_engine_died_is_not_run_a_second_time(cli: Cli, write_run: WriteRun) -> None:
    slow = "runQuantumCommand: sleep 60\nrequestMemory: 10\n"
    run = cli("submit", write_run(slow, CHAIN), "--json").json["submit_dir"]
    deadline = time.monotonic() + 120
    while not cli("status", run, "--json").json["counts"]["RUNNING"]:
        assert time.monotonic() < deadline
    os.kill(engine_of(run), signal.SIGKILL)
    while cli("status", run).returncode != 10:
        assert time.monotonic() < deadline
    for options in (("--from", "A"), ("--from", "A", "--dry-run")):
        again = cli("restart", run, *options)
        assert again.returncode == 6
        assert "jobs to run again were active when the engine of run" in again.stderr
        assert "died: 'a'" in again.stderr
        assert "longshore resume" in again.stderr
    card = json.loads(Path(run, "run.json").read_text("utf-8"))
    assert [submission["by"] for submission in card["submissions"]] == ["submit"]
    assert cli("cancel", run).returncode == 0


def test_what_is_set_of_all_is_part_of_the_restart(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    run = cli("submit", write_run(YAML, CHAIN), "--wait", "--json").json["submit_dir"]
    (tmp_path / "mended").touch()
    assert cli("restart", run, "--set", "requestMemory=20").returncode == 0
    assert _end(cli, run) == 0
    assert [_asked(run, ORDER.index(name))[-1] >> 20 for name in "abcd"] == [10, 20, 20, 10]
    assert "with requestMemory=20" in cli("explain", run, "c").stdout


REFUSED: list[tuple[tuple[str, ...], int, str]] = [
    (("--label", "B"), 2, "add --set KEY=VALUE"),
    (("--job", "b"), 2, "add --set KEY=VALUE"),
    (("--set", "requestMemry=20"), 2, "Did you mean 'requestMemory'?"),
    (("--set", "requestMemory"), 2, "'requestMemory' is no KEY=VALUE"),
    (("--from", "calibrat"), 5, "Did you mean 'calibrate'?"),
    (("--set", "requestMemory=20", "--label", "calibrat"), 5, "Did you mean 'calibrate'?"),
    (("--set", "requestMemory=20", "--job", "visit_3"), 5, "Did you mean 'visit_1'?"),
    (("--set", "requestMemory=20"), 6, "every job of run"),
    (
        ("--set", "requestMemory=20", "--from", "last", "--label", "calibrate"),
        6,
        "no job of 'calibrate' runs again",
    ),
]
"""Options, exit status, and words of the refusal."""


def test_what_cannot_be_done_is_refused_with_the_way_out(cli: Cli, write_run: WriteRun) -> None:
    tasks: Tasks = {"visit_1": ("calibrate", []), "sum": ("last", ["visit_1"])}
    run = cli("submit", write_run("runQuantumCommand: 'true'\nrequestMemory: 10\n", tasks), "--wait", "--json").json
    for options, status, words in REFUSED:
        again = cli("restart", run["submit_dir"], *options)
        assert (again.returncode, "Traceback" in again.stderr) == (status, False), options
        assert words in " ".join(again.stderr.split()), options


def test_a_finished_run_has_nothing_to_do(cli: Cli, write_run: WriteRun) -> None:
    final = "finalJob: {command: 'true', requestMemory: 10}"
    made = cli("transform", write_run())
    assert "contains 1 job(s) (0" in made.stdout, "a run without a final job counts none"
    run = cli("submit", write_run(final), "--wait", "--json").json["submit_dir"]
    again = cli("restart", run)
    assert again.returncode == 0
    assert "nothing to run again: every job" in again.stderr
    assert "--from finalJob the final job" in again.stderr


def test_a_running_run_is_refused_with_its_state(cli: Cli, write_run: WriteRun) -> None:
    run = cli("submit", write_run("runQuantumCommand: sleep 60\n"), "--json").json["submit_dir"]
    for options in ((), ("--dry-run",), ("--from", "A"), ("--set", "requestMemory=20")):
        again = cli("restart", run, *options)
        assert again.returncode == 6
        assert "RUNNING" in again.stderr
    assert cli("cancel", run).returncode == 0


def test_a_cancelled_run_can_be_restarted(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    slow = "runQuantumCommand: test -e ${PWD}/mended || sleep 60\nrequestMemory: 10\n"
    run = cli("submit", write_run(slow, CHAIN), "--json").json["submit_dir"]
    assert cli("cancel", run).returncode == 0
    assert cli("status", run).returncode == 16
    (tmp_path / "mended").touch()
    assert cli("restart", run).returncode == 0
    assert _end(cli, run) == 0


def test_a_link_is_made_by_id_and_renewed(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    path = write_run("runQuantumCommand: 'false'\nnumberOfRetries: 0\nmakeIdLink: true\n")
    first = cli("submit", path, "--wait", "--json").json
    link = tmp_path / "bps_links" / first["id"]
    assert link.resolve() == Path(first["submit_dir"]).resolve()
    link.unlink()
    assert cli("restart", first["id"]).returncode == 0
    assert link.resolve() == Path(first["submit_dir"]).resolve()
    assert _end(cli, first["id"]) == 19


def test_a_link_that_cannot_be_made_is_only_a_note(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    (tmp_path / "bps_links").touch()
    ran = cli("submit", write_run(), "--make-id-link", "--wait")
    assert ran.returncode == 0
    assert "could not make the id softlink" in ran.stderr


def test_every_run_that_lost_its_engine_is_taken_up(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    done = cli("submit", write_run(name="other.yaml"), "--wait", "--json").json["submit_dir"]
    slow = write_run("runQuantumCommand: sleep 2\nrequestMemory: 10\n", CHAIN)
    runs = []
    for number in range(2):
        runs.append(cli("submit", slow, "--json", *in_place(number)).json["submit_dir"])
        os.kill(engine_of(runs[-1]), signal.SIGKILL)
    deadline = time.monotonic() + 120
    while {cli("status", run).returncode for run in runs} != {10}:
        assert time.monotonic() < deadline
    resumed = cli("resume", "--all", "--json")
    assert resumed.returncode == 0, resumed.stderr
    assert sorted(run["submit_dir"] for run in resumed.json["runs"]) == sorted(runs)
    assert {_end(cli, run) for run in [*runs, done]} == {0}
    assert "nothing to resume" in cli("resume", "--all").stderr


def _asked(run: str, job: int) -> list[int]:
    """The memory each attempt of a job was handed over with."""
    events = [event for path in sorted(Path(run, "journal").glob("*.jsonl")) for event in _events(path)]
    handed = [event for event in events if event["e"] == "submitting"]
    return [event["request"]["memory_b"] for event in handed if job in [member for member, _ in event["jobs"]]]


def _events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _end(cli: Cli, run: str) -> int:
    """Exit status of `status` when the run is over."""
    deadline = time.monotonic() + 120
    while (status := cli("status", run)).returncode == 15:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return status.returncode
