"""The engine dies at every moment, and two engines want the same run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest
from tests.depth import DEPTH
from tests.engine.simulation import Crash, Hooked, Simulation

from longshore.contract.executor import Batch, FindResult, PollResult, SubmitResult
from longshore.contract.service import CancelOutcome, Mark, RunPaths, Unreachable
from longshore.engine.run.loop import Engine, Superseded
from longshore.errors import SubmissionRefusedError
from longshore.model.event import Ended, Steer
from longshore.model.states import JobState
from longshore.rundir.interventions import InterventionRecord, read_interventions, write_intervention
from longshore.rundir.journal import lives
from longshore.runstate.run_state import JobCode
from longshore.system.host import Clock
from longshore.testing.fakes import (
    AttemptOutcome,
    FakeClock,
    FakeExecutor,
    SubmitReply,
)


class Fuse:
    """Burns once, at the given call; counts all."""

    def __init__(self, at: int) -> None:
        self.calls = 0
        self._at = at

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == self._at:
            raise Crash


class FusedClock:
    """The clock of an engine that dies when it looks at it: the journal's every event is dated by it."""

    def __init__(self, clock: Clock, fuse: Fuse) -> None:
        self._clock = clock
        self._fuse = fuse

    def now(self) -> float:
        self._fuse()
        return self._clock.now()

    def elapsed(self) -> float:
        return self._clock.elapsed()


class FusedExecutor(FakeExecutor):
    """Dies before or after whatever is asked, unless that comes to the same as a death at another moment."""

    def __init__(self, sim: Simulation, fuse: Fuse) -> None:
        super().__init__(sim.manager)
        self._fuse = fuse

    def open(self, run: RunPaths, life: int) -> None:
        self._fuse()
        super().open(run, life)
        self._fuse()

    def submit(self, batch: Batch) -> SubmitResult:
        self._fuse()
        answer = super().submit(batch)
        self._fuse()
        return answer

    def find(self, tags: Iterable[str]) -> FindResult | Unreachable:
        self._fuse()
        answer = super().find(tags)
        self._fuse()
        return answer

    def poll(self, since: Mark) -> PollResult | Unreachable:
        answer = super().poll(since)
        self._fuse()
        return answer

    def cancel(self, attempts: Iterable[tuple[int, int]], *, grace_s: float) -> CancelOutcome:
        self._fuse()
        answer = super().cancel(attempts, grace_s=grace_s)
        self._fuse()
        return answer


TWELVE: Mapping[str, Sequence[str]] = {
    **{f"a_{number}": () for number in range(4)},
    **{f"b_{number}": (f"a_{number}", f"a_{(number + 1) % 4}") for number in range(4)},
    **{f"c_{number}": (f"b_{number}",) for number in range(3)},
}
"""Eleven jobs; the final one is the twelfth."""


def eventful(job: int, attempt: int) -> AttemptOutcome:
    """Fails, is lost, ends by a signal, starts late, or is told of late, by turns."""
    return AttemptOutcome(
        queue_s=(job % 3) * 0.08,
        run_s=0.2 + 0.2 * (job % 2),
        exit=int((job == 2 and attempt == 1) or job == 6),
        signal=9 if job == 5 and attempt == 1 else None,
        lost=job == 3 and attempt == 1,
        term_delay_s=0.12,
        end_delay_s=(job % 4) * 0.1,
        reports=1 + job % 2,
    )


def eventful_run(root: Path) -> Simulation:
    turns = iter(
        [
            SubmitReply.ACCEPTED,
            SubmitReply.UNSURE_TAKEN,
            SubmitReply.THROTTLED,
            SubmitReply.UNSURE_NOT_TAKEN,
            SubmitReply.DROPPED,
        ]
    )

    def submit_reply(batch: Batch) -> SubmitReply:
        first = batch.members[0]
        if (first.job, first.attempt) == (1, 1):
            return SubmitReply.REFUSED
        return next(turns, SubmitReply.ACCEPTED)

    retries = {"number_of_retries": 1}
    return Simulation(
        root,
        TWELVE,
        eventful,
        written={"final": "last", "profiles": {"a": retries, "b": retries}},
        submit_reply=submit_reply,
        capacity={"cpus": 3},
        retry_after_s=0.2,
    )


def live(sim: Simulation, fuse: Fuse, by: str, *, also_within: bool = False) -> JobState | None:
    """A life of the engine; its end, or nothing when it dies before.

    What it appends to the journal between two commits dies with it whenever it dies in between, so that a death at what
    is asked of the manager stands for all; `also_within` does not rely on it, and counts every event as well.
    """
    clock = FusedClock(sim.clock, fuse) if also_within else sim.clock
    try:
        return sim.engine(by, executor=FusedExecutor(sim, fuse), clock=clock).run()
    except Crash:
        return None


def calls_of(sim: Simulation) -> int:
    fuse = Fuse(0)
    live(sim, fuse, "submit")
    return fuse.calls


EXPECTED = ["SUCCEEDED"] * 6 + ["FAILED"] + ["SUCCEEDED"] * 3 + ["PRUNED", "SUCCEEDED"]


def test_an_engine_may_die_at_any_moment(tmp_path: Path) -> None:
    calls = calls_of(eventful_run(tmp_path))
    assert calls > 80
    for moment in range(1, calls + 1):
        root = tmp_path / str(moment)
        root.mkdir()
        sim = eventful_run(root)
        if live(sim, Fuse(moment), "submit") is None:
            assert sim.engine("resume").run() is JobState.FAILED
        assert sorted(sim.codes()) == sorted(EXPECTED), moment
        sim.check()


def test_engines_may_die_again_and_again(tmp_path: Path) -> None:
    for gap in range(7, 90, 5):
        root = tmp_path / str(gap)
        root.mkdir()
        sim = eventful_run(root)
        ended = live(sim, Fuse(gap), "submit", also_within=True)
        for _ in range(60):
            ended = ended or live(sim, Fuse(gap), "resume", also_within=True)
        assert (ended or sim.engine("resume").run()) is JobState.FAILED
        assert sorted(sim.codes()) == sorted(EXPECTED), gap
        sim.check()


def test_a_cancelled_run_may_lose_its_engine_at_any_moment(tmp_path: Path) -> None:
    calls = calls_of(eventful_run(tmp_path))
    for moment in range(1, calls, 2):
        root = tmp_path / str(moment)
        root.mkdir()
        sim = eventful_run(root)
        sim.manager.at(
            0.5,
            partial(write_intervention, sim.run, InterventionRecord(who="me", act="cancel")),
        )
        ended = live(sim, Fuse(moment), "submit")
        assert (ended or sim.engine("resume").run()) is JobState.DELETED, moment
        state = sim.check()
        assert read_interventions(sim.run) == []
        assert state.count_states()[JobState.DELETED]
        assert state.code[11] == JobCode.SUCCEEDED


def test_a_superseded_engine_stops_wherever_it_is(tmp_path: Path) -> None:
    """The manager itself raises `ContractViolationError` when a superseded life hands anything over."""
    for call in range(1, 1_000, 4 if DEPTH == "change" else 1):
        root = tmp_path / str(call)
        root.mkdir()
        sim = eventful_run(root)
        newer: list[Engine] = []

        def take_over(number: int, call: int = call, sim: Simulation = sim, newer: list[Engine] = newer) -> None:
            if number == call:
                newer.append(sim.engine("resume"))

        older = sim.engine(executor=Hooked(sim, take_over, what="anything"))
        stopped = stops(older)
        if not newer:
            break
        assert newer[0].run() is JobState.FAILED
        assert stopped, call
        assert sorted(sim.codes()) == sorted(EXPECTED), call
        sim.check()
    assert call > 40


def stops(engine: Engine) -> bool:
    """Whether an engine ends because it is superseded."""
    try:
        engine.run()
    except Superseded:
        return True
    return False


def test_a_superseded_engine_leaves_orders_cancellations_and_snapshots_to_the_newer(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=lambda _job, _attempt: AttemptOutcome(run_s=50.0))
    newer: list[Engine] = []
    executor = FakeExecutor(sim.manager)
    older = sim.engine(executor=executor)
    assert not older._round()
    newer.append(sim.engine("resume"))
    before = sim.run.status.read_bytes()
    write_intervention(sim.run, InterventionRecord(who="me", act="cancel"))
    sim.clock.advance(20.0)
    with pytest.raises(Superseded):
        older.run()
    assert len(read_interventions(sim.run)) == 1
    assert sim.asked("cancel") == []
    assert sim.run.status.read_bytes() == before
    assert newer[0].run() is JobState.DELETED
    sim.check()


def test_an_engine_superseded_while_it_cancels_asks_for_nothing(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=lambda _job, _attempt: AttemptOutcome(run_s=50.0))
    older = sim.engine()
    assert not older._round()
    older._record(Steer(who="me", act="cancel"))
    newer = sim.engine("resume")
    with pytest.raises(Superseded):
        older._cancel_attempts()
    assert sim.asked("cancel") == []
    assert newer.run() is JobState.SUCCEEDED, "what was never written down never was"


def test_a_superseded_engine_writes_no_snapshot(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, {"a_0": ()})
    newer: list[Engine] = []
    older = sim.engine(executor=Hooked(sim, lambda _: newer.append(sim.engine("resume")), what="submit"))
    assert stops(older)
    assert not sim.run.status.exists()
    assert newer[0].run() is JobState.SUCCEEDED
    sim.check()


def test_what_an_older_engine_writes_once_a_newer_has_begun_is_not_believed(tmp_path: Path) -> None:
    sim = Simulation(tmp_path)
    older = sim.engine()
    assert not older._round()
    newer = sim.engine("resume")
    older._record(Ended(j=0, a=1, exit=0))
    older._journal.commit()
    assert not newer.state.count_states()[JobState.SUCCEEDED]
    newer._journal.commit()
    assert not sim.of(Ended)
    assert newer.run() is JobState.SUCCEEDED
    sim.check()


def test_what_an_older_engine_does_while_a_newer_begins_is_not_done_again(tmp_path: Path) -> None:
    """The newer one has read the journal, and has not yet begun its own."""
    sim = Simulation(tmp_path)
    older = sim.engine()

    class Late(FakeClock):
        acted = False

        def now(self) -> float:
            if not self.acted:
                self.acted = True
                assert not older._round()
            return super().now()

    newer = sim.engine("resume", clock=Late())
    assert newer.state.code[0] == JobCode.PENDING
    newer._clock = sim.clock
    assert newer.run() is JobState.SUCCEEDED
    sim.check()
    assert list(newer.state.attempts) == [1, 1, 1]


def test_one_of_two_engines_that_begin_at_once_gives_way(tmp_path: Path) -> None:
    sim = Simulation(tmp_path)

    class Late(FakeClock):
        def now(self) -> float:
            if sim.manager.newest_life == 0:
                sim.engine()
            return super().now()

    with pytest.raises(SubmissionRefusedError, match="another engine has just taken this run up"):
        sim.engine(clock=Late())
    assert len(lives(sim.run.journal)) == 1
