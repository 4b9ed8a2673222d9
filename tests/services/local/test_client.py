"""The engine's side of keepers: whatever dies, and whenever, no job is forgotten, and none that lives is given up."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from longshore.contract.context import RunPaths
from longshore.engine.keeper import FILES, FOLDER
from longshore.engine.keeper.kernel import send
from longshore.engine.policy import Past, RetryRules, judge
from longshore.model.event import Ended, Failed, Lost, Started
from longshore.services.local import client as module
from longshore.services.local import signals
from longshore.services.local.client import LocalClient
from longshore.services.local.records import KeeperFile
from longshore.world.host import boot_id, host_name, is_same_process, started_at

_PR_SET_CHILD_SUBREAPER = 36
Attempt = tuple[int, int]
WRITTEN_BY_HAND = "0000.1.jsonl"
NOBODY = 2**22 + 1
"""A number that no process can have (see `pid_max` in proc(5))."""

ENGINE = """
import json, sys, time
from pathlib import Path
from longshore.contract.context import RunPaths
from longshore.services.local.client import LocalClient
client = LocalClient(RunPaths(Path(sys.argv[1])), 1)
client.start("tag-1", json.loads(sys.argv[2]))
while True:
    client.wait(1.0)
    client.poll()
"""
"""An engine that starts jobs and then does nothing but look after them."""


class Told:
    """All that a client has told so far."""

    def __init__(self, client: LocalClient) -> None:
        self.client = client
        self.events: list[Started | Ended | Lost] = []
        self.never: list[Attempt] = []

    def poll(self) -> None:
        events, never = self.client.poll()
        self.events += events
        self.never += never

    def until(self, done: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + 120
        self.poll()
        while not (found := done()):
            assert time.monotonic() < deadline, (self.events, self.never)
            self.client.wait(0.02)
            self.poll()
        return found

    def end(self, job: int) -> Ended | Lost:
        event: Ended | Lost = self.until(lambda: self.ends(job))[0]
        return event

    def ends(self, job: int) -> list[Ended | Lost]:
        return [event for event in self.events if event.j == job and not isinstance(event, Started)]

    def start(self, job: int) -> None:
        self.until(lambda: [event for event in self.events if event.j == job])


@pytest.fixture(autouse=True)
def ordinary_process() -> Iterator[None]:
    """Undo what a client makes of its process: orphans of other tests are none of its business."""
    yield
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunPaths]:
    run = RunPaths(tmp_path / "run")
    run.keeper.mkdir(parents=True)
    yield run
    for path in run.keeper.glob("*.jsonl"):
        if path.name == WRITTEN_BY_HAND:
            # What stands in there was started by nobody, and must not be signalled.
            continue
        file = KeeperFile(path)
        file.read()
        for start in file.running.values():
            if start.pid > 1 and is_same_process(start.pid, start.up):
                send(start.pid, signal.SIGKILL)


@pytest.fixture
def told(run: RunPaths) -> Iterator[Told]:
    client = LocalClient(run, 1)
    yield Told(client)
    client.close()


def member(run: RunPaths, job: int, *argv: str) -> dict[str, Any]:
    marks = {"LONGSHORE_JOB_RUN_MARK": str(run.root), "LONGSHORE_JOB_INDEX": f"{job}.1"}
    log = str(run.root / f"{job}.log")
    return {"j": job, "a": 1, "argv": argv, "e": 0, "v": marks, "cwd": str(run.root), "log": log}


def keepers(run: RunPaths) -> list[int]:
    """Process numbers of the keepers, oldest first."""
    return [json.loads(path.read_text("utf-8").splitlines()[0])["pid"] for path in sorted(run.keeper.glob("*.jsonl"))]


def kill_keeper(run: RunPaths) -> None:
    """Kill the first keeper, and see it dead with all its threads, and so its pipes closed."""
    pid = keepers(run)[0]
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 120
    file = KeeperFile(min(run.keeper.glob("*.jsonl")))
    while not is_gone(pid) or file.keeper_lives():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def tmp_folder(run: RunPaths) -> Path:
    first = json.loads(min(run.keeper.glob("*.jsonl")).read_text("utf-8").splitlines()[0])
    return Path(first["tmp"])


def is_gone(pid: int) -> bool:
    return started_at(pid) is None


def write_records(run: RunPaths, *records: dict[str, Any], boot: str | None = None, host: str | None = None) -> Path:
    """A file as a keeper of an earlier life left it."""
    path = run.keeper / WRITTEN_BY_HAND
    first = {
        "r": "keeper",
        "pid": NOBODY,
        "host": host or host_name(),
        "boot": boot or boot_id(),
        "tmp": str(run.root / f"longshore-{os.getuid()}-x"),
    }
    path.write_text("".join(json.dumps(record) + "\n" for record in (first, *records)), "utf-8")
    return path


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is nobody's job."""
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def up_of(pid: int) -> float:
    up = started_at(pid)
    assert up is not None
    return up


def test_a_killed_keeper_costs_no_end(run: RunPaths, told: Told) -> None:
    told.client.start("t", [member(run, 1, "/bin/sh", "-c", "sleep 0.4; exit 7"), member(run, 2, "sleep", "60")])
    # Started side by side, they may be written down in any order.
    told.start(1)
    told.start(2)
    kill_keeper(run)
    first = told.end(1)
    assert isinstance(first, Ended)
    assert first.exit == 7
    assert first.run_s is not None
    assert 0.3 < first.run_s < 5
    assert not told.ends(2)
    assert told.client.end([(2, 1)], grace_s=5.0) == 1
    second = told.end(2)
    assert isinstance(second, Ended)
    assert second.signal == signal.SIGTERM
    assert not told.never
    assert len(told.events) == 4
    assert not tmp_folder(run).exists()


def test_what_such_a_job_leaves_behind_is_killed(run: RunPaths, told: Told) -> None:
    told.client.start("t", [member(run, 1, "/bin/sh", "-c", "sleep 60 & echo $!; sleep 0.3")])
    told.start(1)
    kill_keeper(run)
    told.end(1)
    left = int((run.root / "1.log").read_text("utf-8"))
    told.until(lambda: is_gone(left))


def test_another_keeper_takes_over(run: RunPaths, told: Told) -> None:
    told.client.start("t1", [member(run, 1, "sleep", "0.3")])
    told.start(1)
    kill_keeper(run)
    told.client.start("t2", [member(run, 2, "/bin/sh", "-c", "exit 2")])
    assert [event.exit for event in (told.end(1), told.end(2)) if isinstance(event, Ended)] == [0, 2]
    assert len(keepers(run)) == 2
    assert told.client.find(["t1", "t2", "t3"]) == {"t1": frozenset({(1, 1)}), "t2": frozenset({(2, 1)})}


def test_orders_that_no_keeper_took_are_given_back(run: RunPaths, told: Told) -> None:
    told.client.start("t1", [member(run, 1, "sleep", "0.2")])
    told.start(1)
    pid = keepers(run)[0]
    os.kill(pid, signal.SIGSTOP)
    told.client.start("t2", [member(run, 2, "true")])
    # Sent is as good as taken, as long as it lives.
    assert told.client.find(["t2"]) == {"t2": frozenset({(2, 1)})}
    kill_keeper(run)
    told.until(lambda: told.never)
    assert told.never == [(2, 1)]
    assert told.client.find(["t2"]) == {}
    assert not (run.root / "2.log").exists()
    told.end(1)


@pytest.fixture
def engine(run: RunPaths) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    engines: list[subprocess.Popen[bytes]] = []

    def start(*members: dict[str, Any]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", ENGINE, str(run.root), json.dumps(members)])
        engines.append(process)
        deadline = time.monotonic() + 120
        while sum(path.read_text("utf-8").count('"start"') for path in run.keeper.glob("*.jsonl")) < len(members):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return process

    yield start
    for process in engines:
        process.kill()
        process.wait()


Engine = Callable[..., "subprocess.Popen[bytes]"]


def test_a_keeper_outlives_its_engine(run: RunPaths, engine: Engine) -> None:
    process = engine(member(run, 1, "/bin/sh", "-c", "sleep 0.3; exit 4"))
    process.kill()
    process.wait()
    told = Told(LocalClient(run, 2))
    assert told.client.find(["tag-1", "tag-2"]) == {"tag-1": frozenset({(1, 1)})}
    end = told.end(1)
    assert isinstance(end, Ended)
    assert end.exit == 4
    told.until(lambda: is_gone(keepers(run)[0]))
    assert not tmp_folder(run).exists()


def test_a_job_is_lost_only_when_it_is_gone(run: RunPaths, engine: Engine) -> None:
    line = "echo $$; setsid sleep 60 & echo $!; until test -e go; do sleep 0.05; done"
    process = engine(member(run, 1, "/bin/sh", "-c", line))
    os.kill(keepers(run)[0], signal.SIGSTOP)
    process.kill()
    process.wait()
    kill_keeper(run)
    told = Told(LocalClient(run, 2))
    told.until(lambda: (run.root / "1.log").read_text("utf-8").count("\n") == 2)
    pid, left = map(int, (run.root / "1.log").read_text("utf-8").split())
    assert not is_gone(pid)
    told.poll()
    assert not told.ends(1)
    (run.root / "go").touch()
    end = told.end(1)
    assert isinstance(end, Lost)
    assert "nobody was there" in end.why
    assert is_gone(pid)
    # Before it may be tried again, nothing of it must run any more.
    told.until(lambda: is_gone(left))
    assert not tmp_folder(run).exists()


def test_a_later_life_can_end_what_is_nobodys_child(run: RunPaths, engine: Engine) -> None:
    process = engine(member(run, 1, "/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"))
    kill_keeper(run)
    process.kill()
    process.wait()
    told = Told(LocalClient(run, 2))
    told.start(1)
    assert told.client.end([(1, 1)], grace_s=0.2) == 1
    assert told.client.end([(1, 1)], grace_s=0.2) == 0
    told.end(1)


@pytest.fixture
def stranger() -> Iterator[int]:
    """Number of a process that is not even a child of ours."""
    line = "setsid sleep 60 >/dev/null & echo $!"
    said = subprocess.run(["/bin/sh", "-c", line], stdout=subprocess.PIPE, check=True).stdout
    pid = int(said)
    up = up_of(pid)
    yield pid
    if pid > 1 and is_same_process(pid, up):
        os.kill(pid, signal.SIGKILL)


def test_a_number_that_is_another_process_now_is_left_alone(run: RunPaths, stranger: int) -> None:
    got = {"r": "got", "b": "t", "m": [[1, 1]]}
    write_records(run, got, {"r": "start", "j": 1, "a": 1, "pid": stranger, "t": 5.0, "up": up_of(stranger) - 100})
    told = Told(LocalClient(run, 1))
    told.client.end([(1, 1)], grace_s=0.0)
    assert isinstance(told.end(1), Lost)
    time.sleep(0.1)
    assert not is_gone(stranger)


def test_a_job_that_is_nobodys_child_is_waited_for(run: RunPaths, stranger: int) -> None:
    write_records(run, {"r": "start", "j": 1, "a": 1, "pid": stranger, "t": 5.0, "up": up_of(stranger)})
    told = Told(LocalClient(run, 1))
    for _ in range(3):
        told.poll()
        told.client.wait(0.01)
    assert not told.ends(1)
    assert told.client.end([(1, 1)], grace_s=5.0) == 1
    assert isinstance(told.end(1), Lost)
    assert is_gone(stranger)


@pytest.mark.parametrize("number", [-1, 0, 1])
def test_no_record_makes_us_signal_everybody(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "killpg", lambda *given: asked.append(given))
    monkeypatch.setattr(os, "kill", lambda *given: asked.append(given))
    signals.signal_group(number, signal.SIGKILL)
    signals.signal_process(number, signal.SIGKILL)
    assert asked == []


def test_after_a_restart_of_the_machine_all_is_lost(run: RunPaths, bystander: subprocess.Popen[bytes]) -> None:
    up = up_of(bystander.pid)
    start = {"r": "start", "j": 1, "a": 1, "pid": bystander.pid, "t": 5.0, "up": up}
    write_records(run, {"r": "got", "b": "t", "m": [[1, 1], [2, 1]]}, start, boot="another")
    told = Told(LocalClient(run, 1))
    told.poll()
    assert [(event.j, event.why) for event in told.events if isinstance(event, Lost)] == [
        (2, "its keeper was killed while starting it"),
        (1, "the machine was restarted while it ran"),
    ]
    assert bystander.poll() is None


def test_what_ran_on_another_host_is_lost(run: RunPaths) -> None:
    start = {"r": "start", "j": 1, "a": 1, "pid": NOBODY, "t": 5.0, "up": 1.0}
    write_records(run, start, boot="another", host="elsewhere")
    told = Told(LocalClient(run, 1))
    lost = told.end(1)
    assert isinstance(lost, Lost)
    assert lost.why == "it ran on 'elsewhere'"


def test_a_start_that_was_not_recorded_is_undone(run: RunPaths) -> None:
    write_records(run, {"r": "got", "b": "t", "m": [[1, 1], [2, 1]]}, {"r": "end", "j": 2, "a": 1, "t": 1.0, "s": 0})
    marked = [
        subprocess.Popen(["sleep", "60"], env={"LONGSHORE_JOB_RUN_MARK": folder, "LONGSHORE_JOB_INDEX": index})
        for folder, index in ((str(run.root), "1.1"), (str(run.root), "2.1"), (f"{run.root}x", "1.1"))
    ]
    try:
        told = Told(LocalClient(run, 1))
        lost = told.end(1)
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


def test_what_cannot_be_read_keeps_nobody_from_ending_an_attempt(run: RunPaths, told: Told) -> None:
    told.client.start("t", [member(run, 1, "sleep", "60")])
    told.start(1)
    # Whatever is done with it, it cannot be read.
    unreadable = KeeperFile(run.keeper / "0000.9.jsonl")
    unreadable.path.mkdir()
    told.client._files[unreadable.path.name] = unreadable
    with pytest.raises(IsADirectoryError):
        told.client.poll()
    assert told.client.end([(1, 1)], grace_s=5.0) == 1
    unreadable.path.rmdir()
    unreadable.close()
    end = told.end(1)
    assert isinstance(end, Ended)
    assert end.signal == signal.SIGTERM


def test_zeros_that_a_power_failure_left_are_skipped(run: RunPaths) -> None:
    start = {"r": "start", "j": 1, "a": 1, "pid": NOBODY, "t": 5.0, "up": 1.0}
    path = write_records(run, {"r": "got", "b": "t", "m": [[1, 1]]}, start, boot="another")
    with path.open("ab") as file:
        file.write(b"\0" * 512 + b"\n" + b"\0" * 100)
    told = Told(LocalClient(run, 1))
    assert isinstance(told.end(1), Lost)


def test_a_tag_is_not_missing_while_a_keeper_still_reads(run: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_records(run)
    client = LocalClient(run, 1)
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        monkeypatch.setattr(module, "_DRAIN_S", 0.1)
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


def test_only_attempts_that_are_there_can_be_ended(run: RunPaths, told: Told) -> None:
    assert told.client.end([(1, 1)], grace_s=1.0) == 0
    told.client.start("t", [member(run, 1, "sleep", "60")])
    # At once, before the keeper has said anything of it.
    assert told.client.end([(1, 1), (1, 2), (9, 1)], grace_s=5.0) == 1
    assert told.client.end([(1, 1)], grace_s=5.0) == 0
    end = told.end(1)
    assert isinstance(end, Ended)
    assert end.signal == signal.SIGTERM
    assert told.client.end([(1, 1)], grace_s=5.0) == 0
    assert [type(event) for event in told.events] == [Started, Ended]


def test_sweeping_finds_what_left_its_group(run: RunPaths, told: Told, bystander: subprocess.Popen[bytes]) -> None:
    told.client.start("t", [member(run, 1, "/bin/sh", "-c", "setsid sleep 60 & echo $!; sleep 0.1")])
    told.end(1)
    left = int((run.root / "1.log").read_text("utf-8"))
    assert not is_gone(left)
    assert told.client.sweep() == [left]
    told.until(lambda: is_gone(left))
    assert told.client.sweep() == []
    assert bystander.poll() is None


def test_a_keeper_that_does_not_begin_is_an_error(run: RunPaths, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(Path(tempfile.gettempdir()).glob("longshore-*"))
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(OSError, match="ended before it began"):
        told.client.start("t", [member(run, 1, "true")])
    monkeypatch.undo()
    told.poll()
    assert (told.events, told.never) == ([], [])
    assert not {path for path in Path(tempfile.gettempdir()).glob("longshore-*") if "run-" in path.name} - before
    told.client.start("t", [member(run, 1, "true")])
    told.end(1)


def test_the_program_of_the_keeper_is_ours_and_whole(run: RunPaths, told: Told) -> None:
    (run.keeper / "keeper.py").write_text("raise SystemExit('an old one, cut off by a full disk')", "utf-8")
    told.client.start("t", [member(run, 1, "true")])
    told.end(1)
    for name in FILES:
        assert (run.keeper / name).read_bytes() == (FOLDER / name).read_bytes()
    assert {path.name for path in run.keeper.iterdir()} == {*FILES, "0001.1.jsonl"}


def test_closing_leaves_neither_process_nor_folder(run: RunPaths) -> None:
    told = Told(LocalClient(run, 1))
    told.client.start("t", [member(run, 1, "true")])
    told.end(1)
    folder = tmp_folder(run)
    assert folder.is_dir()
    assert folder.stat().st_mode & 0o777 == 0o700
    told.client.close()
    assert is_gone(keepers(run)[0])
    assert not folder.exists()


def test_closing_leaves_jobs_alone(run: RunPaths) -> None:
    told = Told(LocalClient(run, 1))
    told.client.start("t", [member(run, 1, "/bin/sh", "-c", "until test -e go; do sleep 0.05; done; exit 6")])
    told.start(1)
    told.client.close()
    (run.root / "go").touch()
    end = Told(LocalClient(run, 2)).end(1)
    assert isinstance(end, Ended)
    assert end.exit == 6


def test_a_row_sent_ahead_starts_in_order_within_its_slots(run: RunPaths, told: Told) -> None:
    told.client.start("t", [member(run, job, "sleep", "0.02") for job in range(6)], lane="0", slots=2)
    for job in range(6):
        assert isinstance(told.end(job), Ended)
    records = [json.loads(line) for line in (run.keeper / "0001.1.jsonl").read_text("utf-8").splitlines()]
    running = most = 0
    for record in records:
        running += {"start": 1, "end": -1}.get(record["r"], 0)
        most = max(most, running)
    assert most == 2
    assert [record["m"] for record in records if record["r"] == "got"] == [[[job, 1]] for job in range(6)]


def test_who_waits_too_long_comes_back(run: RunPaths, told: Told) -> None:
    told.client.start("t", [member(run, job, "sleep", "60") for job in range(3)], lane="0", slots=1)
    told.start(0)
    told.until(lambda: len(told.never) == 2)
    assert told.never == [(1, 1), (2, 1)]
    assert told.client.end([(0, 1), (1, 1)], grace_s=5.0) == 1


def test_who_waits_and_is_ended_never_starts(run: RunPaths, told: Told) -> None:
    told.client.start("t", [member(run, job, "sleep", "60") for job in range(2)], lane="0", slots=1)
    assert told.client.end([(0, 1), (1, 1)], grace_s=5.0) == 2
    assert isinstance(told.end(0), Ended)
    told.until(lambda: told.never == [(1, 1)])
    assert not told.ends(1)


def test_who_waits_when_the_keeper_dies_was_never_started(run: RunPaths, told: Told) -> None:
    told.client.start("t", [member(run, job, "sleep", "60") for job in range(3)], lane="0", slots=1)
    told.start(0)
    kill_keeper(run)
    told.until(lambda: sorted(told.never) == [(1, 1), (2, 1)])
    # What the dead keeper started takes the slot: the next keeper must not use it, too.
    told.client.start("u", [member(run, 3, "true")], lane="0", slots=1)
    told.until(lambda: (3, 1) in told.never)
    assert told.client.end([(0, 1)], grace_s=5.0) == 1
    assert isinstance(told.end(0), Ended)
    told.client.start("v", [member(run, 4, "true")], lane="0", slots=1)
    assert isinstance(told.end(4), Ended)


def test_who_waits_when_the_engine_dies_is_not_taken(run: RunPaths, told: Told) -> None:
    told.client.start("t", [member(run, job, "sleep", "60") for job in range(3)], lane="0", slots=1)
    told.start(0)
    told.client.close()
    later = Told(LocalClient(run, 2))
    assert later.client.find(["t"]) == {"t": frozenset({(0, 1)})}
    assert later.client.end([(0, 1)], grace_s=5.0) == 1
    assert isinstance(later.end(0), Ended)


def test_an_environment_is_sent_once_and_to_every_keeper(run: RunPaths, told: Told) -> None:
    shared = {"COLOUR": "green"}
    number = told.client.environment(shared)
    assert told.client.environment(shared) == number
    for job in range(2):
        words = {**member(run, job, "/bin/sh", "-c", "echo $COLOUR"), "e": number}
        told.client.start(f"t{job}", [words])
        assert isinstance(told.end(job), Ended)
        assert (run.root / f"{job}.log").read_text("utf-8") == "green\n"
        if job == 0:
            kill_keeper(run)


def test_what_the_disk_keeps_from_starting_costs_no_attempt_and_is_tried_later(run: RunPaths, told: Told) -> None:
    blocked = run.root / "logs" / "a"
    blocked.parent.mkdir(parents=True, exist_ok=True)
    path = write_records(
        run,
        {"r": "got", "b": "t", "m": [[1, 1], [2, 1]]},
        {
            "r": "end",
            "j": 1,
            "a": 1,
            "t": 1.0,
            "err": "cannot start 'x': No space left on device",
            "no": 28,
            "own": True,
        },
        {"r": "end", "j": 2, "a": 1, "t": 1.0, "err": "cannot start 'x': No space left on device", "no": 28},
        {"r": "closed"},
    )
    client = LocalClient(run, 1)
    events, never = client.poll()
    assert [(event.j, getattr(event, "exit", None)) for event in events] == [(2, 126)], "the job's own fault"
    assert never == []
    assert client.again == {"t"}
    assert "No space left" in client.busy
    assert client.find(["t"]) == {"t": frozenset({(2, 1)})}
    assert path.exists()


@pytest.mark.parametrize("words", [("echo", "a\0b"), ("echo", "x" * 3_000_000)], ids=["NUL", "too long"])
def test_what_can_never_start_is_not_tried_again(run: RunPaths, told: Told, words: tuple[str, ...]) -> None:
    told.client.start("t", [member(run, 1, *words)])
    end = told.end(1)
    assert isinstance(end, Ended)
    assert end.hopeless
    verdict = judge(end, past=Past(tries=1), rules=RetryRules(retries=5))
    assert isinstance(verdict, Failed)
    assert "trying again cannot mend it" in verdict.why


def test_what_never_started_is_told_once(run: RunPaths, told: Told) -> None:
    """Told again, it would take back an attempt of the same number that was started since."""
    told.client.start("t0", [member(run, 1, "true")])
    told.end(1)
    keeper = told.client._keeper
    assert keeper
    os.kill(keeper.pid, signal.SIGSTOP)
    told.client.start("t", [member(run, 2, "true")])
    os.kill(keeper.pid, signal.SIGKILL)
    never: list[tuple[int, int]] = []
    deadline = time.monotonic() + 120
    while not never:
        assert time.monotonic() < deadline
        never += told.client.poll()[1]
    for _ in range(3):
        assert told.client.poll()[1] == []
    assert never == [(2, 1)]


def test_a_keeper_starts_nothing_once_another_engine_has_begun(run: RunPaths, told: Told) -> None:
    """Its own engine was suspended between its last look and the order."""
    told.client.start("t0", [member(run, 1, "true")])
    told.end(1)
    run.journal.mkdir(exist_ok=True)
    (run.journal / "0002.jsonl").touch()
    told.client.start("t", [member(run, 2, "sh", "-c", "echo started")])
    newer = LocalClient(run, 2)
    told.client.close()
    assert newer.find(["t0", "t"]) == {"t0": frozenset({(1, 1)})}
    assert not [event for event in newer.poll()[0] if event.j == 2]
    newer.close()


def test_a_keeper_that_began_late_is_not_overlooked(run: RunPaths, told: Told) -> None:
    """The engine of before was about to start it when the newer one looked around."""
    newer = LocalClient(run, 2)
    told.client.start("t", [member(run, 1, "true")])
    told.end(1)
    told.client.close()
    assert newer.find(["t"]) == {"t": frozenset({(1, 1)})}
    assert [type(event) for event in newer.poll()[0]] == [Started, Ended]
    newer.close()
