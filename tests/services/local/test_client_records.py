"""What keepers of earlier lives wrote: read in full, believed with care."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import threading
import time

import pytest
from tests.services.local.processes import NOBODY, Inbox, is_gone, member, up_of, write_records

from longshore.contract.service import RunPaths
from longshore.model.event import Ended, Lost
from longshore.services.local import keeper_client as module
from longshore.services.local.keeper_client import LocalClient
from longshore.services.local.keeper_file import KeeperFile
from longshore.system import processes


def test_a_number_that_is_another_process_now_is_left_alone(run: RunPaths, stranger: int) -> None:
    got = {"r": "got", "b": "t", "m": [[1, 1]]}
    write_records(run, got, {"r": "start", "j": 1, "a": 1, "pid": stranger, "t": 5.0, "up": up_of(stranger) - 100})
    inbox = Inbox(LocalClient(run, 1))
    inbox.client.end([(1, 1)], grace_s=0.0)
    assert isinstance(inbox.end(1), Lost)
    time.sleep(0.1)
    assert not is_gone(stranger)


def test_a_job_that_is_nobodys_child_is_waited_for(run: RunPaths, stranger: int) -> None:
    write_records(run, {"r": "start", "j": 1, "a": 1, "pid": stranger, "t": 5.0, "up": up_of(stranger)})
    inbox = Inbox(LocalClient(run, 1))
    for _ in range(3):
        inbox.poll()
        inbox.client.wait(0.01)
    assert not inbox.ends(1)
    assert inbox.client.end([(1, 1)], grace_s=5.0) == 1
    assert isinstance(inbox.end(1), Lost)
    assert is_gone(stranger)


@pytest.mark.parametrize("number", [-1, 0, 1])
def test_no_record_makes_us_signal_everybody(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "killpg", lambda *given: asked.append(given))
    monkeypatch.setattr(os, "kill", lambda *given: asked.append(given))
    processes.signal_group(number, signal.SIGKILL)
    processes.signal_process(number, signal.SIGKILL)
    assert asked == []


def test_after_a_restart_of_the_machine_all_is_lost(run: RunPaths, bystander: subprocess.Popen[bytes]) -> None:
    up = up_of(bystander.pid)
    start = {"r": "start", "j": 1, "a": 1, "pid": bystander.pid, "t": 5.0, "up": up}
    write_records(run, {"r": "got", "b": "t", "m": [[1, 1], [2, 1]]}, start, boot="another")
    inbox = Inbox(LocalClient(run, 1))
    inbox.poll()
    assert [(event.j, event.why) for event in inbox.events if isinstance(event, Lost)] == [
        (2, "its keeper was killed while starting it"),
        (1, "the machine was restarted while it ran"),
    ]
    assert bystander.poll() is None


def test_what_ran_on_another_host_is_lost(run: RunPaths) -> None:
    start = {"r": "start", "j": 1, "a": 1, "pid": NOBODY, "t": 5.0, "up": 1.0}
    write_records(run, start, boot="another", host="elsewhere")
    inbox = Inbox(LocalClient(run, 1))
    lost = inbox.end(1)
    assert isinstance(lost, Lost)
    assert lost.why == "it ran on 'elsewhere'"


def test_a_start_that_was_not_recorded_is_undone(run: RunPaths) -> None:
    write_records(run, {"r": "got", "b": "t", "m": [[1, 1], [2, 1]]}, {"r": "end", "j": 2, "a": 1, "t": 1.0, "s": 0})
    marked = [
        subprocess.Popen(["sleep", "60"], env={"LONGSHORE_JOB_RUN_MARK": folder, "LONGSHORE_JOB_INDEX": index})
        for folder, index in ((str(run.root), "1.1"), (str(run.root), "2.1"), (f"{run.root}x", "1.1"))
    ]
    try:
        inbox = Inbox(LocalClient(run, 1))
        lost = inbox.end(1)
        assert isinstance(lost, Lost)
        assert lost.why == "its keeper was killed while starting it"
        assert marked[0].wait(120) == -signal.SIGKILL
        assert [process.poll() for process in marked[1:]] == [None, None]
    finally:
        for process in marked:
            process.kill()
            process.wait()


def test_a_file_is_read_up_to_its_last_whole_line(run: RunPaths) -> None:
    path = write_records(run)
    file = KeeperFile(path)
    assert len(file.read()) == 1
    with path.open("ab") as more:
        more.write(b'{"r":"got","b":"t","m":[[1,1')
        more.flush()
        assert file.read() == []
        more.write(b']]}\n{"r":"clo')
        more.flush()
        assert len(file.read()) == 1
        more.write(b'sed"}\n')
    assert len(file.read()) == 1
    assert file.closed
    assert file.unstarted == {(1, 1)}


def test_what_was_read_before_a_file_server_went_away_is_not_lost(
    run: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    got = {"r": "got", "b": "t", "m": [[1, 1]]}
    file = KeeperFile(write_records(run, got, {"r": "got", "b": "t", "m": [[2, 1]]}))
    read, calls = os.read, iter(range(9))

    def flaky(number: int, _most: int) -> bytes:
        if next(calls) == 2:
            raise OSError(errno.ESTALE, "Stale file handle")
        return read(number, 100)

    monkeypatch.setattr(os, "read", flaky)
    with pytest.raises(OSError, match="Stale"):
        file.read()
    assert len(file.read()) == 3
    assert file.unstarted == {(1, 1), (2, 1)}


def test_what_cannot_be_read_keeps_nobody_from_ending_an_attempt(run: RunPaths, inbox: Inbox) -> None:
    inbox.client.start("t", [member(run, 1, "sleep", "60")])
    inbox.start(1)
    # Whatever is done with it, it cannot be read.
    unreadable = KeeperFile(run.keeper / "0000.9.jsonl")
    unreadable.path.mkdir()
    inbox.client._files[unreadable.path.name] = unreadable
    with pytest.raises(OSError, match="Is a directory"):
        inbox.client.poll()
    assert inbox.client.end([(1, 1)], grace_s=5.0) == 1
    unreadable.path.rmdir()
    unreadable.close()
    end = inbox.end(1)
    assert isinstance(end, Ended)
    assert end.signal == signal.SIGTERM


def test_zeros_that_a_power_failure_left_are_skipped(run: RunPaths) -> None:
    start = {"r": "start", "j": 1, "a": 1, "pid": NOBODY, "t": 5.0, "up": 1.0}
    path = write_records(run, {"r": "got", "b": "t", "m": [[1, 1]]}, start, boot="another")
    with path.open("ab") as file:
        file.write(b"\0" * 512 + b"\n" + b"\0" * 100)
    inbox = Inbox(LocalClient(run, 1))
    assert isinstance(inbox.end(1), Lost)


def test_a_tag_is_not_missing_while_a_keeper_still_reads(run: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_records(run)
    client = LocalClient(run, 1)
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        monkeypatch.setattr(module, "_DRAIN_LIMIT_S", 0.1)
        assert client.find(["t"]) is None

        def drain() -> None:
            file.write(b'{"r":"got","b":"t","m":[[1,1]]}\n{"r":"closed"}\n')
            file.flush()

        timer = threading.Timer(0.2, drain)
        timer.start()
        while (found := client.find(["t"])) is None:
            # Nobody is kept waiting for it again.
            time.sleep(0.01)
        assert found == {"t": frozenset({(1, 1)})}
        timer.join()
