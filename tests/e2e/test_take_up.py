"""`submit RUN_DIR` takes up what `prepare` made: with real engines, in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.command import Cli
from tests.workflows import WriteRun

import longshore

KILLED_AT_IT = """
import os, signal
from longshore.services.local.service import LocalService


class Before(LocalService):
    def submit(self, run):
        if os.environ.get("KILL"):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().submit(run)


class Behind(LocalService):
    def submit(self, run):
        super().submit(run)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def prepared(cli: Cli, path: Path, *options: str) -> Path:
    ran = cli("prepare", path, "--json", *options)
    assert ran.returncode == 0, ran.stderr
    return Path(ran.json["submit_dir"])


def test_what_was_prepared_runs(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    run = prepared(cli, write_run("runQuantumCommand: echo hello\n"))
    ran = cli("submit", run, "--wait", cwd=Path("/"))
    assert ran.returncode == 0, ran.stderr
    assert f"Submit dir: {run}" in ran.stdout
    name = json.loads((run / "run.json").read_text("utf-8"))["id"]
    assert f"Run Id: {name}" in ran.stdout
    assert (run / "logs" / "A" / "00" / "a.1.log").read_text("utf-8") == "hello\n"
    assert cli("status", "--id", name).returncode == 0
    again = cli("submit", run.relative_to(tmp_path), "--json")
    assert again.returncode == 6
    assert "was submitted already" in again.json["error"]["message"]


def test_what_was_only_prepared_is_neither_taken_up_nor_run_again(cli: Cli, write_run: WriteRun) -> None:
    run = prepared(cli, write_run())
    for command in ("resume", "restart"):
        ran = cli(command, run)
        assert ran.returncode == 6
        assert "was prepared, and never submitted" in ran.stderr
        assert f"longshore submit {run}" in ran.stderr
    assert not list((run / "journal").iterdir())
    assert f"never submitted: longshore submit {run}" in cli("report", "--id", run).stdout


def test_a_script_that_was_prepared_runs(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "script.sh").write_text("#!/bin/sh\necho $# arguments\n", "utf-8")
    path = tmp_path / "custom.yaml"
    path.write_text('customJob: {executable: script.sh, arguments: "x y"}\n', "utf-8")
    run = Path(cli("submitcmd", path, "--dry-run", "--json").json["submit_dir"])
    ran = cli("submit", run, "--wait", "--json")
    assert ran.returncode == 0, ran.stderr
    assert ran.json["state"] == "SUCCEEDED"
    assert (run / "logs" / "customJob" / "00" / "script.sh.1.log").read_text("utf-8") == "2 arguments\n"


def test_what_changed_is_said_with_the_way_out(cli: Cli, write_run: WriteRun) -> None:
    path = write_run("runQuantumCommand: 'true'\nrequestMemory: 10\n")
    run = prepared(cli, path, "--set", "numberOfRetries=1")
    write_run("runQuantumCommand: 'true'\nrequestMemory: 20\nqueue: long\n")
    ran = cli("submit", run, "--json")
    assert ran.returncode == 6
    error = ran.json["error"]
    assert error["code"] == "submission_refused"
    assert [each["message"] for each in error["problems"]] == [
        "'requestMemory' is '20' now, and was '10'",
        "'queue' is 'long' now, and was not set",
    ]
    assert [each["origin"]["line"] for each in error["problems"]] == [3, 4]
    assert "--force" in error["hint"]
    assert "longshore: error: 2 problems in all" in ran.stderr
    forced = cli("submit", run, "--force", "--wait", "--json")
    assert forced.returncode == 0, forced.stderr
    assert sum(note.startswith("submitted despite a change: ") for note in forced.json["notes"]) == 2


def test_what_slurm_is_to_be_told_is_compared_too(cli: Cli, write_run: WriteRun) -> None:
    text = "runQuantumCommand: 'true'\nwmsServiceClass: slurm\ncomputeSite: c\nsite: {c: {slurm: {partition: PART}}}\n"
    run = prepared(cli, write_run(text.replace("PART", "short")))
    write_run(text.replace("PART", "long"))
    ran = cli("submit", run)
    assert ran.returncode == 6
    assert "run.yaml:5:31: changed since" in ran.stderr
    assert "'site.c.slurm.partition' is 'long' now, and was 'short'" in ran.stderr


def test_from_a_directory_that_is_gone(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    run = prepared(cli, write_run())
    gone = tmp_path / "gone"
    gone.mkdir()
    line = f"cd {gone} && rmdir {gone} && exec {sys.executable} -m longshore submit {run}"
    path = os.pathsep.join(filter(None, [str(Path(longshore.__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    ran = subprocess.run(
        ["/bin/sh", "-c", line], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 7
    assert "the current directory is gone" in ran.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--set", "queue=x"), "'queue' would have no effect"),
        (("--compute-site", "x", "--output", "y"), "'output', 'computeSite' would have no effect"),
    ],
)
def test_options_that_would_have_no_effect(cli: Cli, write_run: WriteRun, options: tuple[str, ...], words: str) -> None:
    run = prepared(cli, write_run())
    ran = cli("submit", run, *options)
    assert ran.returncode == 2
    assert words in ran.stderr


def test_force_is_for_what_was_prepared(cli: Cli, write_run: WriteRun) -> None:
    ran = cli("submit", write_run(), "--force")
    assert ran.returncode == 2
    assert "'--force' is for a directory that was prepared" in ran.stderr


def test_of_two_at_once_one_wins(cli: Cli, write_run: WriteRun) -> None:
    run = prepared(cli, write_run("runQuantumCommand: 'true'\n"))
    with ThreadPoolExecutor() as pool:
        ran = list(pool.map(lambda _: cli("submit", run, "--wait", "--json"), range(3)))
    assert sorted(each.returncode for each in ran) == [0, 6, 6], [each.stderr for each in ran]
    assert len(list((run / "journal").glob("*.jsonl"))) == 1


@pytest.mark.parametrize("kind", ["Before", "Behind"])
def test_killed_at_any_moment_it_can_be_said_again_and_runs_once(
    cli: Cli, write_run: WriteRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "killed_at_it.py").write_text(KILLED_AT_IT, "utf-8")
    ran_once = tmp_path / "ran"
    path = write_run(f"runQuantumCommand: echo x >> {ran_once}\nwmsServiceClass: killed_at_it.{kind}\n")
    run = prepared(cli, path)
    killed = cli("submit", run, env={"KILL": "1"})
    assert killed.returncode == -signal.SIGKILL
    again = cli("submit", run, "--wait")
    if kind == "Before":
        assert again.returncode == 0, again.stderr
    else:
        assert again.returncode == 6
        assert "was submitted already: its journal has begun" in again.stderr
        watched = cli("report", "--id", run, "--watch")
        assert watched.returncode == 0, watched.stderr
        assert cli("status", "--id", run).returncode == 0
    assert ran_once.read_text("utf-8") == "x\n"


@pytest.mark.parametrize("command", ["submit", "prepare"])
def test_a_word_that_is_empty_is_not_the_current_directory(cli: Cli, command: str) -> None:
    ran = cli(command, "")
    assert ran.returncode == 2
    assert "the name of the file is empty" in ran.stderr


def test_a_path_is_on_one_line(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    path = write_run("runQuantumCommand: 'true'\nsubmitPath: \"a\\nb\"\n")
    ran = cli("prepare", path.name)
    assert ran.returncode == 3
    assert r"run.yaml:3:13: 'submitPath' contains the control character '\n'" in ran.stderr
    assert not (tmp_path / "a\nb").exists()
