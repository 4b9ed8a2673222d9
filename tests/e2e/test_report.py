"""What ``report`` and ``status`` tell of runs: while they run, when they failed, and when they are gone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.command import Cli
from tests.workflows import Tasks, WriteRun, in_place

CODES = {"SUCCEEDED": 0, "UNKNOWN": 10, "RUNNING": 15, "DELETED": 16, "HELD": 17, "FAILED": 19}
STATES = "UNKNOWN MISFIT UNREADY READY PENDING RUNNING DELETED HELD SUCCEEDED FAILED PRUNED"
TWO: Tasks = {"a": ("A", []), "b": ("B", ["a"])}


def the_run(cli: Cli, reference: str = "@last") -> Any:
    """The only run of a detailed report."""
    ran = cli("report", "--id", reference, "--json")
    assert ran.returncode == 0, ran.stderr
    assert (ran.json["schema_version"], ran.json["kind"]) == (1, "report")
    (run,) = ran.json["runs"]
    return run


def check_sums(run: Any) -> None:
    """Counts add up to the number of jobs, however they are added."""
    assert sum(run["counts"].values()) == run["expected"]
    for state, count in run["counts"].items():
        assert sum(label[state] for label in run["labels"].values()) == count
    if "jobs" in run:
        counted = Counter(job["state"] for job in run["jobs"])
        assert {state: count for state, count in run["counts"].items() if count} == counted


def test_no_runs(cli: Cli) -> None:
    ran = cli("report")
    assert ran.returncode == 0
    header, rule = ran.stdout.splitlines()
    assert header.split() == ["X", "STATE", "%S", "ID", "OPERATOR", "PROJECT", "CAMPAIGN", "PAYLOAD", "RUN"]
    assert set(rule) == {"-", " "}
    assert cli("report", "--json").json["runs"] == []
    last = cli("status", "@last")
    assert (last.returncode, last.stdout) == (5, "")
    assert "there is no last run" in last.stderr


def test_the_engine_and_the_command_that_started_it_are_named(cli: Cli, write_run: WriteRun) -> None:
    assert cli("submit", write_run(), "--wait").returncode == 0
    (engine,) = (line for line in cli("report", "--id", "@last").stdout.splitlines() if line.startswith("Engine: "))
    assert engine.endswith(" by submit")


def test_counts_add_up_at_every_moment_of_a_big_run(cli: Cli, write_run: WriteRun) -> None:
    tasks: Tasks = {"root": ("R", []), **{f"t{number}": ("T", ["root"]) for number in range(2000)}}
    path = write_run("runQuantumCommand: 'sleep 0.02'\nresources: {cpus: 8}\n", tasks)
    submitted = cli("submit", path.name, "--json")
    assert submitted.json["jobs"] == 2001
    seen = set()
    while True:
        run = the_run(cli, submitted.json["id"])
        check_sums(run)
        status = cli("status", submitted.json["id"], "--json")
        assert sum(status.json["counts"].values()) == status.json["expected"] == 2001
        assert status.returncode == status.json["exit_status"] == CODES[status.json["state"]]
        seen.add(run["state"])
        if run["state"] != "RUNNING":
            break
    assert run["state"] == "SUCCEEDED"
    assert run["counts"]["SUCCEEDED"] == 2001
    assert seen == {"RUNNING", "SUCCEEDED"}


def test_a_good_run(cli: Cli, write_run: WriteRun) -> None:
    cli("submit", write_run("runQuantumCommand: 'true'\nproject: dev\ncampaign: q\n", TWO).name, "--wait")
    run = the_run(cli)
    check_sums(run)
    assert (run["state"], run["service"], run["project"], run["campaign"]) == ("SUCCEEDED", "local", "dev", "q")
    assert run["submitted_at"] <= run["started_at"] <= run["finished_at"]
    a, b = run["jobs"]
    assert a["finished_at"] <= b["started_at"]
    assert (run["digest"], run["badput"], run["longest_running"], run["waits"], run["left_s"]) == ([], [], [], [], None)
    assert 0 <= run["elapsed_s"] < 60
    assert (a["exit_code"], a["cause"], a["attempts"], a["state"]) == (0, None, 1, "SUCCEEDED")
    assert "jobs" not in cli("report", "--json").json["runs"][0], "jobs only with --id"
    text = cli("report", "@last").stdout
    assert f"Path: {run['path']}" in text
    table = text.split("\n\n\n")[2].splitlines()
    assert table[0].split() == [*STATES.split(), "EXPECTED"]
    assert [line.split()[0] for line in table if line and line[0] != "-"][1:4] == ["TOTAL", "A", "B"]
    assert cli("status", "@last").stdout == "SUCCEEDED\n"


@pytest.mark.parametrize(
    ("command", "more", "attempts", "cause", "words"),
    [
        ("echo oops; exit 3", "numberOfRetries: 2", 3, "EXIT", "A: 1 job (exit code 3)"),
        ("echo oops; exit 1", "numberOfRetries: 2", 1, "EXIT", "A: 1 job (exit code 1)"),
        ("echo oops; exit 3", "{numberOfRetries: 2, retryUnlessExit: [3]}", 1, "EXIT", "A: 1 job (exit code 3)"),
        ("echo oops; exit 3", "numberOfRetries: 0", 1, "EXIT", "A: 1 job (exit code 3)"),
        ("echo oops; kill -9 $$", "numberOfRetries: 0", 1, "SIGNAL", "A: 1 job (signal SIGKILL)"),
        ("echo oops; no-such-program", "numberOfRetries: 0", 1, "EXIT", "A: 1 job (exit code 127)"),
    ],
)
def test_a_job_that_fails(
    command: str, more: str, attempts: int, cause: str, words: str, cli: Cli, write_run: WriteRun
) -> None:
    block = more if more.startswith("{") else f"{{{more}}}"
    path = write_run(f"pipetask: {{A: {block}}}\nrunQuantumCommand: '{command}'\n", TWO)
    assert cli("submit", path.name, "--wait").returncode == 19
    run = the_run(cli)
    check_sums(run)
    a, b = run["jobs"]
    assert (a["state"], a["attempts"], a["cause"]) == ("FAILED", attempts, cause)
    assert (b["state"], b["attempts"], b["log"]) == ("PRUNED", 0, None)
    log = Path(run["path"], a["log"])
    assert log.name == f"a.{attempts}.log"
    assert log.read_text("utf-8").startswith("oops\n")
    text = cli("report", "@last").stdout
    assert words in text
    assert f"for example a, attempt {attempts}" in text
    assert f"log: {log}\n" in text, "the path can be copied"
    assert "  | oops\n" in text
    (group,) = run["digest"]
    assert (group["label"], group["cause"], group["count"], group["unread"]) == ("A", cause, 1, 0)
    assert group["example"]["tail"][0] == "oops"
    assert (group["example"]["log"], group["example"]["attempt"]) == (str(log), attempts)
    assert [(spent["cause"], spent["attempts"]) for spent in run["badput"]] == [(cause, attempts)]
    status = cli("status", "@last")
    assert (status.returncode, status.stdout) == (19, "FAILED\n")


def test_names_of_runs(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    first, second = (cli("submit", write_run().name, "--wait", "--json", *in_place(n)).json for n in range(2))
    assert the_run(cli)["id"] == second["id"]
    assert the_run(cli, first["id"])["id"] == first["id"]
    assert the_run(cli, first["submit_dir"])["id"] == first["id"]
    relative = str(Path(first["submit_dir"]).relative_to(tmp_path))
    assert the_run(cli, relative)["id"] == first["id"]
    common = next(length for length in range(7) if first["id"][:length] != second["id"][:length])
    assert the_run(cli, second["id"][:common])["id"] == second["id"]
    both = cli("status", first["id"][: common - 1])
    assert both.returncode == 5
    assert first["id"] in both.stderr
    assert second["id"] in both.stderr
    assert cli("report", first["id"], cwd=Path("/")).returncode == 0
    assert cli("report", first["id"], "--id", first["id"]).returncode == 0
    wrong = cli("report", first["id"] + "x")
    assert wrong.returncode == 5
    # Ids of runs of one moment are alike, and either may be the nearest.
    assert "Did you mean '" in wrong.stderr
    assert "is not a run directory" in cli("report", "/etc").stderr


def test_a_run_that_was_moved_and_one_that_was_removed(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    first, second = (cli("submit", write_run().name, "--wait", "--json", *in_place(n)).json for n in range(2))
    Path(first["submit_dir"]).rename(tmp_path / "moved")
    shutil.rmtree(second["submit_dir"])
    lost = cli("report", first["id"])
    assert lost.returncode == 5
    assert "new path" in lost.stderr
    every = cli("report")
    assert every.returncode == 0
    assert (
        every.stderr
        == f"longshore: removed or moved: {first['id']}, {second['id']}; to forget them: longshore forget --missing\n"
    )
    assert cli("report", "--json").json["notes"] == [
        f"removed or moved: {first['id']}, {second['id']}; to forget them: longshore forget --missing"
    ]
    run = the_run(cli, "moved")
    assert (run["id"], run["state"], run["path"]) == (first["id"], "SUCCEEDED", str(tmp_path / "moved"))
    assert the_run(cli, first["id"]) == run, "once it was found by its path, its id finds it again"


def test_a_torn_run_directory(cli: Cli, write_run: WriteRun) -> None:
    run = Path(cli("submit", write_run().name, "--wait", "--json").json["submit_dir"])
    (run / "status.json").write_text("{", "utf-8")
    assert cli("status", run).stdout == "SUCCEEDED\n", "a snapshot can be made anew"
    (run / "run.json").write_text('{"format": 99}', "utf-8")
    newer = cli("report", run)
    assert newer.returncode == 5
    assert "format 99" in newer.stderr
    (run / "run.json").write_text("{", "utf-8")
    assert cli("report", run).returncode == 5
    every = cli("report")
    assert str(run) not in every.stdout
    assert f"cannot be shown: '{run / 'run.json'}' cannot be read" in every.stderr


def test_whoever_reads_may_stop(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    cli("submit", write_run().name, "--wait")
    line = f"{sys.executable} -m longshore report @last --json | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("{\n0\n", "")


def test_every_exit_code_is_retried_but_those_of_a_command_that_cannot_be_started(
    cli: Cli, write_run: WriteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LONGSHORE_RETRY_UNLESS_EXIT")
    tasks: Tasks = {"raises_1": ("raises", []), "typo_1": ("typo", []), "binary_1": ("binary", [])}
    path = write_run(
        "numberOfRetries: 1\nretryDelay: 0.01\npipetask:\n"
        "  raises: {runQuantumCommand: 'exit 1'}\n"
        "  typo: {runQuantumCommand: 'echo oops; no-such-program'}\n"
        "  binary: {runQuantumCommand: ['${PWD}/binary']}\n",
        tasks,
    )
    (path.parent / "binary").write_bytes(b"\x7fELF nothing")
    (path.parent / "binary").chmod(0o755)
    ran = cli("submit", path.name, "--wait", "--json")
    (run,) = cli("report", str(ran.json["submit_dir"]), "--json").json["runs"]
    jobs = {job["label"]: (job["attempts"], job["exit_code"], job["not_retried"]) for job in run["jobs"]}
    assert jobs["raises"] == (2, 1, "no attempt left: numberOfRetries is 1")
    assert jobs["typo"] == (1, 127, "the command was not found (exit code 127), and a retry would end alike")
    assert jobs["binary"][:2] == (1, 126)
    assert jobs["binary"][2].startswith(
        "the command is no program of this machine, and a retry would end alike: cannot"
    )
    assert {each["example"]["not_retried"] for each in run["digest"]} == {job[2] for job in jobs.values()}
    shown = cli("report", str(ran.json["submit_dir"])).stdout
    assert "  not tried again: no attempt left: numberOfRetries is 1\n" in shown
    explained = cli("explain", str(ran.json["submit_dir"]), "typo_1")
    assert "It was not tried again: the command was not found (exit code 127)" in explained.stdout
