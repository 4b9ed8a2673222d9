"""The guard above the keeper: the ends of jobs are known unless engine, keeper and guard are all dead."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.services.local.keeper_process import Keeper
from tests.services.local.processes import Engine, Inbox, is_gone, kill_guard, kill_keeper, member, tmp_folder

from longshore.contract.service import RunPaths
from longshore.model.event import Ended, Lost
from longshore.model.json_lines import SEED, check_block
from longshore.services.local.keeper_client import LocalClient
from longshore.services.local.keeper_file import GuardFile, KeeperFile

BURN = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Keeper]]:
    """Start keepers that need no engine."""
    made: list[Keeper] = []

    def make(**more: Any) -> Keeper:
        made.append(Keeper(tmp_path, **more))
        return made[-1]

    yield make
    for keeper in made:
        for pipe in (keeper.process.stdin, keeper.process.stdout):
            assert pipe
            pipe.close()
        keeper.process.wait(60)


def await_orphans(run: RunPaths, inbox: Inbox) -> GuardFile:
    """Wait until the guard has nothing left to wait for."""
    file = GuardFile(min(run.keeper.glob("*.guard")))
    inbox.until(lambda: not file.is_guard_alive())
    return file


def test_ends_survive_the_death_of_engine_and_keeper(run: RunPaths, engine: Engine) -> None:
    line = f"sleep 60 & echo $!; {BURN}; until test -e go; do sleep 0.02; done; exit 5"
    process = engine(member(run, 1, "/bin/sh", "-c", line), member(run, 2, "/bin/sh", "-c", "kill -SEGV $$"))
    process.kill()
    process.wait()
    kill_keeper(run)
    (run.root / "go").touch()
    inbox = Inbox(LocalClient(run, 2))
    first, second = inbox.end(1), inbox.end(2)
    assert isinstance(first, Ended)
    assert isinstance(second, Ended)
    assert (first.exit, second.signal) == (5, signal.SIGSEGV)
    assert first.run_s is not None
    assert first.end is not None
    assert first.start is not None
    assert 0 < first.run_s < 60
    assert first.cpu_s is not None
    assert 0.01 < first.cpu_s < 30
    assert len([event for event in inbox.events if isinstance(event, Ended | Lost)]) == 2
    assert is_gone(int((run.root / "1.log").read_text("utf-8"))), "what the job left behind in its group is ended"
    assert not tmp_folder(run).exists()


def test_an_end_while_no_engine_lives_is_read_by_the_next(run: RunPaths, engine: Engine) -> None:
    process = engine(member(run, 1, "/bin/sh", "-c", "until test -e go; do sleep 0.02; done; exit 6"))
    process.kill()
    process.wait()
    kill_keeper(run)
    assert GuardFile(run.keeper / "0001.1.guard").is_guard_alive()
    (run.root / "go").touch()
    inbox = Inbox(LocalClient(run, 2))
    file = GuardFile(run.keeper / "0001.1.guard")
    while file.is_guard_alive():
        inbox.client.wait(0.01)
    end = inbox.end(1)
    assert isinstance(end, Ended)
    assert end.exit == 6
    text = file.path.read_bytes()
    assert check_block(text, SEED) is not None, "each line vouches for those before it"
    assert [json.loads(line)["r"] for line in text.splitlines()] == ["guard", "end", "usage"]


def test_a_dead_guard_leaves_its_keeper_and_its_ends_alone(run: RunPaths, inbox: Inbox) -> None:
    inbox.client.start("t", [member(run, 1, "/bin/sh", "-c", "until test -e go; do sleep 0.02; done; exit 3")])
    inbox.start(1)
    kill_guard(run)
    inbox.poll()
    inbox.client.start("t2", [member(run, 2, "true")])
    second = inbox.end(2)
    assert isinstance(second, Ended)
    (run.root / "go").touch()
    first = inbox.end(1)
    assert isinstance(first, Ended)
    assert (first.exit, second.exit) == (3, 0)
    assert len(list(run.keeper.glob("*.jsonl"))) == 1, "no other keeper was started"


def test_without_guard_and_keeper_the_engine_sees_the_ends(run: RunPaths, inbox: Inbox) -> None:
    inbox.client.start("t", [member(run, 1, "/bin/sh", "-c", "until test -e go; do sleep 0.02; done; exit 4")])
    inbox.start(1)
    kill_guard(run)
    kill_keeper(run)
    inbox.poll()
    (run.root / "go").touch()
    end = inbox.end(1)
    assert isinstance(end, Ended)
    assert end.exit == 4


def test_a_guard_that_dies_after_its_keeper_hands_the_orphans_on(run: RunPaths, inbox: Inbox) -> None:
    inbox.client.start("t", [member(run, 1, "/bin/sh", "-c", "until test -e go; do sleep 0.02; done; exit 4")])
    inbox.start(1)
    kill_keeper(run)
    inbox.poll()
    kill_guard(run)
    (run.root / "go").touch()
    end = inbox.end(1)
    assert isinstance(end, Ended)
    assert end.exit == 4


def test_an_end_is_known_even_if_the_keeper_dies_while_it_reaps(run: RunPaths, inbox: Inbox) -> None:
    inbox.client.start("t", [member(run, 1, "/bin/sh", "-c", "exit 9")])
    inbox.end(1)
    inbox.client.close()
    path = run.keeper / "0001.1.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    kinds = [json.loads(line)["r"] for line in lines]
    # As a keeper leaves it that is killed right after it has reaped the process.
    path.write_bytes(b"".join(lines[: kinds.index("exit") + 1]))
    again = Inbox(LocalClient(run, 2))
    end = again.end(1)
    assert isinstance(end, Ended)
    assert (end.exit, end.cause) == (9, "EXIT")


def test_jobs_of_a_dead_keeper_can_be_cancelled(run: RunPaths, engine: Engine) -> None:
    process = engine(member(run, 1, "/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"))
    process.kill()
    process.wait()
    kill_keeper(run)
    inbox = Inbox(LocalClient(run, 2))
    inbox.start(1)
    assert inbox.client.end([(1, 1)], grace_s=0.2) == 1
    end = inbox.end(1)
    assert isinstance(end, Ended)
    assert end.signal == signal.SIGKILL
    await_orphans(run, inbox)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_the_guard_ends_with_its_keeper_only(make: Callable[..., Keeper], number: signal.Signals) -> None:
    keeper = make()
    keeper.run(keeper.member(1, "sleep", "0.2"))
    keeper.until(lambda: keeper.said("start"))
    os.kill(keeper.process.pid, number)
    assert keeper.drain() == 0
    assert keeper.end_of(1)["s"] == 0
    assert (keeper.folder / "records.guard").read_bytes() == b""


def test_a_full_disk_delays_what_the_guard_records_and_loses_nothing(make: Callable[..., Keeper]) -> None:
    keeper = make(most_bytes=500)
    keeper.run(keeper.member(1, "/bin/sh", "-c", "until test -e go; do sleep 0.02; done; exit 3"))
    start = keeper.until(lambda: keeper.said("start"))[0]
    path = keeper.folder / "records.guard"
    with path.open("ab") as file:
        file.write(b"\0" * 480)
    os.kill(keeper.pid, signal.SIGKILL)
    (keeper.folder / "go").touch()
    keeper.until(lambda: path.stat().st_size == 500)
    assert keeper.process.poll() is None
    # Room again; what follows the filling is whole.
    os.truncate(path, 0)
    assert keeper.process.wait(60) == 0
    assert f'"pid":{start["pid"]},' in path.read_text("utf-8")


def test_damaged_records_are_named_and_not_believed(run: RunPaths, inbox: Inbox) -> None:
    inbox.client.start("t", [member(run, 1, "/bin/sh", "-c", "exit 9")])
    inbox.end(1)
    inbox.client.close()
    path = run.keeper / "0001.1.jsonl"
    text = path.read_bytes()
    whole = KeeperFile(path)
    assert len(whole.read()) == text.count(b"\n")
    assert not whole.lines.bad_lines
    for place in range(len(text) - 1):
        for bit in (0, 5):
            damaged = bytearray(text)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            file = KeeperFile(path)
            file.read()
            file.close()
            assert file.lines.bad_lines, (place, bit)
    lines = text.splitlines(keepends=True)
    for gone in range(len(lines) - 1):
        path.write_bytes(b"".join(lines[:gone] + lines[gone + 1 :]))
        file = KeeperFile(path)
        file.read()
        file.close()
        assert file.lines.bad_lines == [gone + 1]
