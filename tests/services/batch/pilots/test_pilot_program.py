"""The pilot program runs what it is ordered, and by its records nothing is done twice or lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.services.batch.pilots.pilot_box import PilotBox
from tests.waiting import eventually

Make = Callable[..., PilotBox]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Make a pilot with options."""
    made: list[PilotBox] = []

    def make_box(**options: str) -> PilotBox:
        box = PilotBox(tmp_path, **options)
        box.begin()
        made.append(box)
        return box

    yield make_box
    for box in made:
        box.end()


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody reaps does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_jobs_run_and_an_idle_pilot_ends(make: Make) -> None:
    box = make(idle_s="1")
    box.hand(range(8), 'echo "$MARK $TMPDIR"; exit 3')
    assert box.closed() == "idle"
    assert sorted(box.jobs("end")) == list(range(8))
    assert {record["s"] >> 8 for record in box.records("end")} == {3}
    logs = [(box.root / f"{job}.log").read_text("utf-8") for job in range(8)]
    assert all(log.startswith("here /") for log in logs)
    assert len(set(logs)) == 8, "each has its own TMPDIR"
    kinds = [record["r"] for record in box.records()]
    assert kinds[0] == "pilot"
    assert kinds.index("got") < kinds.index("start")
    assert kinds[-1] == "closed"


def test_no_more_run_at_once_than_fit(make: Make) -> None:
    box = make()
    box.hand(range(6), "sleep 60", cpus=2)
    box.wait(lambda: len(box.jobs("start")) == 2)
    box.order(o="end")
    box.wait(lambda: sorted(box.jobs("never")) == [2, 3, 4, 5])
    box.order(o="kill", m=[[0, 1], [1, 1]], sig=int(signal.SIGTERM))
    assert box.closed() == "ordered"
    assert [record["s"] for record in box.records("end")] == [signal.SIGTERM] * 2


def test_what_is_too_large_never_starts(make: Make) -> None:
    box = make(until="30")
    box.hand([1], "true", cpus=5)
    box.hand([2], "true", need=1000.0)
    box.hand([3], "true", need=1.0)
    box.wait(lambda: box.jobs("end") == [3] and sorted(box.jobs("never")) == [1, 2])
    assert box.jobs("got") == [3]


def test_what_waits_is_given_back(make: Make) -> None:
    box = make()
    box.hand(range(10), "sleep 60", cpus=4)
    box.wait(lambda: box.jobs("start") == [0])
    box.order(o="back", n=2)
    box.order(o="back", m=[[3, 1], [0, 1], [99, 1]])
    box.order(o="kill", m=[[5, 1]], sig=int(signal.SIGTERM))
    box.wait(lambda: box.jobs("never") == [9, 8, 3, 5])
    assert box.jobs("got") == [0]


def test_a_records_file_of_an_earlier_start_is_left_alone(make: Make) -> None:
    box = make(idle_s="1")
    box.hand([1], "true")
    box.closed()
    before = (box.mail / "records").read_bytes()
    again = box.begin()
    _, error = again.communicate(timeout=60)
    assert again.returncode == 1
    assert b"the pilot cannot start" in error
    assert (box.mail / "records").read_bytes() == before


def child_of(pid: int) -> int:
    """First process that another one started."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()[0])


@pytest.mark.parametrize("victim", ["pilot", "guard", "keeper"])
def test_no_process_of_a_job_outlives_its_pilot(make: Make, victim: str) -> None:
    box = make()
    assert box.process is not None
    box.hand(range(4), "setsid sleep 300 & echo $!; sleep 300")
    box.wait(lambda: len(box.jobs("start")) == 4)
    logs = [box.root / f"{job}.log" for job in range(4)]
    box.wait(lambda: all(log.read_text("ascii").endswith("\n") for log in logs))
    pids = [record["pid"] for record in box.records("start")] + [int(log.read_text("ascii")) for log in logs]
    if victim == "pilot":
        box.process.kill()
    else:
        guard = child_of(box.process.pid)
        os.kill(guard if victim == "guard" else child_of(guard), signal.SIGKILL)
        assert box.closed() == f"the {victim} died"
    assert eventually(lambda: not any(map(is_alive, pids)))


def test_jobs_of_a_keeper_that_hangs_die_with_the_pilot(make: Make) -> None:
    box = make()
    assert box.process is not None
    box.hand(range(2), "sleep 300")
    box.wait(lambda: len(box.jobs("start")) == 2)
    keeper = child_of(child_of(box.process.pid))
    os.kill(keeper, signal.SIGSTOP)
    box.process.kill()
    pids = [keeper, *(record["pid"] for record in box.records("start"))]
    assert eventually(lambda: not any(map(is_alive, pids)))


def test_what_a_job_leaves_running_ends_with_the_pilot(make: Make) -> None:
    box = make()
    box.hand([1], "setsid sleep 300 & echo $!")
    box.wait(lambda: box.jobs("end") == [1])
    box.order(o="end")
    assert box.closed() == "ordered"
    assert not is_alive(int((box.root / "1.log").read_text("ascii")))


def test_nothing_begins_without_a_lease(make: Make) -> None:
    box = make(lease_s="2")
    box.wait(lambda: len(box.records("beat")) >= 2)
    time.sleep(2.0)
    box.hand(range(3), "true")
    box.wait(lambda: box.records("beat")[-1]["wait"] == 3)
    assert box.jobs("got") == []
    until = time.monotonic() + 30
    while not box.jobs("end") and time.monotonic() < until:
        box.order(o="ack", k=box.records("beat")[-1]["k"])
        time.sleep(0.1)
    box.wait(lambda: sorted(box.jobs("end")) == [0, 1, 2])


def test_a_new_engine_takes_over(make: Make) -> None:
    box = make()
    box.hand(range(2), "true")
    box.wait(lambda: len(box.jobs("end")) == 2)
    size = (box.mail / "orders.1").stat().st_size
    late = box.encode({"o": "run", "b": "late", "q": {"cpus": 1, "memory": 1}, "need": None, "p": {}, "m": []})
    box.begin_life()
    box.wait(lambda: [record["g"] for record in box.records("gen")] == [1, 2])
    assert box.records("gen")[1] == {"r": "gen", "g": 2, "was": 1, "at": size, "c": box.records("gen")[1]["c"]}
    box.write(late, generation=1)
    box.hand([7], "true")
    box.wait(lambda: box.jobs("end")[2:] == [7])


def test_environments_of_two_engines_do_not_mix(make: Make) -> None:
    box = make()
    box.order(o="env", id=1, on=0, env={"LIFE": "first"})
    box.order(o="env", id=2, on=1, env={"MORE": "yes"})
    box.hand([0], "sleep 2", cpus=4)
    box.hand([1], 'echo "$LIFE $MORE"', environment=2)
    box.wait(lambda: box.jobs("start") == [0])
    box.begin_life()
    box.order(o="env", id=1, on=0, env={"LIFE": "second"})
    box.hand([2], 'echo "$LIFE $MORE"', environment=1)
    box.wait(lambda: len(box.jobs("end")) == 3)
    logs = [(box.root / f"{job}.log").read_text("utf-8").split() for job in (1, 2)]
    assert logs == [["first", "yes"], ["second"]]


def test_slots_do_not_idle_while_a_slow_file_server_writes(make: Make) -> None:
    box = make(sync_s="0.1", idle_s="2")
    box.hand(range(600), "true")
    assert box.closed() == "idle"
    assert sorted(box.jobs("end")) == list(range(600))
    announced, most = 0, 0
    for record in box.records():
        announced += len(record["m"]) if record["r"] == "got" else -1 if record["r"] == "end" else 0
        most = max(most, announced)
    assert most > 8, "more than the four slots hold are ready"


def test_what_was_made_ready_ahead_is_given_back(make: Make) -> None:
    box = make(sync_s="0.1")
    box.hand(range(400), "true")
    box.hand(range(400, 420), "sleep 300")
    box.wait(lambda: len(box.jobs("start")) == 404)
    box.order(o="end")
    box.wait(lambda: len(box.jobs("never")) == 16)
    assert sorted(box.jobs("start") + box.jobs("never")) == list(range(420))
    box.order(o="kill", m=[[job, 1] for job in range(400, 420)], sig=int(signal.SIGTERM))
    assert box.closed() == "ordered"


def test_an_order_is_taken_once_it_is_whole(make: Make) -> None:
    box = make()
    line = box.encode({"o": "back", "n": 1})
    box.write(line[:10])
    time.sleep(0.3)
    assert not box.records("never")
    box.write(line[10:])
    box.hand([1], "true")
    box.wait(lambda: box.jobs("end") == [1])
    assert not box.jobs("never"), "the order came before the job"


def test_what_the_end_of_an_allocation_kills_has_not_failed(make: Make) -> None:
    box = make()
    assert box.process is not None
    box.hand([1], "exec sleep 300")
    box.hand([2], "trap 'exit 0' TERM; sleep 300 & wait")
    box.wait(lambda: len(box.jobs("start")) == 2)
    time.sleep(0.3)
    box.process.send_signal(signal.SIGTERM)
    assert box.closed() == "terminated"
    assert box.jobs("end") == box.jobs("exit") == [2]
    assert sorted(box.jobs("got")) == [1, 2]


@pytest.mark.parametrize("warning", [signal.SIGTERM, signal.SIGUSR2, signal.SIGXCPU], ids=["TERM", "USR2", "XCPU"])
def test_a_scheduler_announces_the_end(make: Make, warning: signal.Signals) -> None:
    box = make()
    assert box.process is not None
    box.hand(range(6), "trap 'exit 5' TERM; sleep 300 & wait")
    box.wait(lambda: len(box.jobs("start")) == 4)
    time.sleep(0.3)
    box.process.send_signal(warning)
    assert box.closed() == "terminated"
    assert sorted(box.jobs("never")) == [4, 5]
    assert {record["s"] >> 8 for record in box.records("end")} == {5}
