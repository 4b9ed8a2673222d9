"""Facts that arrive after the end of an attempt hold nothing up, and are recorded when they come."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import pytest
from tests.engine.simulation import CHAIN, Simulation

from longshore.contract.executor import AttemptId, EndRetention, LateFactSource, PollResult
from longshore.contract.service import Mark, Unreachable
from longshore.engine.run.loop import COLLECT_S
from longshore.model.event import AttemptFacts, Ended, Event, Finished, Life, Started
from longshore.model.states import JobState
from longshore.rundir.journal import late_path
from longshore.testing.fakes import AttemptOutcome, FakeExecutor

LAG_S = 3.0


class LateExecutor(FakeExecutor, LateFactSource, EndRetention):
    """Its accounting has an attempt some seconds after its end."""

    lag_s = LAG_S

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation.manager)
        self._clock = simulation.clock
        self._due: dict[AttemptId, float] = {}
        self.discarded: list[AttemptId] = []
        self.on_wait: Callable[[], object] = lambda: None

    def poll(self, since: Mark) -> PollResult | Unreachable:
        answer = super().poll(since)
        if isinstance(answer, PollResult):
            ends = (event for event in answer.events if isinstance(event, Ended))
            self._due |= {(event.j, event.a): self._clock.elapsed() + self.lag_s for event in ends}
        return answer

    def take_facts(self) -> Sequence[AttemptFacts]:
        now = self._clock.elapsed()
        arrived = [attempt for attempt, at in self._due.items() if at <= now]
        for attempt in arrived:
            del self._due[attempt]
        return [AttemptFacts(j=job, a=number, rss_b=1000 + job) for job, number in arrived]

    def awaited_facts(self) -> Collection[AttemptId]:
        return self._due.keys()

    def discard_ends(self, attempts: Collection[AttemptId]) -> None:  # type: ignore[override]
        self.discarded += attempts

    def wait(self, timeout_s: float) -> None:
        self.on_wait()
        super().wait(timeout_s)


def kinds(events: Sequence[Event]) -> list[type]:
    return [type(event) for event in events if isinstance(event, AttemptFacts | Started | Finished | Life)]


def test_children_start_and_the_run_ends_before_facts_arrive(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, CHAIN, lambda _job, _attempt: AttemptOutcome(run_s=2.0))
    executor = LateExecutor(simulation)
    engine = simulation.engine(executor=executor)
    assert engine.run() is JobState.SUCCEEDED
    known = simulation.of(AttemptFacts)
    assert [facts.j for facts in known] == [0], "the facts of the first arrived while the last ran"
    assert kinds(simulation.events()) == [Life, Started, Started, Started, AttemptFacts, Finished]
    before = simulation.clock.elapsed()
    engine.collect_late_facts()
    assert [(facts.j, facts.rss_b) for facts in simulation.of(AttemptFacts)] == [(0, 1000), (1, 1001), (2, 1002)]
    assert simulation.clock.elapsed() - before <= LAG_S + 1.0
    assert kinds(simulation.events())[-3:] == [Finished, AttemptFacts, AttemptFacts]
    assert executor.discarded.count((2, 1)) == 2, "once its end was durable, and once its facts were"


def test_collecting_ends_after_some_seconds(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, {"a_0": ()})
    executor = LateExecutor(simulation)
    executor.lag_s = 1000.0
    engine = simulation.engine(executor=executor)
    engine.run()
    before = simulation.clock.elapsed()
    engine.collect_late_facts()
    assert COLLECT_S <= simulation.clock.elapsed() - before <= COLLECT_S + 0.5
    assert simulation.of(AttemptFacts) == []
    assert not late_path(simulation.run.journal, 1).exists()


def test_collecting_gives_way_to_a_restart(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, {"a_0": ()}, lambda _job, attempt: AttemptOutcome(exit=int(attempt == 1)))
    executor = LateExecutor(simulation)
    engine = simulation.engine(executor=executor)
    assert engine.run() is JobState.FAILED

    def restart() -> None:
        executor.on_wait = lambda: None
        again = simulation.engine("restart")
        assert again.restart() == 1
        assert again.run() is JobState.SUCCEEDED

    executor.on_wait = restart
    engine.collect_late_facts()
    assert [facts for facts in simulation.of(AttemptFacts) if facts.t] == []
    assert simulation.state().finish_event is not None
    assert executor.discarded == [(0, 1)], "what the newer life may still collect is left to it"


def test_a_run_without_late_facts_ends_as_it_is(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, {"a_0": ()})
    engine = simulation.engine()
    engine.run()
    before = simulation.clock.elapsed()
    engine.collect_late_facts()
    assert simulation.clock.elapsed() == before


@pytest.mark.parametrize("index", [-1, 7])
def test_facts_of_jobs_that_the_run_lacks_are_ignored(tmp_path: Path, index: int) -> None:
    simulation = Simulation(tmp_path, {"a_0": ()})
    executor = LateExecutor(simulation)
    executor.take_facts = lambda: [AttemptFacts(j=index, a=1)]  # type: ignore[method-assign]
    assert simulation.engine(executor=executor).run() is JobState.SUCCEEDED
    assert simulation.of(AttemptFacts) == []
