"""A run learns from the runs before it, and tells those after it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from longshore.engine.run.loop import Engine
from longshore.engine.run.make_scheduler import RuntimeHistory
from longshore.engine.run_settings import read_settings
from longshore.model.event import Ended, Submitting
from longshore.model.measurements import AttemptUsage
from longshore.model.states import JobState
from longshore.rundir.histories import add_to_history, history_folder, read_history
from longshore.rundir.job_table import JobTable
from longshore.runstate.apply_events import apply_event
from longshore.testing.fakes import AttemptOutcome, FakeClock, FakeExecutor, FakeManager
from longshore.testing.runs import write_run

IDENTITY = "dev/mosaic/pipeline.yaml"
LONG = 3
JOBS = {f"a_{number}": () for number in range(5)}


def live(folder: Path, *, identity: str = IDENTITY, fails: int = -1) -> tuple[FakeManager, list[str]]:
    """A run of five jobs on one processor, of which one takes long."""
    said: list[str] = []
    manager = FakeManager(
        FakeClock(),
        lambda job, _: AttemptOutcome(run_s=100.0 if job == LONG else 1.0, exit=int(job == fails)),
        capacity={"cpus": 1},
    )
    run = write_run(folder, JOBS, engine={"history": identity})
    engine = Engine(
        run, FakeExecutor(manager), read_settings(run), clock=manager.clock, by="submit", log_line=said.append
    )
    engine.run()
    return manager, said


def order(manager: FakeManager) -> list[int]:
    return [job for job, _ in sorted(manager.started, key=manager.started.__getitem__)]


def test_the_second_run_begins_with_what_took_long_in_the_first(tmp_path: Path) -> None:
    assert order(live(tmp_path / "first")[0]) == [0, 1, 2, 3, 4]
    assert order(live(tmp_path / "second")[0]) == [3, 0, 1, 2, 4]
    assert order(live(tmp_path / "other", identity="dev/mosaic/other.yaml")[0]) == [0, 1, 2, 3, 4]
    found = read_history(IDENTITY, ["a"])["a"]
    assert found.weight == 10
    assert found.jobs == {"a_0": 1.0, "a_1": 1.0, "a_2": 1.0, "a_3": 100.0, "a_4": 1.0}


def test_failures_teach_nothing(tmp_path: Path) -> None:
    live(tmp_path / "run", fails=LONG)
    found = read_history(IDENTITY, ["a"])["a"]
    assert (found.weight, found.run_s) == (4, 1.0)
    assert "a_3" not in found.jobs


def test_a_run_that_keeps_no_history_leaves_none(tmp_path: Path, own_environment: Path) -> None:
    live(tmp_path / "run", identity="")
    assert not list(own_environment.rglob("history"))


def test_a_state_directory_that_cannot_be_written_costs_the_history_alone(tmp_path: Path) -> None:
    folder = history_folder(IDENTITY)
    folder.parent.parent.mkdir(parents=True)
    folder.parent.write_text("no folder", "utf-8")
    manager, said = live(tmp_path / "run")
    assert len(manager.successes) == 5
    assert [line for line in said if "not remembered" in line]


def test_what_is_learnt_is_written_every_minute(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", JOBS)
    table, clock = JobTable(run), FakeClock()
    history = RuntimeHistory(IDENTITY, table, clock=clock, log_line=print)
    for job in range(2):
        history.add_success(Ended(j=job, a=1, exit=0, run_s=1.0))
        history.add()
    assert read_history(IDENTITY, ["a"]) == {}
    clock.advance(61.0)
    history.add()
    assert read_history(IDENTITY, ["a"])["a"].weight == 2
    history.add(last=True)
    assert read_history(IDENTITY, ["a"])["a"].weight == 2


def test_somebody_who_writes_the_same_history_is_not_waited_for(tmp_path: Path) -> None:
    import fcntl

    add_to_history(IDENTITY, [AttemptUsage(label="a", job="a_0", run_s=5.0)])
    run = write_run(tmp_path / "run", JOBS)
    table, clock = JobTable(run), FakeClock()
    history = RuntimeHistory(IDENTITY, table, clock=clock, log_line=print)
    lock = os.open(history_folder(IDENTITY) / "lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    history.add_success(Ended(j=1, a=1, exit=0, run_s=1.0))
    clock.advance(61.0)
    history.add()
    os.close(lock)
    clock.advance(61.0)
    history.add()
    assert read_history(IDENTITY, ["a"])["a"].weight == 2


def test_an_engine_says_when_its_run_will_be_over(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", JOBS)
    add_to_history(IDENTITY, [AttemptUsage(label="a", job=f"a_{job}", run_s=10.0) for job in range(9)])
    manager = FakeManager(FakeClock(), capacity={"cpus": 1})
    engine = Engine(run, FakeExecutor(manager), read_settings(run), clock=manager.clock, by="submit", log_line=print)
    table = JobTable(run)
    history = RuntimeHistory(IDENTITY, table, clock=manager.clock, log_line=print)
    assert history.rest_s(engine.state, 2) == 25.0
    apply_event(engine.state, Submitting(b="b", tag="b", jobs=((0, 1),)))
    assert history.rest_s(engine.state, 2) == 22.5, "half of what runs is done"
    assert engine.run() is JobState.SUCCEEDED
    assert history.rest_s(engine.state, 2) == 0.0


@pytest.mark.parametrize(("given", "expected"), [(7, 7.0), ("-2.5", -2.5), ("high", 0.0), (True, 0.0)])
def test_priority_is_a_number(given: str | float, expected: float, tmp_path: Path) -> None:
    profiles = {"a": {"attributes": {"priority": given}}}
    table = JobTable(write_run(tmp_path / "run", JOBS, profiles=profiles))
    assert table.settings(0).priority == expected


def test_priority_goes_before_what_waits_behind_a_job(tmp_path: Path) -> None:
    manager = FakeManager(FakeClock(), capacity={"cpus": 1})
    run = write_run(
        tmp_path / "run",
        {"a_1": (), "a_2": ("a_1",), "b_1": ()},
        profiles={"b": {"attributes": {"priority": 10}}},
    )
    Engine(run, FakeExecutor(manager), read_settings(run), clock=manager.clock, by="submit", log_line=print).run()
    table = JobTable(run)
    assert [table[job].name for job in order(manager)] == ["b_1", "a_1", "a_2"]
