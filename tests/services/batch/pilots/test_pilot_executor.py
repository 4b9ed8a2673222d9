"""The pilot executor with pilots as processes: jobs run, pilots die, and engines follow each other."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.services.batch.pilots.local_allocations import LocalAllocations
from tests.services.batch.pilots.pilot_runs import SETTINGS, PilotRun, marking, marks

from longshore.contract.executor import Batch, Rejected
from longshore.contract.service import Unreachable
from longshore.model.event import Ended
from longshore.model.workflow import Request
from longshore.services.batch.pilots.executor import PilotExecutor
from longshore.testing.conformance.executor import read_record


@pytest.fixture
def pilot_run(tmp_path: Path) -> Iterator[PilotRun]:
    made = PilotRun(tmp_path)
    yield made
    made.allocations.cancel(list(made.allocations.processes))


def test_jobs_run_and_end_once(pilot_run: PilotRun) -> None:
    driver = pilot_run.begin_life()
    members = [driver.member(("/bin/sh", "-c", f"echo out; exit {number % 3}")) for number in range(40)]
    events = driver.run_members(*members)
    assert [event.exit for event in events] == [number % 3 for number in range(40)]
    assert all(len(ends) == 1 for ends in driver.ends.values())
    assert set(driver.starts.values()) == {1}
    assert driver.read_log(members[0]) == "out\n"


def test_a_job_has_its_variables_and_those_of_its_profile(pilot_run: PilotRun) -> None:
    driver = pilot_run.begin_life()
    path = pilot_run.run.root / "record"
    member = driver.recording_member(path, environment={"OWN": "a b", "COMMON": "c", "TMPDIR": "/tmp"})
    member = msgspec.structs.replace(member, shared={"COMMON": "c"})
    driver.run_members(member)
    found = read_record(path).environment
    assert (found["OWN"], found["COMMON"]) == ("a b", "c")
    assert found["LONGSHORE_JOB_INDEX"] == f"{member.job}.1"
    assert found["LONGSHORE_JOB_RUN_MARK"] == str(pilot_run.run.root)


def test_pilots_end_when_the_run_does(pilot_run: PilotRun) -> None:
    driver = pilot_run.begin_life()
    driver.run_members(driver.member("true"))
    driver.executor.close()
    for process in pilot_run.allocations.processes.values():
        assert process.wait(30.0) == 0


def test_a_cancelled_job_is_ended_wherever_it_is(pilot_run: PilotRun) -> None:
    driver = pilot_run.begin_life()
    running = [marking(driver, 600) for _ in range(4)]
    # More than the pilots have ahead, so that some wait in the engine.
    waiting = [marking(driver, 600) for _ in range(12)]
    driver.submit(*running, *waiting)
    driver.poll_until(lambda: len(driver.starts) == 4, "the start of four jobs")
    every = [(member.job, member.attempt) for member in (*running, *waiting)]
    assert driver.executor.cancel(every, grace_s=60.0).ended == len(every)
    assert driver.executor.cancel(every, grace_s=60.0).ended == 0
    driver.poll_until(lambda: len(driver.ends) + len(driver.never_started) == len(every), "the end of all")
    ends = [end for (end,) in driver.ends.values()]
    assert all(isinstance(end, Ended) and end.signal == signal.SIGTERM for end in ends)
    assert not {*driver.ends} & {*driver.never_started}


def test_a_job_that_ignores_term_is_killed_after_the_grace(pilot_run: PilotRun) -> None:
    driver = pilot_run.begin_life()
    member = driver.member(("/bin/sh", "-c", "trap '' TERM; echo x > ready; while :; do sleep 0.05; done"))
    driver.submit(member)
    driver.poll_until((pilot_run.run.root / "ready").exists, "the start of the job")
    driver.executor.cancel([(member.job, member.attempt)], grace_s=0.3)
    assert driver.wait_for_end(member).signal == signal.SIGKILL


def test_a_new_engine_finds_what_pilots_took(pilot_run: PilotRun) -> None:
    first = pilot_run.begin_life()
    members = [marking(first, 0.5) for _ in range(8)]
    tags = first.submit(*members)
    first.poll_until(lambda: bool(first.starts), "the first start")
    # More waits in the queue of the engine than pilots have.
    left = [marking(first, 0.5) for _ in range(40)]
    tags += first.submit(*left)
    first.poll()
    second = pilot_run.begin_life()
    taken = frozenset().union(*second.find(*tags).values())
    every = {(member.job, member.attempt) for member in (*members, *left)}
    assert taken < every, "what waited in the killed engine reached no pilot"
    second.poll_until(lambda: taken <= second.ends.keys() | {*second.never_started}, "the end of all that was taken")
    assert {*second.ends} <= taken
    by_attempt = {(member.job, member.attempt): member for member in (*members, *left)}
    assert all(marks(pilot_run.run, by_attempt[attempt]) == 1 for attempt in second.ends)
    assert all(marks(pilot_run.run, by_attempt[attempt]) == 0 for attempt in every - second.ends.keys())


def test_a_new_engine_cancels_what_an_earlier_one_started(pilot_run: PilotRun) -> None:
    first = pilot_run.begin_life()
    member = marking(first, 600)
    first.submit(member)
    first.poll_until(lambda: bool(first.starts), "the start")
    second = pilot_run.begin_life()
    second.poll()
    assert second.executor.cancel([(member.job, member.attempt)], grace_s=60.0).ended == 1
    assert second.wait_for_end(member).signal == signal.SIGTERM


def test_a_superseded_engine_hands_out_nothing(pilot_run: PilotRun) -> None:
    first = pilot_run.begin_life()
    first.run_members(marking(first))
    second = pilot_run.begin_life()
    second.run_members(marking(second))
    late = marking(first)
    first.submit(late)
    for _ in range(20):
        first.executor.wait(0.1)  # type: ignore[attr-defined]
        first.poll()
    assert marks(pilot_run.run, late) == 0


def test_work_of_a_silent_pilot_is_moved_once_its_lease_is_over(pilot_run: PilotRun) -> None:
    driver = pilot_run.begin_life()
    driver.run_members(marking(driver))
    (number,) = pilot_run.allocations.alive()
    # To the batch system, it still runs.
    os.kill(pilot_run.allocations.processes[number].pid, signal.SIGSTOP)
    members = [marking(driver) for _ in range(4)]
    driver.submit(*members)
    pilot_run.allocations.obeys = False
    driver.poll_until(lambda: len(driver.ends) == 5, "the end of all jobs in another pilot")
    pilot_run.allocations.obeys = True
    os.kill(pilot_run.allocations.processes[number].pid, signal.SIGCONT)
    # It finds the order to end before any order with which it could start something.
    assert pilot_run.allocations.processes[number].wait(30.0) == 0
    assert [marks(pilot_run.run, member) for member in members] == [1] * 4


def test_a_request_larger_than_a_pilot_is_refused(pilot_run: PilotRun) -> None:
    driver = pilot_run.begin_life()
    member = driver.member("true")
    for request, why in (
        (Request(cpus=3), "larger than a pilot's 2 cpus and 1024 MiB"),
        (Request(memory_b=2 << 30), "larger than a pilot's 2 cpus and 1024 MiB"),
        (Request(walltime_s=1e6), "longer than a pilot's 3600 s"),
    ):
        answer = driver.executor.submit(Batch(id="1", tag="t-1-1", request=request, members=(member,)))
        assert isinstance(answer, Rejected)
        assert why in answer.why
        assert answer.hopeless


def test_an_executor_must_be_opened(tmp_path: Path) -> None:
    executor = PilotExecutor(LocalAllocations(tmp_path, SETTINGS), SETTINGS)
    with pytest.raises(RuntimeError, match="not open"):
        executor.poll("")


def test_a_source_that_does_not_answer_is_no_answer_to_a_look_up(pilot_run: PilotRun) -> None:
    pilot_run.allocations.is_unreachable = True
    driver = pilot_run.begin_life()
    assert isinstance(driver.executor.find(["t-1-1"]), Unreachable)
