"""``longshore explain`` and ``show-job``: why a job stands where it does, and what exactly it runs."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.command import Cli
from tests.journal_lines import lines_of
from tests.waiting import engine_of
from tests.workflows import Tasks, WriteRun

CHAIN: Tasks = {"a": ("A", []), "b": ("B", ["a"]), "c": ("C", ["b"]), "d": ("D", ["c"]), "z": ("A", [])}
FAILING = "pipetask: {A: {runQuantumCommand: 'echo oops; [ {name} = z ] || exit 3', numberOfRetries: 1}}\n"
WAITING = "runQuantumCommand: 'while [ ! -e {go} ]; do sleep 0.05; done'\nresources: {{cpus: 1}}\n"


def test_a_failure_and_what_it_pruned(cli: Cli, write_run: WriteRun) -> None:
    run = cli(
        "submit",
        write_run(FAILING.replace("[ {name} = z ]", "[ $LONGSHORE_JOB_NAME = z ]"), CHAIN).name,
        "--wait",
        "--json",
    ).json
    log = f"{run['submit_dir']}/logs/A/00/a.2.log"
    failed = cli("explain", "@last", "a").stdout
    assert f"a (number 0, label A) of run {run['id']} is FAILED." in failed
    assert "Its attempt 2 ended badly: exit code 3." in failed
    assert "It was not tried again: no attempt left: numberOfRetries is 1." in failed
    assert f"  log {log}\n" in failed
    assert "it is tried again as attempt 2, because of EXIT" in failed
    pruned = cli("explain", "@last", "d").stdout
    assert "is PRUNED.\n  It descends from:\n" in pruned
    assert f"  a (FAILED: exit code 3, log {log})" in pruned
    document = cli("explain", "@last", "d", "--json").json
    assert [(cause["name"], cause["state"], cause["attempt"]["exit_code"]) for cause in document["causes"]] == [
        ("a", "FAILED", 3)
    ]
    assert document["attempts"] == document["history"] == []
    good = cli("explain", "@last", "z", "--json").json
    assert (good["state"], len(good["attempts"]), good["causes"]) == ("SUCCEEDED", 1, [])
    assert [event["event"] for event in good["history"]] == ["submitting", "submitted", "started", "ended"]
    cli("restart", "@last")
    cli("events", "@last", "--follow")
    again = cli("explain", "@last", "a").stdout
    assert "it is to run again, in a restart" in again
    assert "Attempt 4: exit code 3" in again


def test_a_run_under_way_and_one_that_was_cancelled(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    cli("submit", write_run(WAITING.format(go=tmp_path / "go"), CHAIN).name)
    while cli("explain", "@last", "a", "--json").json["state"] != "RUNNING":
        time.sleep(0.1)
    assert "Its attempt 1 runs on " in cli("explain", "@last", "a").stdout
    waiting = cli("explain", "@last", "d", "--json").json
    assert waiting["state"] == "UNREADY"
    assert [other["name"] for other in waiting["waits_for"]] == ["c"]
    assert [(other["name"], other["state"]) for other in waiting["causes"]] == [("a", "RUNNING")]
    assert waiting["reasons"] == [
        "1 of its 1 parent has not succeeded yet: c (UNREADY).",
        "In the end it waits for a (RUNNING).",
    ]
    ready = cli("explain", "@last", "z", "--json").json
    assert ready["state"] == "READY"
    assert (ready["room"]["capacity"]["cpus"], ready["room"]["free"]["cpus"], ready["room"]["fits"]) == (1, 0, False)
    assert ready["reasons"] == [
        "There is not enough room: it asks for 1 of cpus, and 0 is free; 1 job has the rest.",
    ]
    cli("cancel", "@last", "--job", "a")
    while cli("explain", "@last", "a", "--json").json["state"] != "DELETED":
        time.sleep(0.1)
    cancelled = cli("explain", "@last", "a")
    assert "It was cancelled by " in cancelled.stdout
    assert "ordered: cancel jobs a" in cancelled.stdout
    assert "descends from:\n    a (DELETED, log " in cli("explain", "@last", "b").stdout
    (tmp_path / "go").touch()
    assert json.loads(cli("events", "@last", "--follow").stdout.splitlines()[-1])["event"] == "finished"


def test_what_somebody_keeps_from_starting(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    tasks: Tasks = {name: ("A", []) for name in "abcd"}
    run = cli("submit", write_run(WAITING.format(go=tmp_path / "go"), tasks).name, "--json").json["id"]
    while cli("explain", "@last", "a", "--json").json["state"] != "RUNNING":
        time.sleep(0.1)
    assert cli("throttle", "@last", "--max", "1", "--label", "A").returncode == 0
    assert cli("throttle", "@last", "--max", "3").returncode == 0
    assert cli("hold", "@last", "--job", "d").returncode == 0
    held = cli("explain", "@last", "d").stdout
    assert " is HELD.\n  It was held by " in held
    assert f"to let it go on: longshore release {run} --job d\n" in held
    bounds = [{"label": "A", "max": 1, "active": 1}, {"label": None, "max": 3, "active": 1}]
    deadline = time.monotonic() + 120
    # How many are active is told as of the engine's newest snapshot.
    while (throttled := cli("explain", "@last", "c", "--json").json)["throttles"] != bounds:
        assert time.monotonic() < deadline, throttled
        time.sleep(0.1)
    assert throttled["reasons"][0] == (
        f"It is throttled: at most 1 job of label A may be active at once, and 1 is: "
        f"longshore throttle {run} --off --label A"
    )
    assert cli("cancel", "@last").returncode == 0
    assert cli("explain", "@last", "c", "--json").json["throttles"] == []


def test_a_run_whose_engine_died(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:

    run = Path(cli("submit", write_run(WAITING.format(go=tmp_path / "go"), CHAIN).name, "--json").json["submit_dir"])
    while cli("explain", "@last", "a", "--json").json["state"] != "RUNNING":
        time.sleep(0.1)
    os.kill(engine_of(run), 9)
    said = cli("explain", "@last", "a").stdout
    assert "is UNKNOWN.\n" in said
    assert "The engine is not running since" in said
    assert f"longshore resume {cli('show-job', '@last', 'a', '--json').json['run']}" in said
    assert "longshore resume" in cli("explain", "@last", "d").stdout
    (tmp_path / "go").touch()
    cli("resume", "@last")
    cli("events", "@last", "--follow")
    assert "longshore resume" not in cli("explain", "@last", "d").stdout


def test_a_final_job_explains_itself(cli: Cli, write_run: WriteRun) -> None:
    text = "pipetask: {A: {runQuantumCommand: 'exit 1'}}\nfinalJob: {whenRun: SUCCESS, command1: 'echo all'}\n"
    cli("submit", write_run("runQuantumCommand: 'true'\n" + text, CHAIN).name, "--wait")
    explained = cli("explain", "@last", "finalJob", "--json")
    assert explained.returncode == 0, explained.stderr
    assert explained.json["state"] in {"PRUNED", "DELETED", "FAILED", "SUCCEEDED"}


@pytest.mark.parametrize("command", ["explain", "show-job"])
def test_jobs_that_are_not_there(command: str, cli: Cli, write_run: WriteRun) -> None:
    cli("submit", write_run(tasks={"calibrate_1": ("C", []), "calibrate_2": ("C", [])}).name, "--wait")
    wrong = cli(command, "@last", "calibrat_1")
    assert (wrong.returncode, wrong.stdout) == (5, "")
    assert "has no job 'calibrat_1'\n  Did you mean 'calibrate_1'?" in wrong.stderr
    assert "is the beginning of 2 job names" in cli(command, "@last", "cal").stderr
    assert cli(command, "@last", "1").returncode == 0


def test_a_torn_run_says_what_is_wrong(cli: Cli, write_run: WriteRun) -> None:
    run = Path(cli("submit", write_run().name, "--wait", "--json").json["submit_dir"])
    journal = run / "journal" / "0001.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"e":"started","j":')
    assert cli("explain", run, "a").returncode == 0, "an engine may be writing its last line"
    journal.write_bytes(whole.replace(b'"e":"started"', b'"e":"stirred"', 1))
    commands: list[tuple[list[str | Path], int]] = [
        (["explain", run, "a"], 0),
        (["show-job", run, "a"], 0),
        (["events", run], 5),
        (["logs", run, "--failed"], 0),
    ]
    for command, status in commands:
        ran = cli(*command)
        assert ran.returncode == status, command
        assert f"'{journal}', line 4: it is not as it was written" in ran.stderr
    newer = json.loads(whole.splitlines()[0]) | {"v": 99}
    del newer["c"]
    journal.write_bytes(lines_of([newer]))
    refused = cli("explain", run, "a")
    assert refused.returncode == 5
    assert "format 99" in refused.stderr
    journal.write_bytes(whole)
    (run / "workflow.jsonl").write_bytes((run / "workflow.jsonl").read_bytes()[:-20])
    torn = cli("explain", run, "a")
    assert torn.returncode == 5
    assert "torn" in torn.stderr


def test_the_script_of_a_job_runs_it_again(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    text = (
        "runQuantumCommand: 'echo \"$GREETING, $LONGSHORE_JOB_NAME attempt $LONGSHORE_JOB_ATTEMPT\"; cat; exit 4'\n"
        "environment: {GREETING: \"it's a 'b'\", DB_PASSWORD: hunter2, PLACE: 'https://me:hunter2@host/x'}\n"
        "numberOfRetries: 1\n"
    )
    cli("submit", write_run(text).name, "--wait")
    shown = cli("show-job", "@last", "a")
    assert "hunter2" not in shown.stdout
    assert "DB_PASSWORD=(hidden: it looks like a secret)" in shown.stdout
    document = cli("show-job", "@last", "a", "--json").json
    assert document["environment"]["GREETING"] == "it's a 'b'"
    assert (document["environment"]["DB_PASSWORD"], document["hidden"]) == (None, ["DB_PASSWORD", "PLACE"])
    assert (document["attempt"], document["attempts"]) == (2, 2)
    environment = {**os.environ, "DB_PASSWORD": "x", "PLACE": "y"}
    for attempt in ("1", "2"):
        script = cli("show-job", "@last", "a", "--attempt", attempt, "--script").stdout
        assert "hunter2" not in script
        done = subprocess.run(
            ["sh"], input=script, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert (
            done.stdout
            == f"it's a 'b', a attempt {attempt}\n"
            == cli("logs", "@last", "a", "--attempt", attempt).stdout
        )
        assert done.returncode == 4
    wrong = cli("show-job", "@last", "a", "--attempt", "3")
    assert (wrong.returncode, wrong.stdout) == (5, "")
    assert "has no attempt 3\n  It has had: 1, 2." in wrong.stderr


def test_links_of_a_job(cli: Cli, write_run: WriteRun) -> None:
    said = cli("prepare", write_run(tasks=CHAIN).name).stdout
    run = said.split("Submit dir: ")[1].split("\n")[0]
    document = cli("show-job", run, "b", "--json").json
    assert (document["parents"], document["children"], document["attempts"]) == (["a"], ["c"], 0)
    assert "not begun yet" in cli("show-job", run, "b").stdout


def test_a_secret_in_a_command_is_not_shown(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(
        "pipeline:\n  tasks:\n    a: {command: 'printf %s. \"{dbPassword}\" --token abc77zz $API_TOKEN'}\n"
        "dbPassword: hunter2'zz\nenvironment: {API_TOKEN: tok123zz}\npreCmdline: 'true tok123zz'\n",
        "utf-8",
    )
    run = cli("prepare", path, "--json").json["submit_dir"]
    for options in ((), ("--json",), ("--script",)):
        shown = cli("show-job", run, "a", *options).stdout
        assert not any(secret in shown for secret in ("hunter2", "abc77zz", "tok123zz")), options
    script = tmp_path / "by_hand.sh"
    script.write_text(shown, "utf-8")
    env = {**os.environ, "API_TOKEN": "tok123zz", "SECRET_1": "hunter2'zz", "SECRET_2": "abc77zz"}
    done = subprocess.run(["sh", script], env=env, text=True, capture_output=True, check=False)
    assert done.stdout == "hunter2'zz.--token.abc77zz.tok123zz."
