"""The job wrapper checks the outputs of a job, in any POSIX shell."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from longshore.model.event import FileStamp
from longshore.rundir.batch_records import parse_stamps

PROGRAM = Path(__file__).resolve().parents[2] / "bin" / "longshore-job"
SHELLS = [path for shell in ("dash", "bash", "ksh", "mksh") if (path := shutil.which(shell))]
UNMET = 73


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run_member(
    shell: str,
    folder: Path,
    command: str,
    outputs: str,
    environment: Mapping[str, str] | None = None,
    *,
    variables: str = "",
) -> tuple[int, dict[str, Any], str]:
    """Run a member of a batch; return its status, its record and its log."""
    table, ends, log = folder / "table", folder / "ends", folder / "log"
    table.write_text("\t".join(["1", "a", "1", str(folder), str(log), variables, command, "", outputs]) + "\n", "utf-8")
    shutil.rmtree(ends, ignore_errors=True)
    log.unlink(missing_ok=True)
    words = [shell, str(PROGRAM), "-m", "1", "-e", str(ends), str(table)]
    status = subprocess.run(words, check=False, timeout=30, env=environment).returncode
    record = json.loads((ends / "1.1").read_text("utf-8").splitlines()[-1])
    assert {name: value for name, value in record.items() if name != "again"} == record["again"]
    return status, record, log.read_text("utf-8")


def test_a_missing_output_is_recorded_and_logged(shell: str, tmp_path: Path) -> None:
    outputs = f"exists {tmp_path}/there '{tmp_path}/not there'"
    status, record, log = run_member(shell, tmp_path, "echo x > there", outputs)
    assert (status, record["status"], record["out"]) == (UNMET, 0, "1 missing")
    assert log == f"longshore: the output '{tmp_path}/not there' is missing\n"


def test_outputs_that_are_as_they_should_be_leave_no_trace(shell: str, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old", "utf-8")
    outputs = f"fresh {tmp_path}/old {tmp_path}/folder"
    status, record, log = run_member(shell, tmp_path, "echo new > old; mkdir folder", outputs)
    assert (status, "out" in record, log) == (0, False, "")


@pytest.mark.parametrize(("mode", "status"), [("exists", 0), ("fresh", UNMET)])
def test_stale_and_empty_outputs_are_told_and_fail_where_they_must_be_fresh(
    shell: str, tmp_path: Path, mode: str, status: int
) -> None:
    (tmp_path / "old").write_text("old", "utf-8")
    outputs = f"{mode} {tmp_path}/old {tmp_path}/void"
    ran = run_member(shell, tmp_path, ": > void", outputs)
    assert (ran[0], ran[1]["status"], ran[1]["out"]) == (status, 0, "0 stale 1 empty")
    assert "is as it was before the attempt\n" in ran[2]


@pytest.mark.parametrize(("done", "found"), [("1=1\n", None), ("", "0 stale")])
def test_what_done_tasks_wrote_in_an_earlier_attempt_is_not_stale(
    shell: str, tmp_path: Path, done: str, found: str | None
) -> None:
    (tmp_path / "first").write_text("of the first attempt", "utf-8")
    (tmp_path / "done tasks").write_text(done, "utf-8")
    variables = f"'LONGSHORE_JOB_TASKS_DONE={tmp_path}/done tasks'"
    outputs = f"fresh {tmp_path}/first {tmp_path}/second"
    ran = run_member(shell, tmp_path, "echo x > second", outputs, variables=variables)
    assert (ran[0], ran[1].get("out")) == (UNMET if found else 0, found)
    environment = {**os.environ, "LONGSHORE_JOB_TASKS_DONE": f"{tmp_path}/done tasks"}
    words = [shell, str(PROGRAM), "-o", outputs, "/bin/sh", "-c", f"echo y > {tmp_path}/second"]
    direct = subprocess.run(words, check=False, timeout=30, env=environment, capture_output=True)
    assert direct.returncode == (UNMET if found else 0)


def test_the_record_has_size_and_time_of_each_output(shell: str, tmp_path: Path) -> None:
    (tmp_path / "old one").write_text("old", "utf-8")
    (tmp_path / "link").symlink_to("target")
    outputs = f"exists '{tmp_path}/old one' {tmp_path}/link {tmp_path}/folder"
    status, record, _ = run_member(shell, tmp_path, "echo new > target; mkdir folder", outputs)
    there = [(tmp_path / name).stat() for name in ("old one", "target", "folder")]
    stamps = tuple(FileStamp(each.st_size, each.st_mtime_ns) for each in there)
    assert (status, record["out"], parse_stamps(record["stamps"])) == (0, "0 stale", stamps)
    _, record, _ = run_member(shell, tmp_path, "echo again > target", outputs + f" {tmp_path}/none")
    assert "stamps" not in record
    _, record, _ = run_member(shell, tmp_path, "exit 4", "")
    assert "stamps" not in record


def test_a_link_to_a_file_that_was_written_is_not_stale(shell: str, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old", "utf-8")
    (tmp_path / "link").symlink_to("target")
    _, record, log = run_member(shell, tmp_path, "echo newer > target", f"fresh {tmp_path}/link")
    assert ("out" in record, log) == (False, "")


@pytest.mark.parametrize("program", ["exit 1", "echo 3 1790000000 2026-09-21 12:00:00 +0000", "echo 3 4"])
def test_a_stat_of_another_kind_records_nothing(shell: str, tmp_path: Path, program: str) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "stat").write_text(f"#!/bin/sh\n{program}\n", "utf-8")
    (tmp_path / "bin" / "stat").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    status, record, log = run_member(shell, tmp_path, "echo x > a", f"exists {tmp_path}/a", environment)
    assert (status, "stamps" in record, log) == (0, False, "")


def test_a_failure_keeps_its_status_and_says_nothing_of_outputs_in_the_log(shell: str, tmp_path: Path) -> None:
    status, record, log = run_member(shell, tmp_path, "exit 3", f"exists {tmp_path}/none")
    assert (status, record["status"], record["out"], log) == (3, 3, "0 missing", "")


def run_words(shell: str, folder: Path, outputs: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [shell, str(PROGRAM), "-o", outputs, "--", *words]
    return subprocess.run(command, check=False, timeout=30, capture_output=True, text=True, cwd=folder, input="in")


def test_a_command_runs_unchanged_and_its_outputs_are_checked(shell: str, tmp_path: Path) -> None:
    outputs = f"exists {tmp_path}/a {tmp_path}/b"
    ran = run_words(shell, tmp_path, outputs, "/bin/sh", "-c", 'cat; touch a; printf "%s\\n" "$@"', "sh", "x y", "$z")
    assert ran.returncode == UNMET
    *log, last = ran.stdout.splitlines()
    assert log == ["inx y", "$z", f"longshore: the output '{tmp_path}/a' is empty", *log[3:]]
    assert log[3:] == [f"longshore: the output '{tmp_path}/b' is missing"]
    assert last == "longshore: outputs: 0 empty 1 missing"
    assert run_words(shell, tmp_path, outputs, "/bin/sh", "-c", "exit 5").returncode == 5
    assert run_words(shell, tmp_path, outputs, "/bin/sh", "-c", "touch b").returncode == 0


def test_a_signal_reaches_the_command(shell: str, tmp_path: Path) -> None:
    script = "trap 'echo got it; exit 7' TERM; touch ready; while :; do sleep 0.05; done"
    words = [shell, str(PROGRAM), "-o", f"exists {tmp_path}/a", "--", "/bin/sh", "-c", script]
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 20
    while not (tmp_path / "ready").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20)[0] == "got it\n"
    assert process.returncode == 7


def test_tasks_of_a_cluster_run_again_after_a_missing_output(shell: str, tmp_path: Path) -> None:
    record = tmp_path / "done"
    record.write_text("1=1\n", "utf-8")
    ran = run_words(shell, tmp_path, f"exists {tmp_path}/a", "/bin/true")
    assert (ran.returncode, record.exists()) == (UNMET, True)
    words = [shell, str(PROGRAM), "-o", f"exists {tmp_path}/a", "--", "/bin/true"]
    subprocess.run(words, check=False, timeout=30, env={"LONGSHORE_JOB_TASKS_DONE": str(record), "PATH": "/bin"})
    assert not record.exists()


def run_recorded(shell: str, run: Path, outputs: str, command: str, **variables: str) -> int:
    """Run a command as HTCondor does, as the second start in the cluster 7; return its status."""
    words = [shell, str(PROGRAM), "-n", "7", "-o", outputs, "--", "/bin/sh", "-c", command]
    environment = {**os.environ, "LONGSHORE_JOB_RUN_DIR": str(run), "LONGSHORE_JOB_ATTEMPT": "2", **variables}
    return subprocess.run(words, check=False, timeout=30, cwd=run, env=environment, capture_output=True).returncode


def test_a_success_with_a_stale_or_empty_output_leaves_a_record(shell: str, tmp_path: Path) -> None:
    (tmp_path / "wms").mkdir()
    (tmp_path / "old").write_text("old", "utf-8")
    outputs = f"exists {tmp_path}/old {tmp_path}/void {tmp_path}/good"
    assert run_recorded(shell, tmp_path, outputs, ": > void; echo x > good") == 0
    (record,) = (tmp_path / "wms" / "outputs").iterdir()
    values = '"cluster":7,"start":2,"out":"0 stale 1 empty"'
    assert (record.name, record.read_text("utf-8")) == ("7.2", f'{{{values},"again":{{{values}}}}}\n')


def test_other_ends_leave_no_record(shell: str, tmp_path: Path) -> None:
    (tmp_path / "wms").mkdir()
    (tmp_path / "old").write_text("old", "utf-8")
    assert run_recorded(shell, tmp_path, f"exists {tmp_path}/old", "echo new > old") == 0
    assert run_recorded(shell, tmp_path, f"fresh {tmp_path}/old", ":") == UNMET
    assert run_recorded(shell, tmp_path, f"exists {tmp_path}/old {tmp_path}/none", ":") == UNMET
    assert run_recorded(shell, tmp_path, f"exists {tmp_path}/old", "exit 3") == 3
    assert not (tmp_path / "wms" / "outputs").exists()


def test_a_success_stays_one_where_no_record_can_be_written(shell: str, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old", "utf-8")
    outputs = f"exists {tmp_path}/old"
    assert run_recorded(shell, tmp_path, outputs, ":") == 0, "there is no run directory"
    (tmp_path / "wms").mkdir()
    assert run_recorded(shell, tmp_path, outputs, ":", LONGSHORE_JOB_ATTEMPT="../x") == 0
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "wms" / "outputs").symlink_to(tmp_path / "elsewhere")
    assert run_recorded(shell, tmp_path, outputs, ":") == 0
    assert list((tmp_path / "elsewhere").iterdir()) == []
    (tmp_path / "wms" / "outputs").unlink()
    (tmp_path / "wms" / "outputs").write_text("a file", "utf-8")
    assert run_recorded(shell, tmp_path, outputs, ":") == 0
