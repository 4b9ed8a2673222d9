"""`cancel` ends every process of what it is told to end, keeps the counts right, and says what is left."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest
from tests.command import Cli
from tests.depth import rounds
from tests.waiting import engine_of, eventually
from tests.workflows import Tasks, WriteRun, in_place

from longshore.errors import UnreachableError
from longshore.system.host import processes_with_variable

CHAIN: Tasks = {"a": ("A", []), "b": ("B", ["a"]), "c": ("C", ["b"]), "d": ("D", []), "e": ("E", ["d"])}
WIDE: Tasks = {f"w{number}": ("W", [f"w{number - 6}"] if number >= 6 else []) for number in range(30)}


def submitted(cli: Cli, path: Path, *options: str) -> str:
    """Submit a run and return its directory."""
    answer = cli("submit", path, "--json", *options)
    assert answer.returncode == 0, answer.stderr
    return str(answer.json["submit_dir"])


def processes_of(run: str) -> list[int]:
    """Every process that belongs to a job of the run."""
    return [pid for pid, _ in processes_with_variable("LONGSHORE_JOB_RUN_DIR", run)]


def report(cli: Cli, run: str) -> dict[str, Any]:
    """The run's report."""
    found: dict[str, Any] = cli("report", "--id", run, "--json").json["runs"][0]
    assert sum(found["counts"].values()) == found["expected"]
    return found


def running(cli: Cli, run: str) -> None:
    """Wait until a job of the run has a process."""
    deadline = time.monotonic() + 120
    while not processes_of(run):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_runs_ends_and_what_never_ran_is_deleted(cli: Cli, write_run: WriteRun) -> None:
    run = submitted(cli, write_run("runQuantumCommand: sleep 60 & sleep 60\nrequestMemory: 10\n", CHAIN))
    running(cli, run)
    cancelled = cli("cancel", "--id", run)
    assert cancelled.returncode == 0
    assert "Successfully canceled job with id" in cancelled.stdout
    assert not processes_of(run)
    found = report(cli, run)
    assert found["state"] == "DELETED"
    assert found["counts"]["DELETED"] == 5
    causes = {job["name"]: job["cause"] for job in found["jobs"]}
    assert causes["a"] == "CANCELLED"
    assert causes["b"] is None
    twice = cli("cancel", "--id", run)
    assert twice.returncode == 0


def test_a_job_that_ignores_being_asked_is_killed(cli: Cli, write_run: WriteRun) -> None:
    deaf = "runQuantumCommand: trap '' TERM; sleep 60 & sleep 60; sleep 60\nkillGrace: 1\nrequestMemory: 10\n"
    run = submitted(cli, write_run(deaf.replace("runQuantumCommand: ", "runQuantumCommand: |\n  ")))
    running(cli, run)
    assert cli("cancel", run).returncode == 0
    assert not processes_of(run)


def test_what_a_job_has_sent_away_ends_too(cli: Cli, write_run: WriteRun) -> None:
    run = submitted(cli, write_run("runQuantumCommand: setsid sleep 60 & sleep 60\nrequestMemory: 10\n"))
    running(cli, run)
    time.sleep(0.2)
    assert cli("cancel", run).returncode == 0
    assert not processes_of(run)


def test_a_part_of_a_run(cli: Cli, write_run: WriteRun) -> None:
    yaml = "runQuantumCommand: 'true'\nrequestMemory: 10\npipetask: {A: {runQuantumCommand: sleep 60}}\n"
    run = submitted(cli, write_run(yaml, CHAIN))
    running(cli, run)
    cancelled = cli("cancel", run, "--label", "A")
    name = report(cli, run)["id"]
    assert (cancelled.returncode, cancelled.stdout) == (0, f"Successfully canceled label 'A' of run '{name}'\n")
    deadline = time.monotonic() + 120
    while (found := report(cli, run))["state"] == "RUNNING":
        assert time.monotonic() < deadline
    states = {job["name"]: job["state"] for job in found["jobs"]}
    assert states == {"a": "DELETED", "b": "PRUNED", "c": "PRUNED", "d": "SUCCEEDED", "e": "SUCCEEDED"}


def test_a_job_is_named_and_the_final_job_is_told_first(cli: Cli, write_run: WriteRun) -> None:
    final = "finalJob: {command1: 'true'}\nresources: {cpus: 3}\n"
    yaml = f"runQuantumCommand: 'true'\nrequestMemory: 10\npipetask: {{A: {{runQuantumCommand: sleep 60}}}}\n{final}"
    run = submitted(cli, write_run(yaml, {"a": ("A", []), "a2": ("A", []), "d": ("D", [])}))
    running(cli, run)
    deadline = time.monotonic() + 120
    while report(cli, run)["counts"]["SUCCEEDED"] < 1:
        assert time.monotonic() < deadline
    name = report(cli, run)["id"]
    some = cli("cancel", run, "--job", "a", "--job", "d")
    assert some.stdout == f"Successfully canceled job 'a' of run '{name}'\n"
    assert some.said == [f"longshore: nothing to cancel: job 'd' of run '{name}' is SUCCEEDED"]
    note = f"the final job runs in any case; to skip it: longshore cancel {name} --no-final"
    rest = cli("cancel", run, "--json")
    assert rest.said[0] == f"longshore: {note}", "however soon it ends"
    assert note in rest.json["runs"][0]["notes"]


def test_what_a_cancelled_job_has_sent_away_ends_with_it(cli: Cli, write_run: WriteRun) -> None:
    away = "pipetask: {A: {runQuantumCommand: setsid sleep 60 & sleep 60}}\n"
    yaml = f"runQuantumCommand: sleep 3\nrequestMemory: 10\n{away}"
    run = submitted(cli, write_run(yaml, CHAIN))
    running(cli, run)
    time.sleep(0.2)
    assert cli("cancel", run, "--job", "a").returncode == 0
    deadline = time.monotonic() + 120
    while report(cli, run)["state"] == "RUNNING":
        assert time.monotonic() < deadline
    assert not processes_of(run)


@pytest.mark.parametrize(("option", "name"), [("--job", "bb"), ("--label", "AA")])
def test_a_part_that_is_not_there(cli: Cli, write_run: WriteRun, option: str, name: str) -> None:
    run = submitted(cli, write_run("runQuantumCommand: sleep 60\n", CHAIN))
    ran = cli("cancel", run, option, name)
    assert ran.returncode == 5
    assert f"'{name}'" in ran.stderr
    assert "Did you mean" in ran.stderr
    assert cli("cancel", run).returncode == 0


def test_the_runs_of_a_user(cli: Cli, write_run: WriteRun) -> None:
    cli("submit", write_run(), "--wait")
    user = str(report(cli, "@last")["user"])
    nothing = cli("cancel", "--user", user)
    assert nothing.returncode == 5
    assert f"no run of the user '{user}' is live" in nothing.stderr
    assert f"'longshore report --user {user}' lists the runs of a user; '--global' searches" in nothing.stderr
    slow = write_run("runQuantumCommand: sleep 60\nrequestMemory: 10\n")
    runs = [submitted(cli, slow, *in_place(number)) for number in range(2)]
    asked = cli("cancel", "--user", user)
    assert asked.returncode == 2
    assert asked.stderr.count("u_") == 2
    assert report(cli, runs[0])["state"] == "RUNNING"
    assert cli("cancel", "--user", user, "--yes").returncode == 0
    assert {report(cli, run)["state"] for run in runs} == {"DELETED"}


def test_a_run_whose_engine_is_gone_can_be_cancelled(cli: Cli, write_run: WriteRun) -> None:
    run = submitted(cli, write_run("runQuantumCommand: sleep 60\nrequestMemory: 10\n", CHAIN))
    running(cli, run)
    os.kill(engine_of(run), 9)
    assert cli("cancel", run).returncode == 0
    assert not processes_of(run)
    assert report(cli, run)["state"] == "DELETED"


@pytest.mark.parametrize("seed", rounds(1, 3, 100))
def test_at_random_moments_nothing_is_left_and_counts_add_up(cli: Cli, write_run: WriteRun, seed: int) -> None:
    chance = random.Random(seed)
    run = submitted(cli, write_run("runQuantumCommand: sleep 0.0$(($$ % 9))\nrequestMemory: 10\n", WIDE))
    time.sleep(chance.uniform(0, 0.6))
    assert cli("cancel", run).returncode == 0
    assert not processes_of(run)
    found = report(cli, run)
    assert found["state"] in {"DELETED", "SUCCEEDED"}
    assert found["counts"]["DELETED"] + found["counts"]["SUCCEEDED"] == found["expected"]


def test_a_moved_run_leaves_nothing_either(cli: Cli, write_run: WriteRun) -> None:
    run = submitted(cli, write_run("runQuantumCommand: setsid sleep 61 & sleep 60\nrequestMemory: 10\n"))
    running(cli, run)
    before = processes_of(run)
    moved = Path(run).rename(Path(run).with_name("elsewhere"))
    assert cli("cancel", moved).returncode == 0
    assert not {pid for pid in before if Path(f"/proc/{pid}/cmdline").exists() and is_sleep(pid)}
    found = cli("report", "--json").json["runs"]
    assert [each["path"] for each in found] == [str(moved)]


def test_what_hides_from_its_run_ends_too(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    hide = "(env -i /usr/bin/setsid /bin/sh -c 'echo $$ > ${PWD}/hidden; exec sleep 62' &); sleep 60"
    run = submitted(cli, write_run(f"requestMemory: 10\nrunQuantumCommand: |\n  {hide}\n"))
    deadline = time.monotonic() + 120
    while not (tmp_path / "hidden").exists() or not (tmp_path / "hidden").read_text("utf-8"):
        assert time.monotonic() < deadline
    pid = int((tmp_path / "hidden").read_text("utf-8"))
    assert cli("cancel", run).returncode == 0
    assert not is_sleep(pid)


def is_sleep(pid: int) -> bool:
    """Whether a process of that number runs sleep."""
    try:
        return b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_a_scheduler_whose_programs_are_missing_got_no_job(
    cli: Cli, own_environment: Path, tmp_path: Path, write_run: WriteRun
) -> None:
    profile = own_environment / ".config" / "longshore" / "sites" / "cluster.yaml"
    profile.parent.mkdir(parents=True)
    programs = tmp_path / "bin"
    profile.write_text(f'service: sge\nsge: {{bin: "{programs}", root: "{tmp_path}"}}\n', "utf-8")
    path = write_run("computeSite: cluster\nrunQuantumCommand: 'true'\n", CHAIN)
    refused = cli("submit", path.name)
    assert refused.returncode == UnreachableError.exit_status
    assert "the workload manager 'sge' does not take this run" in refused.stderr
    run = cli("submit", path.name, "--no-probe", "--json").json["submit_dir"]
    assert eventually(lambda: f"{programs}/qsub" in "".join(report(cli, run)["notes"]))
    found = report(cli, run)
    assert (found["state"], found["counts"]["PENDING"]) == ("RUNNING", 0)
    assert cli("cancel", "--id", run).returncode == 0
    found = report(cli, run)
    assert (found["state"], found["counts"]["DELETED"]) == ("DELETED", 5)
