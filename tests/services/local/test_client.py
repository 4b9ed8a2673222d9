"""The engine's side of keepers: whatever dies, and whenever, no job is forgotten, and none that lives is given up."""

from __future__ import annotations

import ctypes
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
from longshore.engine import keeper as program
from longshore.model.event import Ended, Lost, Started
from longshore.services.local import client as module
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
        deadline = time.monotonic() + 20
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
                program.send(start.pid, signal.SIGKILL)


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
    """Kill the first keeper, and see it dead."""
    pid = keepers(run)[0]
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while not is_gone(pid):
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
        deadline = time.monotonic() + 20
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
    line = "echo $$; setsid sleep 60 & echo $!; sleep 0.7"
    process = engine(member(run, 1, "/bin/sh", "-c", line))
    os.kill(keepers(run)[0], signal.SIGSTOP)
    process.kill()
    process.wait()
    kill_keeper(run)
    began = time.monotonic()
    told = Told(LocalClient(run, 2))
    told.until(lambda: (run.root / "1.log").read_text("utf-8").count("\n") == 2)
    pid, left = map(int, (run.root / "1.log").read_text("utf-8").split())
    assert not is_gone(pid)
    told.poll()
    assert not told.ends(1)
    end = told.end(1)
    assert isinstance(end, Lost)
    assert "nobody was there" in end.why
    assert is_gone(pid)
    assert time.monotonic() > began + 0.2
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
    module._signal_group(number, signal.SIGKILL)
    module._signal_process(number, signal.SIGKILL)
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
        assert marked[0].wait(10) == -signal.SIGKILL
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
        monkeypatch.setattr(module, "_DRAIN_S", 20.0)

        def drain() -> None:
            file.write(b'{"r":"got","b":"t","m":[[1,1]]}\n{"r":"closed"}\n')
            file.flush()

        timer = threading.Timer(0.2, drain)
        timer.start()
        assert client.find(["t"]) == {"t": frozenset({(1, 1)})}
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
    assert (run.keeper / "keeper.py").read_bytes() == Path(program.__file__).read_bytes()
    assert {path.name for path in run.keeper.iterdir()} == {"keeper.py", "0001.1.jsonl"}


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
    told.client.start("t", [member(run, 1, "/bin/sh", "-c", "sleep 0.3; exit 6")])
    told.start(1)
    began = time.monotonic()
    told.client.close()
    assert time.monotonic() < began + 0.25
    end = Told(LocalClient(run, 2)).end(1)
    assert isinstance(end, Ended)
    assert end.exit == 6
