"""Damage of a keeper's records: what they lack may have happened, so nothing is started twice because of it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.services.local.processes import Inbox, is_gone, kill_guard, kill_keeper, member

from longshore.contract.service import RunPaths
from longshore.model.event import Ended, Life, Lost
from longshore.rundir.journal import Journal
from longshore.services.local.keeper_client import LocalClient
from longshore.services.local.keeper_file import KeeperFile, keepers_elsewhere
from longshore.system.host import boot_id, host_name

TAG, LANE_TAG = "k7f3a-1-1", "k7f3a-1-2"
STARTED = {TAG: {(1, 1), (2, 1)}, LANE_TAG: {(3, 1)}}
"""Attempts that were started, by batch; attempt (4, 1) waited in its lane."""
KINDS = ("keeper", "got", "start", "exit", "end", "never", "closed")


def write_life(run: RunPaths) -> None:
    run.journal.mkdir()
    life = Life(v=2, life=1, t=time.time(), host=host_name(), pid=1, boot=boot_id(), by="submit", longshore="0")
    Journal(run.journal, life).close()


def flip(path: Path, at: int, bit: int = 0) -> None:
    text = bytearray(path.read_bytes())
    text[at] ^= 1 << bit
    path.write_bytes(text)


def until(is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def lines_of(text: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    for line in text.splitlines(keepends=True):
        yield offset, line
        offset += len(line)


@pytest.fixture
def killed(run: RunPaths) -> tuple[Path, int]:
    """The file of a keeper of life 1 that was killed with its guard, and the process of its job 2, which runs."""
    write_life(run)
    inbox = Inbox(LocalClient(run, 1))
    inbox.client.start(TAG, [member(run, 1, "true"), member(run, 2, "sleep", "60")])
    inbox.client.start(LANE_TAG, [member(run, 3, "sleep", "60"), member(run, 4, "true")], lane="x", slots=1)
    for job in (1, 2, 3):
        inbox.start(job)
    inbox.end(1)
    (path,) = run.keeper.glob("*.jsonl")
    file = KeeperFile(path)
    file.read()
    pid = file.running[2, 1].pid
    # What waits in the lane is given up as soon as no more commands can come.
    inbox.client.close()
    until(lambda: b'"closed"' in path.read_bytes())
    os.kill(file.running[3, 1].pid, signal.SIGKILL)
    until(lambda: b'{"r":"end","j":3' in path.read_bytes())
    kill_guard(run)
    kill_keeper(run)
    assert all(b'"r":"%s"' % kind.encode() in path.read_bytes() for kind in KINDS)
    return path, pid


def is_told_as_not_received(client: LocalClient) -> bool:
    found, lost = client.find([TAG, LANE_TAG]), client.find_lost([TAG, LANE_TAG])
    return found is not None and any(STARTED[tag] - found.get(tag, set()) for tag in {TAG, LANE_TAG} - lost)


def test_no_flipped_byte_makes_a_started_attempt_one_that_was_not_received(
    run: RunPaths, killed: tuple[Path, int]
) -> None:
    path, pid = killed
    whole = path.read_bytes()
    assert not is_told_as_not_received(LocalClient(run, 2))
    for offset, line in lines_of(whole):
        for place in (0, len(line) // 2, len(line) - 1):
            for bit in (0, 5):
                path.write_bytes(whole)
                flip(path, offset + place, bit)
                client = LocalClient(run, 2)
                assert not is_told_as_not_received(client), (line, place, bit)
                if b'"got"' in line and TAG.encode() in line:
                    assert client.find_lost([TAG]) == {TAG}, "what its members did is not known"
    os.kill(pid, signal.SIGKILL)


def test_an_attempt_without_intact_records_is_lost_only_once_it_is_gone(
    run: RunPaths, killed: tuple[Path, int]
) -> None:
    path, pid = killed
    text = path.read_bytes()
    for offset, line in lines_of(text):
        if (b'"got"' in line and TAG.encode() in line) or (b'"start"' in line and b'"j":2,' in line):
            flip(path, offset + len(line) // 2)
    client = LocalClient(run, 2)
    assert client.find([TAG]) is None
    assert "damaged" in client.why_undecided
    assert not is_gone(pid)
    os.kill(pid, signal.SIGKILL)
    until(lambda: client.find([TAG]) is not None)
    found = client.find([TAG])
    assert found is not None
    assert (2, 1) not in found[TAG]
    assert (1, 1) in found[TAG], "the record of its start is intact"
    assert client.find_lost([TAG]) == {TAG}


@pytest.mark.parametrize("kind", KINDS)
def test_every_attempt_of_a_damaged_file_is_settled(run: RunPaths, killed: tuple[Path, int], kind: str) -> None:
    path, pid = killed
    for offset, line in lines_of(path.read_bytes()):
        if b'"r":"%s"' % kind.encode() in line:
            flip(path, offset + len(line) // 2)
    os.kill(pid, signal.SIGKILL)
    until(lambda: is_gone(pid))
    inbox = Inbox(LocalClient(run, 2))
    found = inbox.client.find([TAG, LANE_TAG])
    assert found is not None
    inbox.poll()
    ended = {(event.j, event.a) for event in inbox.events if isinstance(event, Ended | Lost)}
    lost = inbox.client.find_lost([TAG, LANE_TAG])
    for tag, members in STARTED.items():
        assert members & found.get(tag, set()) <= ended
        assert members <= found.get(tag, set()) or tag in lost
    assert not inbox.never
    assert is_gone(pid)


def test_an_attempt_of_which_only_the_exit_is_known_ends(run: RunPaths, killed: tuple[Path, int]) -> None:
    path, pid = killed
    os.kill(pid, signal.SIGKILL)
    until(lambda: is_gone(pid))
    for offset, line in lines_of(path.read_bytes()):
        is_of_batch = b'"got"' in line and TAG.encode() in line
        if is_of_batch or (b'"j":1,' in line and b'"exit"' not in line):
            flip(path, offset + len(line) // 2)
    inbox = Inbox(LocalClient(run, 2))
    found = inbox.client.find([TAG])
    assert found is not None
    assert (1, 1) in found[TAG]
    inbox.poll()
    (end,) = (event for event in inbox.events if isinstance(event, Ended) and event.j == 1)
    assert (end.exit, end.cause, end.outputs) == (0, None, None)


def test_a_damaged_first_record_does_not_make_a_running_attempt_a_lost_one(
    run: RunPaths, killed: tuple[Path, int]
) -> None:
    path, pid = killed
    flip(path, 10)
    inbox = Inbox(LocalClient(run, 2))
    inbox.poll()
    assert not inbox.ends(2)
    assert not is_gone(pid)
    assert inbox.client.end([(2, 1)], grace_s=5.0) == 1
    end = inbox.end(2)
    assert "restarted" not in (end.reason or "" if isinstance(end, Ended) else end.why)
    assert is_gone(pid)


def test_a_batch_that_a_keeper_of_this_life_may_have_received_is_lost_not_taken_back(run: RunPaths) -> None:
    write_life(run)
    inbox = Inbox(LocalClient(run, 1))
    inbox.client.start(TAG, [member(run, 1, "sleep", "60"), member(run, 2, "sleep", "60")])
    (path,) = run.keeper.glob("*.jsonl")
    until(lambda: path.read_bytes().count(b'"start"') == 2)
    file = KeeperFile(path)
    file.read()
    pids = [start.pid for start in file.running.values()]
    kill_guard(run)
    kill_keeper(run)
    for offset, line in lines_of(path.read_bytes()):
        if b'"got"' in line or b'"start"' in line:
            flip(path, offset + len(line) // 2)
    inbox.poll()
    assert {event.j for event in inbox.events if isinstance(event, Lost)} == {1, 2}
    assert not inbox.never
    until(lambda: all(map(is_gone, pids)))
    inbox.client.close()


def test_another_keeper_takes_over_from_one_whose_records_were_damaged(run: RunPaths) -> None:
    write_life(run)
    inbox = Inbox(LocalClient(run, 1))
    inbox.client.start(TAG, [member(run, 1, "/bin/sh", "-c", "until test -e go; do sleep 0.05; done; exit 3")])
    (path,) = run.keeper.glob("*.jsonl")
    until(lambda: b'"start"' in path.read_bytes())
    at = path.read_bytes().index(b'"got"')
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"#")
    inbox.poll()
    inbox.client.start("k7f3a-1-2", [member(run, 2, "/bin/sh", "-c", "exit 4")])
    second = inbox.end(2)
    assert isinstance(second, Ended)
    assert second.exit == 4
    assert len(list(run.keeper.glob("*.jsonl"))) == 2
    assert inbox.client.find([TAG]) is None, "it lives, and may run what it did not record"
    (run.root / "go").touch()
    first = inbox.end(1)
    assert isinstance(first, Ended)
    assert first.exit == 3
    inbox.client.close()


def test_an_unfinished_last_record_is_no_damage(run: RunPaths, killed: tuple[Path, int]) -> None:
    path, pid = killed
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for end in range(last, len(whole) + 1):
        path.write_bytes(whole[:end])
        file = KeeperFile(path)
        file.read()
        file.close()
        assert not file.is_damaged, end
    path.write_bytes(whole[:-1] + b"\x0b")
    file = KeeperFile(path)
    file.read()
    assert file.is_damaged, "the line was finished, and its end is another byte"
    file.close()
    os.kill(pid, signal.SIGKILL)


def test_an_unreadable_record_of_an_older_format_is_damage(run: RunPaths) -> None:
    path = run.keeper / "0001.1.jsonl"
    path.write_text(
        '{"r":"keeper","pid":1,"host":"h","boot":"b","tmp":"/x"}\n{"r":"g#t","b":"t","m":[[1,1]]}\n', "utf-8"
    )
    file = KeeperFile(path)
    file.read()
    file.close()
    assert file.is_damaged
    assert "a keeper on 'h'" in keepers_elsewhere(run.keeper)
