"""Attempts whose keeper is dead are held to the limits of their logs by the guard, whether an engine lives or not."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Unpack

import pytest
from tests.services.local.processes import Engine, Inbox, kill_guard, kill_keeper, member

from longshore.contract.service import RunPaths
from longshore.keeper.protocol import LimitsOrder, MemberOrder
from longshore.model.event import Ended
from longshore.model.states import Cause
from longshore.services.local.keeper_client import LocalClient
from longshore.services.local.keeper_file import GuardFile

MIB = 1 << 20
AWAIT_GO = "until test -e go; do sleep 0.02; done"
FLOOD = "while :; do echo a word; done"


def waiting_job(run: RunPaths, line: str, **lim: Unpack[LimitsOrder]) -> MemberOrder:
    """A job that waits for the file `go`; its log is in the folder of logs, as that of every job of an engine."""
    order = member(run, 1, "/bin/sh", "-c", f"echo first; {AWAIT_GO}; {line}")
    order["log"] = str(run.logs / "1.log")
    if lim:
        order["lim"] = lim
    return order


def orphan(run: RunPaths, engine: Engine, order: MemberOrder) -> GuardFile:
    """Start a job, kill engine and keeper, and let the job go on under the guard alone."""
    process = engine(order)
    process.kill()
    process.wait()
    kill_keeper(run)
    (run.root / "go").touch()
    return GuardFile(run.keeper / "0001.1.guard")


def await_guard(guard: GuardFile) -> None:
    """Wait until the guard has nothing left to wait for."""
    deadline = time.monotonic() + 120
    while guard.is_guard_alive():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def end_for_the_next_engine(run: RunPaths) -> Ended:
    end = Inbox(LocalClient(run, 2)).end(1)
    assert isinstance(end, Ended)
    return end


@pytest.mark.parametrize("trap", ["", "trap '' TERM; "])
def test_a_flood_is_ended_and_cut_while_only_the_guard_lives(run: RunPaths, engine: Engine, trap: str) -> None:
    guard = orphan(run, engine, waiting_job(run, trap + FLOOD, log=MIB // 4, grace=60.0))
    log = run.logs / "1.log"
    deadline = time.monotonic() + 120
    while log.stat().st_size <= MIB // 4 and guard.is_guard_alive():
        assert time.monotonic() < deadline
        time.sleep(0.002)
    passed = time.time()
    await_guard(guard)
    end = end_for_the_next_engine(run)
    assert end.cause is Cause.OUTPUT
    assert end.end is not None
    # An idle machine takes less than a second; a busy one may take longer. The grace would be a minute.
    assert end.end - passed < 10
    text = log.read_bytes()
    assert len(text) <= MIB // 4
    assert text.startswith(b"first\na word\n")
    assert b"bytes were cut here, because of maxLogSize" in text
    assert text.splitlines()[-1].decode() == f"longshore: OUTPUT: {end.reason}"


def test_the_default_limit_holds_while_only_the_guard_lives(run: RunPaths, engine: Engine) -> None:
    log = run.logs / "1.log"
    guard = orphan(run, engine, waiting_job(run, f"truncate -s 2G {log}; exec sleep 60"))
    await_guard(guard)
    end = end_for_the_next_engine(run)
    assert end.cause is Cause.OUTPUT
    assert end.reason == "its log had 2048.0 MiB, and maxLogSize is 1024.0 MiB"
    assert log.stat().st_size <= 1 << 30


def test_the_default_limit_holds_while_only_the_engine_lives(run: RunPaths, inbox: Inbox) -> None:
    log = run.logs / "1.log"
    inbox.client.start("t", [waiting_job(run, f"truncate -s 2G {log}; exec sleep 60")])
    inbox.start(1)
    kill_guard(run)
    kill_keeper(run)
    (run.root / "go").touch()
    end = inbox.end(1)
    assert isinstance(end, Ended)
    assert end.cause is Cause.OUTPUT
    assert log.stat().st_size <= 1 << 30


def test_a_job_under_the_guard_may_write_other_files(run: RunPaths, engine: Engine) -> None:
    guard = orphan(run, engine, waiting_job(run, "exec >big 2>&1; truncate -s 2G big; sleep 1; exit 3"))
    await_guard(guard)
    end = end_for_the_next_engine(run)
    assert (end.cause, end.exit) == (Cause.EXIT, 3)
    assert Path(run.root / "big").stat().st_size == 2 << 30


def test_no_limit_is_no_limit_under_the_guard(run: RunPaths, engine: Engine) -> None:
    log = run.logs / "1.log"
    guard = orphan(run, engine, waiting_job(run, f"truncate -s 2G {log}; sleep 1; exit 3", log=0))
    await_guard(guard)
    end = end_for_the_next_engine(run)
    assert (end.cause, end.exit) == (Cause.EXIT, 3)
