"""Who and where we are, and which process is which."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from longshore.system.host import (
    boot_id,
    host_name,
    is_same_process,
    physical_memory,
    process_start_s,
    processes_with_variable,
    user_name,
)


def test_the_host_and_its_boot() -> None:
    assert host_name() == os.uname().nodename
    assert len(boot_id()) == 36
    assert physical_memory() > 2**28


def test_a_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "somebody")
    assert user_name() == "somebody"
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 3_999_999_999 - 10**9)
    assert user_name() == str(os.getuid())


def test_a_process_is_known_by_when_it_started() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    process = subprocess.Popen(["sleep", "30"])
    up = process_start_s(process.pid)
    assert up is not None
    assert before - 0.1 <= up <= time.clock_gettime(time.CLOCK_BOOTTIME)
    assert is_same_process(process.pid, up)
    assert not is_same_process(process.pid, up - 2)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    # Only its remains are left now.
    assert process_start_s(process.pid) is None
    assert process_start_s(process.pid, include_zombies=True) == up
    assert not is_same_process(process.pid, up)
    assert is_same_process(process.pid, up, include_zombies=True)
    process.wait()
    assert not is_same_process(process.pid, up, include_zombies=True)


def test_a_process_may_have_any_name() -> None:
    code = "import pathlib, sys; pathlib.Path('/proc/self/comm').write_text('a) Z (b c'); print(flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    up = process_start_s(process.pid)
    assert up is not None
    assert is_same_process(process.pid, up)
    process.communicate(b"\n")


def test_an_unused_process_id_has_no_process() -> None:
    assert process_start_s(2**22 + 1) is None


def test_processes_are_found_by_their_environment() -> None:
    value = f"a b={os.getpid()}\n"
    process = subprocess.Popen(["sleep", "30"], env={"MARK": value, "STRANGE": os.fsdecode(b"\xff"), "MARKS": "x"})
    try:
        deadline = time.monotonic() + 120
        while not (found := dict(processes_with_variable("MARK", value))):
            # Between fork and exec a process still has the environment of its parent.
            assert time.monotonic() < deadline
        assert list(found) == [process.pid]
        assert os.fsencode(found[process.pid]["STRANGE"]) == b"\xff"
        assert dict(processes_with_variable("MARK", value[:-1])) == {}
    finally:
        process.kill()
        process.wait()
