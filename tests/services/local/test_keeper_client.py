"""The engine's side of keepers: whatever dies, and whenever, no job is forgotten, and none that lives is given up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.services.local.processes import Engine, Inbox, is_gone, keepers, kill_guard, kill_keeper, member, tmp_folder

from longshore.contract.service import RunPaths
from longshore.keeper.program import FILES, FOLDER
from longshore.model.event import Ended, Lost, Started
from longshore.services.local.keeper_client import LocalClient


def test_a_killed_keeper_costs_no_end(run: RunPaths, inbox: Inbox) -> None:
    inbox.client.start("t", [member(run, 1, "/bin/sh", "-c", "sleep 0.4; exit 7"), member(run, 2, "sleep", "60")])
    # Started side by side, they may be written down in any order.
    inbox.start(1)
    inbox.start(2)
    kill_keeper(run)
    first = inbox.end(1)
    assert isinstance(first, Ended)
    assert first.exit == 7
    assert first.run_s is not None
    assert 0.3 < first.run_s < 5
    assert not inbox.ends(2)
    assert inbox.client.end([(2, 1)], grace_s=5.0) == 1
    second = inbox.end(2)
    assert isinstance(second, Ended)
    assert second.signal == signal.SIGTERM
    assert not inbox.never
    assert len(inbox.events) == 4
    assert not tmp_folder(run).exists()


def test_what_such_a_job_leaves_behind_is_killed(run: RunPaths, inbox: Inbox) -> None:
    inbox.client.start("t", [member(run, 1, "/bin/sh", "-c", "sleep 60 & echo $!; sleep 0.3")])
    inbox.start(1)
    kill_keeper(run)
    inbox.end(1)
    left = int((run.root / "1.log").read_text("utf-8"))
    inbox.until(lambda: is_gone(left))


def test_another_keeper_takes_over(run: RunPaths, inbox: Inbox) -> None:
    inbox.client.start("t1", [member(run, 1, "sleep", "0.3")])
    inbox.start(1)
    kill_keeper(run)
    inbox.client.start("t2", [member(run, 2, "/bin/sh", "-c", "exit 2")])
    assert [event.exit for event in (inbox.end(1), inbox.end(2)) if isinstance(event, Ended)] == [0, 2]
    assert len(keepers(run)) == 2
    assert inbox.client.find(["t1", "t2", "t3"]) == {"t1": frozenset({(1, 1)}), "t2": frozenset({(2, 1)})}


def test_orders_that_no_keeper_took_are_given_back(run: RunPaths, inbox: Inbox) -> None:
    inbox.client.start("t1", [member(run, 1, "sleep", "0.2")])
    inbox.start(1)
    pid = keepers(run)[0]
    os.kill(pid, signal.SIGSTOP)
    inbox.client.start("t2", [member(run, 2, "true")])
    # Sent is as good as taken, as long as it lives.
    assert inbox.client.find(["t2"]) == {"t2": frozenset({(2, 1)})}
    kill_keeper(run)
    inbox.until(lambda: inbox.never)
    assert inbox.never == [(2, 1)]
    assert inbox.client.find(["t2"]) == {}
    assert not (run.root / "2.log").exists()
    inbox.end(1)


def test_a_keeper_outlives_its_engine(run: RunPaths, engine: Engine) -> None:
    process = engine(member(run, 1, "/bin/sh", "-c", "sleep 0.3; exit 4"))
    process.kill()
    process.wait()
    inbox = Inbox(LocalClient(run, 2))
    assert inbox.client.find(["tag-1", "tag-2"]) == {"tag-1": frozenset({(1, 1)})}
    end = inbox.end(1)
    assert isinstance(end, Ended)
    assert end.exit == 4
    inbox.until(lambda: is_gone(keepers(run)[0]))
    assert not tmp_folder(run).exists()


def test_a_job_is_lost_only_when_it_is_gone(run: RunPaths, engine: Engine) -> None:
    line = "echo $$; setsid sleep 60 & echo $!; until test -e go; do sleep 0.05; done"
    process = engine(member(run, 1, "/bin/sh", "-c", line))
    os.kill(keepers(run)[0], signal.SIGSTOP)
    process.kill()
    process.wait()
    kill_guard(run)
    kill_keeper(run)
    inbox = Inbox(LocalClient(run, 2))
    inbox.until(lambda: (run.root / "1.log").read_text("utf-8").count("\n") == 2)
    pid, left = map(int, (run.root / "1.log").read_text("utf-8").split())
    assert not is_gone(pid)
    inbox.poll()
    assert not inbox.ends(1)
    (run.root / "go").touch()
    end = inbox.end(1)
    assert isinstance(end, Lost)
    assert "not observed" in end.why
    assert is_gone(pid)
    # Before it may be tried again, nothing of it must run any more.
    inbox.until(lambda: is_gone(left))
    assert not tmp_folder(run).exists()


def test_a_later_life_can_end_what_is_nobodys_child(run: RunPaths, engine: Engine) -> None:
    process = engine(member(run, 1, "/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"))
    kill_keeper(run)
    process.kill()
    process.wait()
    inbox = Inbox(LocalClient(run, 2))
    inbox.start(1)
    assert inbox.client.end([(1, 1)], grace_s=0.2) == 1
    assert inbox.client.end([(1, 1)], grace_s=0.2) == 0
    inbox.end(1)


def test_only_attempts_that_are_there_can_be_ended(run: RunPaths, inbox: Inbox) -> None:
    assert inbox.client.end([(1, 1)], grace_s=1.0) == 0
    inbox.client.start("t", [member(run, 1, "sleep", "60")])
    # At once, before the keeper has said anything of it.
    assert inbox.client.end([(1, 1), (1, 2), (9, 1)], grace_s=5.0) == 1
    assert inbox.client.end([(1, 1)], grace_s=5.0) == 0
    end = inbox.end(1)
    assert isinstance(end, Ended)
    assert end.signal == signal.SIGTERM
    assert inbox.client.end([(1, 1)], grace_s=5.0) == 0
    assert [type(event) for event in inbox.events] == [Started, Ended]


def test_sweeping_finds_what_left_its_group(run: RunPaths, inbox: Inbox, bystander: subprocess.Popen[bytes]) -> None:
    inbox.client.start("t", [member(run, 1, "/bin/sh", "-c", "setsid sleep 60 & echo $!; sleep 0.1")])
    inbox.end(1)
    left = int((run.root / "1.log").read_text("utf-8"))
    assert not is_gone(left)
    assert inbox.client.kill_leftovers() == [left]
    inbox.until(lambda: is_gone(left))
    assert inbox.client.kill_leftovers() == []
    assert bystander.poll() is None


def test_a_keeper_that_does_not_begin_is_an_error(
    run: RunPaths, inbox: Inbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/bin/false")
        patch.setattr(tempfile, "tempdir", str(tmp_path))
        with pytest.raises(OSError, match="ended before it started"):
            inbox.client.start("t", [member(run, 1, "true")])
    inbox.poll()
    assert (inbox.events, inbox.never) == ([], [])
    assert not list(tmp_path.glob("longshore-*"))
    inbox.client.start("t", [member(run, 1, "true")])
    inbox.end(1)


def test_the_program_of_the_keeper_is_ours_and_whole(run: RunPaths, inbox: Inbox) -> None:
    (run.keeper / "keeper.py").write_text("raise SystemExit('an old one, cut off by a full disk')", "utf-8")
    inbox.client.start("t", [member(run, 1, "true")])
    inbox.end(1)
    for name in FILES:
        assert (run.keeper / name).read_bytes() == (FOLDER / name).read_bytes()
    assert {path.name for path in run.keeper.iterdir()} == {*FILES, "0001.1.jsonl", "0001.1.guard"}


def test_closing_leaves_neither_process_nor_folder(run: RunPaths) -> None:
    inbox = Inbox(LocalClient(run, 1))
    inbox.client.start("t", [member(run, 1, "true")])
    inbox.end(1)
    folder = tmp_folder(run)
    assert folder.is_dir()
    assert folder.stat().st_mode & 0o777 == 0o700
    inbox.client.close()
    assert is_gone(keepers(run)[0])
    assert not folder.exists()


def test_closing_leaves_jobs_alone(run: RunPaths) -> None:
    inbox = Inbox(LocalClient(run, 1))
    inbox.client.start("t", [member(run, 1, "/bin/sh", "-c", "until test -e go; do sleep 0.05; done; exit 6")])
    inbox.start(1)
    inbox.client.close()
    (run.root / "go").touch()
    end = Inbox(LocalClient(run, 2)).end(1)
    assert isinstance(end, Ended)
    assert end.exit == 6
