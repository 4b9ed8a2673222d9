"""A job whose exit code ends the run, and lines of shell before and after a job's command, on the local service."""

from __future__ import annotations

from pathlib import Path

from tests.command import Cli
from tests.e2e.final_jobs import COMMON, FINAL, said
from tests.workflows import Tasks, WriteRun

TASKS: Tasks = {"bad": ("B", []), "after": ("A", ["bad"]), **{f"long{number}": ("L", []) for number in range(3)}}
ABORT = (
    COMMON.replace("cpus: 1", "cpus: 8") + FINAL + "pipetask: {L: {runQuantumCommand: 'sleep 100'}, "
    "B: {runQuantumCommand: '[ -e mended ] || exit 99', abortOnValue: 99, retryUnlessExit: null}}\n"
)


def test_an_exit_code_ends_the_run_at_once_and_the_final_job_still_runs(
    cli: Cli, write_run: WriteRun, tmp_path: Path
) -> None:
    ran = cli("submit", write_run(ABORT, TASKS), "--wait")
    assert ran.returncode == 19, ran.stderr
    assert said(tmp_path) == ["final"]
    (run,) = cli("report", "--id", "@last", "--json").json["runs"]
    states = {job["name"]: job["state"] for job in run["jobs"]}
    assert states == {
        "bad": "FAILED",
        "after": "PRUNED",
        "long0": "DELETED",
        "long1": "DELETED",
        "long2": "DELETED",
        "finalJob": "SUCCEEDED",
    }
    assert [job["attempts"] for job in run["jobs"] if job["name"] == "bad"] == [1]
    assert "exit code 99 ends the run (abortOnValue)" in cli("explain", "@last", "bad").stdout


def test_another_exit_code_ends_nothing(cli: Cli, write_run: WriteRun) -> None:
    # Tried again once, which is enough to see that it is.
    text = ABORT.replace("exit 99", "exit 98").replace("sleep 100", "true") + "numberOfRetries: 1\n"
    assert cli("submit", write_run(text, TASKS), "--wait").returncode == 19
    (run,) = cli("report", "--id", "@last", "--json").json["runs"]
    assert run["counts"]["SUCCEEDED"] == 4
    assert run["counts"]["DELETED"] == 0


def test_what_no_exit_code_can_be_is_refused(cli: Cli, write_run: WriteRun) -> None:
    for value in ("0", "256", "many"):
        ran = cli("prepare", write_run(f"runQuantumCommand: 'true'\nabortOnValue: {value}\n"))
        assert ran.returncode == 3
        assert "run.yaml:3:15: 'abortOnValue'" in ran.stderr


def test_lines_before_and_after_a_command(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    text = (
        "requestMemory: 10\nnumberOfRetries: 0\nrunQuantumCommand: 'echo $MINE >> {notes}; exit 3'\n"
        "notes: ${PWD}/notes\npreCmdline: 'MINE=before-{label}'\npostCmdline: 'echo after-$MINE >> {notes}'\n"
    )
    assert cli("submit", write_run(text), "--wait").returncode == 19
    assert said(tmp_path) == ["before-A", "after-before-A"]
    assert "exit code 3" in cli("explain", "@last", "a").stdout
