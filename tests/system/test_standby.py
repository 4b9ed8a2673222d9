"""A standby: it goes on as the command that it is handed, and leaves no process when it is not needed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from longshore.system.detached import StandbyProcess, begin_standby, end_standby, start_from_standby
from longshore.system.host import descendants, process_command
from longshore.system.processes import processes

CODE = """
import os, sys
from longshore.system.detached import await_words
words = await_words()
if words is not None:
    mask = os.umask(0)
    print(sys.argv[1:], words, os.getcwd(), oct(mask), repr(sys.stdin.read()), flush=True)
    print("error", file=sys.stderr)
"""
PROGRAM = [sys.executable, "-c", CODE, "known"]
FLAG = ["--standby"]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def standby_pid() -> int:
    """Return the process id of the only child of this process that is on standby."""
    found: list[int] = []

    def look() -> bool:
        # A process has no command line for an instant while its program is loaded.
        found[:] = (each for each in descendants(os.getpid()) if "--standby" in process_command(each))
        return bool(found)

    wait_until(look)
    (pid,) = found
    return pid


def test_it_goes_on_with_the_words_the_mask_and_the_log_of_the_command(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("before\n", "utf-8")
    standby = StandbyProcess(PROGRAM, FLAG)
    previous = os.umask(0o027)
    try:
        started = standby.hand_over([*PROGRAM, "a  b", "ü\udcff"], log=log)
    finally:
        os.umask(previous)
    assert started is not None
    process, method = started
    assert os.getsid(process.pid) == process.pid
    assert process.wait(120) == 0
    words = ["a  b", "ü\udcff"]
    line = f"{['known', *FLAG]} {words} {tmp_path} 0o27 ''"
    assert log.read_text("utf-8").splitlines() == ["before", line, "error"]
    assert "session" in method.description
    # A second command needs a process of its own; and nothing is left to end.
    assert standby.hand_over([*PROGRAM, "a"], log=log) is None
    standby.discard()


def begin() -> int:
    """Start a process on standby, and return its id."""
    begin_standby(PROGRAM, FLAG)
    pid = standby_pid()
    assert is_there(pid)
    return pid


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    end_standby()


@pytest.mark.parametrize("command", [["other"], PROGRAM[:-1], [*PROGRAM[:-1], "changed", "a"]])
def test_another_command_is_not_handed_over(command: list[str], tmp_path: Path) -> None:
    pid = begin()
    assert start_from_standby(command, log=tmp_path / "engine.log") is None
    assert not is_there(pid)
    assert not list(tmp_path.iterdir())


def test_another_environment_is_not_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = begin()
    monkeypatch.setenv("A_FUNCTION_OF_THE_USER", "set this")
    assert start_from_standby([*PROGRAM, "a"], log=tmp_path / "engine.log") is None
    assert not is_there(pid)


def test_one_that_is_not_needed_leaves_no_process(tmp_path: Path) -> None:
    pid = begin()
    end_standby()
    assert not is_there(pid)
    assert start_from_standby([*PROGRAM, "a"], log=tmp_path / "engine.log") is None


def test_there_is_one_at_a_time() -> None:
    pid = begin()
    begin_standby(PROGRAM, FLAG)
    assert not is_there(pid)
    assert standby_pid() != pid


def test_a_log_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    pid = begin()
    with pytest.raises(OSError, match="nowhere"):
        start_from_standby([*PROGRAM, "a"], log=tmp_path / "nowhere" / "engine.log")
    assert not is_there(pid)


def test_one_that_was_killed_is_none(tmp_path: Path) -> None:
    pid = begin()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_there(pid))
    assert start_from_standby([*PROGRAM, "a"], log=tmp_path / "engine.log") is None


DIES = """
import os, socket
with socket.socket(fileno=os.dup(0)) as channel:
    socket.recv_fds(channel, 1 << 17, 1)
os._exit(9)
"""


def test_one_that_dies_with_its_words_is_none(tmp_path: Path) -> None:
    program = [sys.executable, "-c", DIES, "known"]
    begin_standby(program, FLAG)
    pid = standby_pid()
    assert start_from_standby([*program, "a"], log=tmp_path / "engine.log") is None
    assert not is_there(pid)


def test_without_a_known_mask_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = begin()
    monkeypatch.setattr(processes, "read_proc", lambda _: b"Name:\tpython\n")
    assert start_from_standby([*PROGRAM, "a"], log=tmp_path / "engine.log") is None
    assert not is_there(pid)
    assert not list(tmp_path.iterdir())


def test_one_that_cannot_be_started_is_none(tmp_path: Path) -> None:
    command = [str(tmp_path / "no-such-program")]
    begin_standby(command, FLAG)
    assert start_from_standby(command, log=tmp_path / "engine.log") is None


def test_it_ends_with_a_command_that_is_killed(tmp_path: Path) -> None:
    code = f"""
import time
from longshore.system.host import descendants, process_command
from longshore.system.processes import processes
from longshore.system.detached import StandbyProcess
standby = StandbyProcess({PROGRAM!r}, {FLAG!r})
print(standby._process.pid, flush=True)
time.sleep(600)
"""
    command = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert command.stdout is not None
    with command.stdout:
        pid = int(command.stdout.readline())
    assert is_there(pid)
    command.kill()
    command.wait()
    wait_until(lambda: not is_there(pid))


def test_a_process_that_no_command_started_is_no_standby() -> None:
    code = "from longshore.system.detached import await_words\nawait_words()"
    done = subprocess.run(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert "OSError" in done.stderr
