"""The promises that the manager in memory holds the engine to."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engine.simulation import Simulation

from longshore.contract.executor import Batch, FindResult, PollResult
from longshore.contract.service import Unreachable
from longshore.engine.run.members import MemberBuilder
from longshore.model.event import Ended
from longshore.model.states import Cause
from longshore.model.workflow import Request
from longshore.rundir.job_table import JobTable
from longshore.testing.fakes import (
    AttemptOutcome,
    ContractViolationError,
    FakeClock,
    FakeExecutor,
    FakeManager,
)


def batch_of(sim: Simulation, *attempts: tuple[int, int], tag: str = "t", cpus: int = 1) -> Batch:
    builder = MemberBuilder(JobTable(sim.run))
    request = Request(cpus=cpus)
    members = tuple(builder.build(job, attempt, request) for job, attempt in attempts)
    return Batch(id=tag, tag=tag, request=request, members=members)


def test_the_manager_starts_no_attempt_twice(tmp_path: Path) -> None:
    sim = Simulation(tmp_path)
    sim.manager.submit(batch_of(sim, (0, 1)), 1)
    with pytest.raises(ContractViolationError, match="attempt 1 of job 0 is handed over a second time"):
        sim.manager.submit(batch_of(sim, (0, 1), tag="u"), 1)


def test_the_manager_starts_nothing_for_a_superseded_life(tmp_path: Path) -> None:
    sim = Simulation(tmp_path)
    FakeExecutor(sim.manager).open(sim.run, 2)
    with pytest.raises(ContractViolationError, match="life 1 hands over 't', and life 2 has begun"):
        sim.manager.submit(batch_of(sim, (0, 1)), 1)


def test_the_manager_has_no_more_than_there_is(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, capacity={"cpus": 3})
    sim.manager.submit(batch_of(sim, (0, 1), cpus=2), 1)
    with pytest.raises(ContractViolationError, match="'a_1' is handed over, and there is too little of 'cpus'"):
        sim.manager.submit(batch_of(sim, (1, 1), tag="u", cpus=2), 1)


def test_a_job_that_is_cancelled_in_the_queue_never_starts(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=lambda _job, _attempt: AttemptOutcome(queue_s=5.0))
    executor = FakeExecutor(sim.manager)
    executor.submit(batch_of(sim, (0, 1)))
    assert executor.cancel([(0, 1), (7, 1)], grace_s=3.0).ended == 1
    assert executor.cancel([(0, 1)], grace_s=3.0).ended == 0
    sim.clock.advance(100.0)
    answer = executor.poll("")
    assert isinstance(answer, PollResult)
    (end,) = answer.events
    assert isinstance(end, Ended)
    assert (end.cause, end.run_s) == (Cause.SIGNAL, None)
    assert sim.manager.started == {}


def test_a_silent_manager_finds_nothing_either(tmp_path: Path) -> None:
    manager = FakeManager(FakeClock())
    manager.submit(batch_of(Simulation(tmp_path), (0, 1)), 1)
    manager.stop_answering(5.0)
    assert isinstance(manager.find(["t"]), Unreachable)
    manager.clock.advance(5.0)
    assert manager.find(["t", "u"]) == FindResult({"t": frozenset({(0, 1)})})
