"""Attempts whose keeper was killed: held to their limits all the same, and their ends and folders not forgotten."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Unpack

import pytest
from tests.services.local.keeper_process import HOG, MIB
from tests.services.local.processes import Inbox, kill_guard, kill_keeper, member

from longshore.contract.service import RunPaths
from longshore.keeper.protocol import LimitsOrder, MemberOrder
from longshore.model.event import Ended, Lost
from longshore.model.states import Cause
from longshore.services.local.keeper_client import LocalClient
from longshore.services.local.keeper_file import KeeperFile


def limited(run: RunPaths, *argv: str, **lim: Unpack[LimitsOrder]) -> MemberOrder:
    order = member(run, 1, *argv)
    order["lim"] = lim
    return order


def scratch_folder(run: RunPaths) -> Path:
    file = KeeperFile(min(run.keeper.glob("*.jsonl")))
    file.read()
    file.close()
    assert file.keeper_record
    return Path(file.keeper_record.tmp)


def orphan(run: RunPaths, inbox: Inbox, *argv: str, **lim: Unpack[LimitsOrder]) -> Ended:
    """The end of an attempt whose keeper was killed while it ran."""
    inbox.client.start("t", [limited(run, *argv, **lim)])
    inbox.start(1)
    kill_keeper(run)
    end = inbox.end(1)
    assert isinstance(end, Ended)
    return end


def test_too_much_memory(run: RunPaths, inbox: Inbox) -> None:
    wait = 'while [ ! -e go ]; do sleep 0.05; done; exec "$@"'
    inbox.client.start(
        "t", [limited(run, "/bin/sh", "-c", wait, "x", sys.executable, "-c", HOG, "120", "60", mem=64 * MIB)]
    )
    inbox.start(1)
    kill_keeper(run)
    (run.root / "go").touch()
    end = inbox.end(1)
    assert isinstance(end, Ended)
    assert (end.cause, end.signal) == (Cause.OOM, signal.SIGKILL)
    assert end.reason is not None
    assert "its limit is 64 MiB" in end.reason
    assert end.rss_b is not None
    assert end.rss_b > 64 * MIB
    assert (run.root / "1.log").read_text("utf-8") == f"longshore: OOM: {end.reason}\n"


def test_time_counts_from_the_beginning(run: RunPaths, inbox: Inbox) -> None:
    end = orphan(run, inbox, "sleep", "60", wall=1.5, sig=[signal.SIGTERM], grace=20.0)
    assert (end.cause, end.signal) == (Cause.WALLTIME, signal.SIGTERM)
    assert end.run_s is not None
    assert 1.4 < end.run_s < 20


def test_whoever_is_deaf_is_killed(run: RunPaths, inbox: Inbox) -> None:
    line = "trap '' TERM; while :; do sleep 0.05; done"
    end = orphan(run, inbox, "/bin/sh", "-c", line, wall=0.5, sig=[signal.SIGTERM], grace=0.3)
    assert (end.cause, end.signal) == (Cause.WALLTIME, signal.SIGKILL)


def test_a_flood_of_words(run: RunPaths, inbox: Inbox) -> None:
    inbox.client.start(
        "t", [limited(run, "/bin/sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; exec yes", log=MIB)]
    )
    inbox.start(1)
    kill_keeper(run)
    (run.root / "go").touch()
    end = inbox.end(1)
    assert isinstance(end, Ended)
    assert end.cause is Cause.OUTPUT


def test_what_stays_within_its_limits_is_left_alone(run: RunPaths, inbox: Inbox) -> None:
    end = orphan(run, inbox, "/bin/sh", "-c", "sleep 0.6; exit 3", mem=1 << 40, wall=600.0, log=1 << 40)
    assert (end.cause, end.exit, end.reason) == (Cause.EXIT, 3, None)


@pytest.mark.parametrize(("keep", "code", "kept"), [("failed", 3, True), ("failed", 0, False), ("all", 0, True)])
def test_its_temporary_directory_is_kept(run: RunPaths, inbox: Inbox, keep: str, code: int, kept: bool) -> None:
    end = orphan(run, inbox, "/bin/sh", "-c", f"echo x > $TMPDIR/x; sleep 0.4; exit {code}", tmp=keep)
    folder = scratch_folder(run)
    assert not folder.exists()
    place = folder.with_name(f"{folder.name}-kept") / "1.1"
    assert (place / "x").exists() is kept
    assert end.extra == ({"tmp": str(place)} if kept else {})
    if kept:
        assert (run.root / "1.log").read_text("utf-8") == f"longshore: TMPDIR is kept: {place}\n"
        (place / "x").unlink()
        place.rmdir()
        place.parent.rmdir()


def test_nobodys_child_is_held_to_its_limits_as_well(
    run: RunPaths, engine: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """Engine, keeper and guard are killed: what the next engine ends is known to have been ended, and not lost."""
    process = engine(limited(run, "sleep", "60", wall=3.0, sig=[signal.SIGTERM], grace=20.0))
    process.kill()
    process.wait()
    kill_guard(run)
    kill_keeper(run)
    inbox = Inbox(LocalClient(run, 2))
    end = inbox.end(1)
    assert isinstance(end, Ended)
    assert (end.cause, end.exit, end.signal) == (Cause.WALLTIME, None, None)
    assert end.reason == "it ran for 3 s, the run time that it requested"


def test_what_nobody_saw_end_keeps_its_folder_where_that_is_wanted(
    run: RunPaths, engine: Callable[..., subprocess.Popen[bytes]]
) -> None:
    process = engine(limited(run, "/bin/sh", "-c", "echo x > $TMPDIR/x; exec sleep 0.5", tmp="failed"))
    process.kill()
    process.wait()
    kill_guard(run)
    kill_keeper(run)
    time.sleep(0.6)
    inbox = Inbox(LocalClient(run, 2))
    assert isinstance(inbox.end(1), Lost)
    folder = scratch_folder(run)
    place = folder.with_name(f"{folder.name}-kept") / "1.1"
    assert (place / "x").read_text("utf-8") == "x\n"
    (place / "x").unlink()
    place.rmdir()
    place.parent.rmdir()
