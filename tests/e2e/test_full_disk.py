"""A full disk is named, with its mount point and the way out, by every command that meets it."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.command import Cli
from tests.waiting import eventually
from tests.workflows import WriteRun

from longshore.rundir.journal import newest_life
from longshore.runstate.open_run import open_run


def fill(disk: Path) -> None:
    with (disk / "filling").open("wb", 0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017 - it ends no other way


def test_a_run_on_a_full_disk_is_refused_with_the_file_system(cli: Cli, write_run: WriteRun, small_disk: Path) -> None:
    fill(small_disk)
    refused = cli("submit", write_run(), "--set", f"submitPath={small_disk}/run")
    assert refused.returncode == 7
    assert f"Make room on the file system '{small_disk}'" in refused.stderr
    assert not (small_disk / "run").exists()


@pytest.mark.timeout(120)
def test_an_engine_that_died_on_a_full_disk_is_told_with_the_way_out(
    cli: Cli, write_run: WriteRun, small_disk: Path, tmp_path: Path
) -> None:
    path = write_run(f"runQuantumCommand: sh -c 'until test -e {tmp_path}/go; do sleep 0.1; done'\n")
    submitted = cli("submit", path, "--set", f"submitPath={small_disk}/run")
    assert submitted.returncode == 0, submitted.stderr
    run = small_disk / "run"
    life = newest_life(run / "journal")
    assert life is not None
    os.kill(life.pid, signal.SIGKILL)
    eventually(lambda: not open_run(str(run)).is_alive())
    fill(small_disk)
    for words in (("status", run), ("report", "--id", run)):
        told = cli(*words)
        assert f"'{small_disk}' is full" in told.stdout + told.stderr
    refused = cli("resume", run)
    assert refused.returncode == 6
    assert f"'{small_disk}' is full" in refused.stderr
    assert f"longshore resume {open_run(str(run)).card.id}" in refused.stderr
    (small_disk / "filling").unlink()
    (tmp_path / "go").touch()
    assert cli("resume", run).returncode == 0
    eventually(lambda: cli("status", run).returncode == 0)


@pytest.mark.timeout(120)
def test_of_three_resumes_at_once_one_takes_the_run_over_and_the_others_say_who_did(
    cli: Cli, write_run: WriteRun, tmp_path: Path
) -> None:
    path = write_run(f"runQuantumCommand: sh -c 'until test -e {tmp_path}/go; do sleep 0.1; done'\n")
    run = Path(cli("submit", path, "--json").json["submit_dir"])
    life = newest_life(run / "journal")
    assert life is not None
    os.kill(life.pid, signal.SIGKILL)
    eventually(lambda: not open_run(str(run)).is_alive())
    command = [sys.executable, "-m", "longshore", "resume", str(run)]
    resumes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    answers = [(process.communicate(timeout=100), process.returncode) for process in resumes]
    assert sorted(code for _, code in answers) == [0, 6, 6]
    newest = newest_life(run / "journal")
    assert newest is not None
    for (_, errors), code in answers:
        if code:
            # One that has the run and has not begun its life yet has no number.
            which = f"(engine {newest.life}|a new engine)"
            assert re.search(rf"{which} \(process {newest.pid} of '.*' on '{newest.host}'\)", errors)
    (tmp_path / "go").touch()
    eventually(lambda: cli("status", run).returncode == 0)


@pytest.mark.timeout(120)
def test_a_live_engine_that_waits_for_room_on_the_disk_is_told(
    cli: Cli, write_run: WriteRun, small_disk: Path, tmp_path: Path
) -> None:
    path = write_run(f"runQuantumCommand: sh -c 'until test -e {tmp_path}/go; do sleep 0.1; done'\n")
    assert cli("submit", path, "--set", f"submitPath={small_disk}/run").returncode == 0
    run = small_disk / "run"
    eventually(lambda: cli("status", run, "--json").json["counts"].get("RUNNING"))
    fill(small_disk)
    for words in (("status", run), ("report", "--id", run)):
        told = cli(*words)
        assert f"'{small_disk}' is full: the engine waits until there is room" in told.stdout + told.stderr
    refused = cli("cancel", run)
    assert refused.returncode == 6
    assert f"'{small_disk}' is full" in refused.stderr
    assert "Make room there" in refused.stderr
    assert "write access" not in refused.stderr
    (small_disk / "filling").unlink()
    (tmp_path / "go").touch()
    eventually(lambda: cli("status", run).returncode == 0)
