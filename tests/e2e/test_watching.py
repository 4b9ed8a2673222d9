"""Who watches a run may stop at any time, and in any way: the run goes on."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path

import pytest
from tests.command import Cli
from tests.waiting import eventually
from tests.workflows import Tasks, WriteRun

FOUR: Tasks = {f"t{number}": ("T", []) for number in range(4)}
WATCH = [sys.executable, "-m", "longshore", "submit", "run.yaml", "--wait"]
IN_TERMINAL = """
import os, sys
terminal = os.open(sys.argv[1], os.O_RDWR)
for number in range(3):
    os.dup2(terminal, number)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Makes a terminal the controlling one of a new session, and a program the leader of that."""


@pytest.fixture
def slow_run(write_run: WriteRun, tmp_path: Path) -> Iterator[Path]:
    """A run that goes on until it is let go, and its directory."""
    write_run(
        f"runQuantumCommand: 'while ! test -e {tmp_path}/go; do sleep 0.05; done'\n"
        f"resources: {{cpus: 1}}\nsubmitPath: {tmp_path}/run\n",
        FOUR,
    )
    yield tmp_path / "run"
    (tmp_path / "go").touch()


def started(run: Path) -> bool:
    """Whether a job of the run has begun."""
    return any(run.glob("logs/*/*/*.log"))


def finishes(cli: Cli, run: Path) -> None:
    """Let the run go and see it succeed."""
    assert cli("status", run).stdout == "RUNNING\n"
    (run.parent / "go").touch()
    eventually(lambda: cli("status", run).stdout == "SUCCEEDED\n")


def test_ctrl_c_stops_the_watching_only(cli: Cli, slow_run: Path) -> None:
    watch = subprocess.Popen(
        WATCH, cwd=slow_run.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    eventually(lambda: started(slow_run))
    assert watch.stdout
    lines = [watch.stdout.readline() for _ in range(3)]
    os.killpg(watch.pid, signal.SIGINT)
    _, err = watch.communicate(timeout=120)
    assert watch.returncode == 130
    run_id = lines[1].removeprefix("Run Id: ").strip()
    assert f"the run continues. To cancel it: longshore cancel {run_id}" in err
    assert "Traceback" not in err
    finishes(cli, slow_run)


def test_ctrl_c_with_json_still_gives_a_document(cli: Cli, slow_run: Path) -> None:
    watch = subprocess.Popen(
        [*WATCH, "--json"],
        cwd=slow_run.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    eventually(lambda: started(slow_run))
    assert watch.stderr
    while "succeeded" not in watch.stderr.readline():
        pass
    os.killpg(watch.pid, signal.SIGINT)
    out, _ = watch.communicate(timeout=120)
    assert watch.returncode == 130
    assert json.loads(out)["submit_dir"] == str(slow_run)
    finishes(cli, slow_run)


def test_closing_the_terminal_does_not_stop_a_run(cli: Cli, slow_run: Path) -> None:
    terminal, other_end = pty.openpty()
    child = [sys.executable, "-c", IN_TERMINAL, os.ttyname(other_end), *WATCH]
    watch = subprocess.Popen(child, cwd=slow_run.parent, start_new_session=True, env={**os.environ, "TERM": "xterm"})
    shown = b""
    while b"Ctrl-C" not in shown:
        shown += os.read(terminal, 4096)
    os.close(other_end)
    eventually(lambda: started(slow_run))
    os.close(terminal)
    assert watch.wait(120) != 0, "the watching command goes with its terminal"
    assert b"Ctrl-C stops the watching" in shown, "the live view"
    finishes(cli, slow_run)


def on_a_terminal(*words: str | Path, folder: Path) -> str:
    """What a terminal of 70 columns gets from a command."""
    terminal, other_end = pty.openpty()
    ioctl(other_end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 70, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR"}}
    command = [sys.executable, "-m", "longshore", *words]
    subprocess.run(command, cwd=folder, stdout=other_end, env=env | {"TERM": "xterm"}, check=True, timeout=120)
    os.close(other_end)
    text = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while piece := os.read(terminal, 4096):
            text += piece
    os.close(terminal)
    return text.decode().replace("\r\n", "\n")


def test_tables_fit_a_terminal_and_are_those_of_bps_elsewhere(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    run = cli("submit", write_run("runQuantumCommand: 'true'\n", FOUR).name, "--wait", "--json").json["submit_dir"]
    piped = cli("report", run, "--bps").stdout
    assert piped == cli("report", run).stdout
    assert "UNKNOWN MISFIT UNREADY READY PENDING RUNNING DELETED HELD SUCCEEDED FAILED PRUNED EXPECTED" in piped
    table = piped.split("\n\n\n")[2]
    assert table in on_a_terminal("report", run, "--bps", folder=tmp_path)
    shown = on_a_terminal("report", run, folder=tmp_path)
    plain = re.sub(r"\x1b\[\d*m", "", shown)
    assert plain != shown, "a terminal has colours"
    assert re.search(r"^LABEL +SUCCEEDED +JOBS", plain, re.MULTILINE)
    assert "MISFIT" not in plain
    assert [line for line in plain.splitlines() if len(line) > 70 and not line.startswith(("Path", "Engine"))] == []
    assert "MISFIT" not in on_a_terminal("report", folder=tmp_path)
    assert on_a_terminal("status", run, folder=tmp_path) == "SUCCEEDED\n"


@pytest.mark.parametrize("way", [signal.SIGTERM, signal.SIGKILL])
def test_killing_the_watcher_does_not_stop_a_run(way: signal.Signals, cli: Cli, slow_run: Path) -> None:
    watch = subprocess.Popen(
        WATCH, cwd=slow_run.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    eventually(lambda: started(slow_run))
    os.killpg(watch.pid, way)
    assert watch.wait(120) == -way
    finishes(cli, slow_run)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_termination_ends_a_wait_at_once_with_how_to_look_on(
    number: signal.Signals, cli: Cli, slow_run: Path
) -> None:
    watch = subprocess.Popen(
        WATCH, cwd=slow_run.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    eventually(lambda: started(slow_run))
    assert watch.stdout
    run_id = [watch.stdout.readline() for _ in range(3)][1].removeprefix("Run Id: ").strip()
    watch.send_signal(number)
    _, err = watch.communicate(timeout=20)
    assert watch.returncode == -number, "which a shell shows as 143 or 129"
    assert f"the run continues. To cancel it: longshore cancel {run_id}" in err
    assert f"to look at it: longshore report {run_id}" in err
    finishes(cli, slow_run)


def test_without_a_terminal_lines_say_how_it_gets_on(cli: Cli, write_run: WriteRun) -> None:
    ran = cli("submit", write_run("runQuantumCommand: 'sleep 0.3'\nresources: {cpus: 2}\n", FOUR).name, "--wait")
    assert ran.returncode == 0
    lines = [line for line in ran.stderr.splitlines() if "/4 succeeded" in line]
    assert lines
    assert re.fullmatch(r"[a-z0-9]{6}: 4/4 succeeded", lines[-1])
    assert "\x1b" not in ran.stderr


FAILING = "runQuantumCommand: 'echo KeyError: x >&2; exit 3'\nmaxFastFailures: 6\nresources: {cpus: 2}\n"


@pytest.mark.parametrize("words", [["submit", "run.yaml", "--wait"], ["report", "--watch"]])
def test_a_pause_ends_the_wait_with_the_ways_on(cli: Cli, write_run: WriteRun, words: list[str]) -> None:
    path = write_run(FAILING, {f"t{number:02}": ("T", []) for number in range(30)})
    if words[0] == "report":
        words = [*words, str(cli("submit", path.name, "--json").json["submit_dir"])]
    waited = cli(*words)
    assert waited.returncode == 21, waited.stderr
    told = waited.stdout + waited.stderr
    found = re.search(r"([a-z0-9]{6}): PAUSED: 6 different jobs failed in a row", told)
    assert found, told
    run = found[1]
    assert re.search(rf"^\S*\s?{run}: .*\(exit code 3\): KeyError: x; .*log: /.*\.log$", told, re.MULTILINE), told
    assert told.count("KeyError: x") >= 2, "at once, and at the end"
    assert ("alike in 1 group:" in told) == (words[0] == "submit"), "they may be tried again"
    ways = [line.rpartition(": longshore ")[2] for line in told.splitlines()[-4:]]
    assert ways == [f"unpause {run}", f"cancel {run}", f"restart {run} --with-changes", f"report --watch {run}"]
    assert cli(*ways[0].split()).returncode == 0
    assert cli(*ways[1].split()).returncode == 0
    assert cli(*ways[2].split(), "--dry-run").returncode == 0


def test_the_document_of_a_paused_wait_has_its_exit_status(cli: Cli, write_run: WriteRun) -> None:
    write_run(FAILING, {f"t{number:02}": ("T", []) for number in range(30)})
    waited = cli("submit", "run.yaml", "--wait", "--json")
    assert (waited.returncode, waited.json["exit_status"], waited.json["state"]) == (21, 21, "RUNNING")
    assert "longshore unpause " in waited.stderr
    assert cli("cancel", waited.json["id"]).returncode == 0


def test_an_attempt_that_is_tried_again_is_told(cli: Cli, write_run: WriteRun) -> None:
    command = "'test $LONGSHORE_JOB_ATTEMPT -gt 1 || { echo connection reset; exit 3; }; sleep 3'"
    text = f"runQuantumCommand: {command}\nnumberOfRetries: 1\nrequestMemory: 10\n"
    ran = cli("submit", write_run(text, {"t": ("T", [])}).name, "--wait")
    assert ran.returncode == 0
    assert "attempt 1 of t failed (exit code 3): connection reset; log: /" in ran.stderr


def test_a_run_directory_that_goes_while_it_is_watched(slow_run: Path) -> None:
    watch = subprocess.Popen(
        WATCH, cwd=slow_run.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    eventually(lambda: started(slow_run))
    (slow_run.parent / "go").touch()  # what runs must not outlive the test
    while slow_run.exists():
        shutil.rmtree(slow_run, ignore_errors=True)
    _, err = watch.communicate(timeout=120)
    assert watch.returncode in {0, 5}, err
    if watch.returncode == 5:
        # It may look while half of it is there.
        assert f"'{slow_run}' is gone" in err or "there is no 'run.json' in it" in err
        assert "Traceback" not in err


def test_an_engine_that_dies_is_told_of(cli: Cli, slow_run: Path) -> None:
    watch = subprocess.Popen(
        WATCH, cwd=slow_run.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    eventually(lambda: started(slow_run))
    life = json.loads((slow_run / "journal" / "0001.jsonl").read_text("utf-8").splitlines()[0])
    os.kill(life["pid"], signal.SIGKILL)
    out, err = watch.communicate(timeout=120)
    assert watch.returncode == 10
    run_id = re.search("Run Id: (.*)", out)
    assert run_id
    assert re.search(rf"engine not running since 20\d\d-\d\d-.*Z: longshore resume {run_id[1]}", err)
    assert "unknown 1/4, ready 3/4" in out.splitlines()[-1]
    resumed = cli("resume", run_id[1])
    assert resumed.returncode == 0
    finishes(cli, slow_run)
