"""Jobs that want more than they have, as a user sees them: real processes, whole runs."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.command import Cli
from tests.workflows import Tasks, WriteRun

pytestmark = pytest.mark.full

EAT = (
    "import sys, time\n"
    "held = bytearray(int(sys.argv[1]) << 20)\n"
    "held[::4096] = bytes(len(held[::4096]))\n"
    "time.sleep(float(sys.argv[2]))\n"
)
"""Has so many MiB for so many seconds."""


@pytest.fixture
def eat(tmp_path: Path) -> str:
    (tmp_path / "eat.py").write_text(EAT, "utf-8")
    return f"{sys.executable} eat.py"


def job_of(cli: Cli, run: str = "@last") -> dict[str, Any]:
    (job,) = cli("report", run, "--json").json["runs"][0]["jobs"]
    assert isinstance(job, dict)
    return job


def events_of(tmp_path: Path, kind: str) -> list[dict[str, Any]]:
    files = sorted(tmp_path.glob("submit/**/journal/*.jsonl"))
    events = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    return [event for event in events if event["e"] == kind]


def requests_of(tmp_path: Path) -> list[int]:
    """MiB that each attempt asked for."""
    return [event["request"]["memory_b"] >> 20 for event in events_of(tmp_path, "submitting")]


def test_a_job_that_runs_out_of_memory_gets_more_until_it_passes(
    cli: Cli, write_run: WriteRun, tmp_path: Path, eat: str
) -> None:
    path = write_run(f"runQuantumCommand: '{eat} 150 3'\nrequestMemory: 60\n")
    ran = cli("submit", path.name, "--wait")
    assert ran.returncode == 0, ran.stderr
    asked = requests_of(tmp_path)
    assert asked[0] == 60
    assert asked[1] >= 120
    assert asked == sorted(asked)
    retries = events_of(tmp_path, "retry")
    assert {retry["cause"] for retry in retries} == {"OOM"}
    ends = events_of(tmp_path, "ended")
    assert ends[0]["rss_b"] > 60 << 20, "the peak was seen"
    assert job_of(cli)["attempts"] == len(asked)


def test_the_cap_is_run_once_and_a_restart_remembers_it(
    cli: Cli, write_run: WriteRun, tmp_path: Path, eat: str
) -> None:
    path = write_run(f"runQuantumCommand: '{eat} 250 20'\nrequestMemory: 60\nrequestMemoryMax: 100\n")
    ran = cli("submit", path.name, "--wait")
    assert ran.returncode == 19, ran.stderr
    assert requests_of(tmp_path) == [60, 100]
    (failed,) = events_of(tmp_path, "failed")
    assert failed["why"].startswith("out of memory with 100 MiB, the most it may have: it used ")
    job = job_of(cli)
    assert (job["state"], job["cause"]) == ("FAILED", "OOM")
    text = cli("report", "@last").stdout
    assert "(OOM, signal SIGKILL): longshore: OOM: it used " in text
    assert "it requested 100 MiB; its limit is 110 MiB" in text
    assert cli("restart", "@last").returncode == 0
    deadline = time.monotonic() + 120
    while cli("status", "@last").returncode == 15:
        assert time.monotonic() < deadline
    assert requests_of(tmp_path) == [60, 100, 100], "not 60 again"


def test_memory_that_only_the_defaults_ask_for_kills_nobody(cli: Cli, write_run: WriteRun, eat: str) -> None:
    # The defaults' 2048 MiB are lowered to the 64 that there are, and still nobody wrote them.
    path = write_run(f"runQuantumCommand: '{eat} 120 1'\nresources: {{memory: 64}}\n")
    assert cli("submit", path.name, "--wait").returncode == 0
    assert cli("submit", path.name, "--wait", "--set", "enforceMemory=all").returncode == 19
    assert job_of(cli)["cause"] == "OOM"


def test_time_is_up_and_more_of_it_is_given_where_that_is_wanted(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    path = write_run("runQuantumCommand: 'exec sleep 2.5'\nrequestWalltime: 1\n")
    assert cli("submit", path.name, "--wait").returncode == 19
    job = job_of(cli)
    assert (job["cause"], job["attempts"]) == ("WALLTIME", 1)
    text = cli("report", "@last").stdout
    assert "(WALLTIME, signal SIGTERM)" in text
    assert "it ran for 1 s, the run time that it requested" in text
    ran = cli("submit", path.name, "--wait", "--set", "walltimeMultiplier=8")
    assert ran.returncode == 0, ran.stderr
    assert job_of(cli)["attempts"] == 2


def test_the_signals_that_end_it_are_the_users_choice(cli: Cli, write_run: WriteRun) -> None:
    path = write_run(
        "runQuantumCommand: \"trap 'exit 5' INT; while :; do sleep 0.05; done\"\n"
        "requestWalltime: 1\nkillSignals: [INT]\nkillGrace: 60\n"
    )
    assert cli("submit", path.name, "--wait").returncode == 19
    job = job_of(cli)
    assert (job["cause"], job["exit_code"]) == ("WALLTIME", 5)


def test_a_flood_of_words_is_stopped(cli: Cli, write_run: WriteRun) -> None:
    path = write_run("runQuantumCommand: 'exec yes'\nmaxLogSize: 1\n")
    assert cli("submit", path.name, "--wait").returncode == 19
    job = job_of(cli)
    assert (job["cause"], job["attempts"]) == ("OUTPUT", 1)


def test_limits_hold_while_there_is_no_engine(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    path = write_run("runQuantumCommand: 'exec sleep 60'\nrequestWalltime: 3\n")
    submitted = cli("submit", path.name, "--json")
    assert submitted.returncode == 0
    run = Path(submitted.json["submit_dir"])
    deadline = time.monotonic() + 120
    while not any('"r":"start"' in file.read_text("utf-8") for file in run.glob("keeper/*.jsonl")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(json.loads((run / "status.json").read_text("utf-8"))["pid"], signal.SIGKILL)
    while not any('"why":"WALLTIME"' in file.read_text("utf-8") for file in run.glob("keeper/*.jsonl")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert cli("resume", str(run)).returncode == 0
    deadline = time.monotonic() + 120
    while cli("status", str(run)).returncode == 15:
        assert time.monotonic() < deadline
    assert job_of(cli, str(run))["cause"] == "WALLTIME"


def test_words_in_the_log_are_worth_another_attempt(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    command = "test $LONGSHORE_JOB_ATTEMPT -gt 2 || {{ echo connection reset; exit 1; }}"
    path = write_run(f"runQuantumCommand: '{command}'\nretryDelay: 0.1\n")
    assert cli("submit", path.name, "--wait").returncode == 19, "1 is in retryUnlessExit"
    ran = cli("submit", path.name, "--wait", "--set", "retryOn={log: 'connection (lost|reset)'}")
    assert ran.returncode == 0, ran.stderr
    assert job_of(cli)["attempts"] == 3


def test_success_is_what_the_user_says_it_is(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    wanted = (
        "successIf: {exit: [0, 3], log: '^converged', file: '{jobName}.out', value: {regex: 'chi2=(.*)', max: 2}}\n"
    )
    good = "echo converged; echo chi2=1.5; touch {jobName}.out; exit 3"
    path = write_run(f"{wanted}runQuantumCommand: '{good}'\nnumberOfRetries: 0\n")
    ran = cli("submit", path.name, "--wait")
    assert ran.returncode == 0, ran.stderr
    bad = write_run(f"{wanted}runQuantumCommand: 'echo chi2=2.5'\nnumberOfRetries: 0\n", name="bad.yaml")
    assert cli("submit", bad.name, "--wait").returncode == 19
    job = job_of(cli)
    assert (job["cause"], job["exit_code"]) == ("PREDICATE", 0)
    assert job["reason"] == (
        "its log has nothing that matches successIf.log '^converged'; successIf.value found 2.5, more than 2"
    )
    text = cli("report", "@last").stdout
    assert "(PREDICATE, exit code 0)" in text
    assert "its log has nothing" in text


def test_what_is_wrong_with_a_rule_is_said_before_anything_runs(cli: Cli, write_run: WriteRun) -> None:
    path = write_run("pipetask: {A: {successIf: {log: 'a(b'}}}\nrunQuantumCommand: 'true'\n")
    ran = cli("submit", path.name)
    assert ran.returncode == 3
    assert "run.yaml:2:33: " in ran.stderr
    assert "'pipetask.A.successIf.log' is not a regular expression" in ran.stderr


def test_logs_of_successes_and_temporary_directories_are_kept_as_told(
    cli: Cli, write_run: WriteRun, tmp_path: Path
) -> None:
    command = "echo hello; echo x > $TMPDIR/x; test $LONGSHORE_JOB_ATTEMPT -gt 1 || exit 9"
    path = write_run(f"runQuantumCommand: '{command}'\nkeepLogs: failed\nkeepTmp: failed\nretryDelay: 0.1\n")
    assert cli("submit", path.name, "--wait").returncode == 0
    (log,) = tmp_path.glob("submit/**/logs/**/*.log")
    first, second = log.read_text("utf-8").splitlines()
    assert (first, log.name) == ("hello", "a.1.log")
    kept = Path(second.removeprefix("longshore: TMPDIR is kept: "))
    assert (kept / "x").read_text("utf-8") == "x\n"
    (kept / "x").unlink()
    kept.rmdir()
    kept.parent.rmdir()


def test_a_run_that_burns_is_paused_and_says_so(cli: Cli, write_run: WriteRun) -> None:
    tasks: Tasks = {f"t{number:02}": ("T", []) for number in range(30)}
    path = write_run("runQuantumCommand: 'exit 1'\nmaxFastFailures: 6\nresources: {cpus: 2}\n", tasks)
    assert cli("submit", path.name).returncode == 0
    deadline = time.monotonic() + 120
    while "PAUSED: 6 different jobs failed in a row" not in (said := cli("status", "@last")).stdout + said.stderr:
        assert time.monotonic() < deadline, said
        time.sleep(0.2)
    report = cli("report", "@last", "--json").json["runs"][0]
    assert report["state"] == "RUNNING"
    assert 6 <= report["counts"]["FAILED"] < 20
    assert any("longshore unpause" in note for note in report["notes"])
    assert cli("cancel", "@last").returncode == 0
