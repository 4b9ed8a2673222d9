"""The engine of a run of this machine is on standby while the run is planned, and is never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.command import Cli
from tests.e2e.conftest import LeftBehind
from tests.workflows import WriteRun

from longshore.contract.service import RunPaths
from longshore.model.states import JobState
from longshore.rundir.journal import newest_life
from longshore.rundir.run_directory import read_snapshot
from longshore.system.host import process_command, process_folder, processes_with_variable

MARK = "TEST_OF_A_STANDBY"
"""Variable by which processes of these tests are found."""


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def engines(mark: str) -> list[int]:
    """Return the processes of engines that the command with this mark started."""
    return [pid for pid, _ in processes_with_variable(MARK, mark) if "drive" in process_command(pid)]


def test_the_engine_was_on_standby_and_is_that_of_the_run(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    path = write_run("runQuantumCommand: while test ! -e go; do sleep 0.02; done\nrequestMemory: 10\n")
    run = RunPaths(Path(cli("submit", path, "--json").json["submit_dir"]))
    life = newest_life(run.journal)
    assert life is not None
    assert process_command(life.pid)[-3:] == ["drive", "--standby", "local"]
    assert process_folder(life.pid) == str(run.root)
    (tmp_path / "go").touch()
    wait_until(lambda: (snapshot := read_snapshot(run)) is not None and snapshot.state is JobState.SUCCEEDED)
    assert run.engine_log.read_text("utf-8") == ""


def test_the_engine_imports_nothing_more_once_it_has_its_run(cli: Cli, write_run: WriteRun) -> None:
    ran = cli("submit", write_run(), "--wait", "--json", env={"PYTHONPROFILEIMPORTTIME": "1"})
    run = RunPaths(Path(ran.json["submit_dir"]))
    # From the moment in which it has its log, Python writes there what it imports.
    assert "longshore" not in run.engine_log.read_text("utf-8")


@pytest.mark.parametrize("line", ["requestMemory: much", "wmsServiceClass: nowhere", "computeSite: nowhere"])
def test_a_run_that_cannot_be_planned_leaves_no_engine(
    cli: Cli, write_run: WriteRun, left_behind: LeftBehind, line: str, tmp_path: Path
) -> None:
    ran = cli("submit", write_run(f"runQuantumCommand: 'true'\n{line}\n"), env={MARK: str(tmp_path)})
    assert ran.returncode not in {0, 1}, ran.stderr
    assert not engines(str(tmp_path))
    assert not left_behind()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_command_that_dies_before_the_run_leaves_no_engine(number: signal.Signals, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("wmsServiceClass: local\npipelineYaml: p.yaml\ncreateQuantumGraph: sleep 600\n", "utf-8")
    (tmp_path / "p.yaml").write_text("description: none\ntasks: {a: b.C}\n", "utf-8")
    command = subprocess.Popen(
        [sys.executable, "-m", "longshore", "submit", str(path)],
        cwd=tmp_path,
        env={**os.environ, MARK: str(tmp_path)},
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: engines(str(tmp_path)))
    os.killpg(command.pid, number)
    assert command.wait(120)
    wait_until(lambda: not engines(str(tmp_path)))
