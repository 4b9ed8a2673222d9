"""Whole lives of the engine against a manager in memory: every answer it may get, and a death at every moment."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from tests.engine.simulation import Hooked, Simulation, answers, diamonds, fails

from longshore.contract.executor import Batch, FindResult, Limits, PollResult
from longshore.contract.service import Mark, Unreachable
from longshore.model.event import Ended, Event, Failed, Refused, Retry, Submitted
from longshore.model.report import Snapshot
from longshore.model.states import Cause, JobState
from longshore.testing.fakes import (
    AttemptOutcome,
    FakeExecutor,
    SubmitReply,
)


def test_a_run_succeeds_in_order(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, diamonds())
    assert sim.engine().run() is JobState.SUCCEEDED
    state = sim.check()
    assert state.count_states()[JobState.SUCCEEDED] == 5
    starts = sim.manager.started
    ends = {(job, attempt): end.run_s for (job, attempt), end in sim.manager.ended.items() if isinstance(end, Ended)}
    for job, parents in enumerate(state.parents):
        assert all(starts[job, 1] >= starts[parent, 1] + (ends[parent, 1] or 0.0) for parent in parents)
    assert sim.asked("close") == [None]
    assert sim.asked("end_leftovers") == []


def test_a_run_without_jobs_succeeds(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, {})
    assert sim.engine().run() is JobState.SUCCEEDED
    assert sim.snapshot().counts[JobState.SUCCEEDED] == 0


def test_a_child_starts_only_after_its_parents_end_is_durable(tmp_path: Path) -> None:
    sim = Simulation(tmp_path)
    known: list[set[int]] = []
    sim.engine(executor=Hooked(sim, lambda _: known.append({end.j for end in sim.of(Ended)}), what="submit")).run()
    assert known == [set(), {0}, {0, 1}]


def test_an_intent_is_durable_before_the_act(tmp_path: Path) -> None:
    sim = Simulation(tmp_path)
    intended: list[bool] = []

    def submit_reply(batch: Batch) -> SubmitReply:
        intended.append(any(getattr(event, "tag", None) == batch.tag for event in sim.events()))
        return SubmitReply.ACCEPTED

    sim.manager._submit_reply = submit_reply
    sim.engine().run()
    assert intended == [True] * 3


def test_a_failure_prunes_and_the_final_job_runs(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=fails(1), written={"final": "last"})
    assert sim.engine().run() is JobState.FAILED
    sim.check()
    assert sim.codes() == ["SUCCEEDED", "FAILED", "PRUNED", "SUCCEEDED"]


def test_a_retry_mends_a_run(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=fails(1, until=3), written={"profiles": {"a": {"number_of_retries": 2}}})
    assert sim.engine().run() is JobState.SUCCEEDED
    state = sim.check()
    assert list(state.attempts) == [1, 3, 1]
    assert [(retry.j, retry.a, retry.cause) for retry in sim.of(Retry)] == [(1, 2, Cause.EXIT), (1, 3, Cause.EXIT)]


def test_a_lost_attempt_has_a_budget_of_its_own(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=lambda job, attempt: AttemptOutcome(lost=job == 0 and attempt < 3))
    assert sim.engine().run() is JobState.FAILED
    (failed,) = sim.of(Failed)
    assert failed.why == "lost 2 times, and retryOnLost is 1: the manager forgot it"
    assert list(sim.check().attempts) == [2, 0, 0]


def test_the_failure_of_a_machine_spends_the_budget_of_lost_attempts(tmp_path: Path) -> None:
    """A scheduler that says how an attempt ended may say that its machine failed."""
    machine_fails = AttemptOutcome(signal=15, cause=Cause.LOST)
    sim = Simulation(tmp_path, outcome=lambda _job, attempt: machine_fails if attempt == 1 else AttemptOutcome())
    assert sim.engine().run() is JobState.SUCCEEDED
    state = sim.check()
    assert [(retry.j, retry.a, retry.cause) for retry in sim.of(Retry)] == [(job, 2, Cause.LOST) for job in range(3)]
    assert list(state.lost) == [1, 1, 1]


def test_a_refusal_spends_an_attempt_and_does_not_go_on_for_ever(tmp_path: Path) -> None:
    sim = Simulation(
        tmp_path,
        submit_reply=answers(*[SubmitReply.REFUSED] * 3),
        written={"profiles": {"a": {"number_of_retries": 1}}},
    )
    assert sim.engine().run() is JobState.FAILED
    (failed,) = sim.of(Failed)
    assert failed.why == "no attempt left: numberOfRetries is 1: the manager refuses"
    assert [batch.members[0].attempt for batch in sim.asked("submit")] == [1, 2]
    assert sim.codes() == ["FAILED", "PRUNED", "PRUNED"]


def test_not_now_spends_nothing_and_is_waited_out(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, submit_reply=answers(SubmitReply.THROTTLED, SubmitReply.THROTTLED), retry_after_s=60.0)
    notes: list[str] = []
    assert sim.engine(executor=Hooked(sim, lambda _: notes.append(sim.snapshot().note))).run()
    assert list(sim.check().attempts) == [1, 1, 1]
    assert sim.manager.started[0, 1] >= 120.0
    assert notes[0] == "the manager is busy"
    assert sim.snapshot().note == ""
    assert sim.said == ["the manager is busy"], "said once"
    # One poll per nap: a manager that is busy is not asked all the time.
    assert len(sim.asked("poll")) < 120.0 / 0.25 + 30


def test_not_now_holds_for_all_batches_of_the_round(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, {f"a_{number}": () for number in range(5)}, submit_reply=answers(SubmitReply.THROTTLED))
    assert sim.engine().run() is JobState.SUCCEEDED
    assert len(sim.asked("submit")) == 1 + 5
    assert list(sim.check().attempts) == [1] * 5
    assert min(sim.manager.started.values()) >= 5.0


@pytest.mark.parametrize("submit_reply", [SubmitReply.UNSURE_TAKEN, SubmitReply.UNSURE_NOT_TAKEN])
def test_a_batch_of_which_nobody_is_sure_is_looked_up(tmp_path: Path, submit_reply: SubmitReply) -> None:
    sim = Simulation(tmp_path, submit_reply=answers(submit_reply))
    assert sim.engine().run() is JobState.SUCCEEDED
    assert list(sim.check().attempts) == [1, 1, 1]
    assert len(sim.asked("find")) == 1
    assert len(sim.asked("submit")) == (3 if submit_reply is SubmitReply.UNSURE_TAKEN else 4)
    assert len(sim.of(Submitted)) == 3
    assert len(sim.of(Refused)) == (0 if submit_reply is SubmitReply.UNSURE_TAKEN else 1)


def test_a_silent_manager_leaves_it_unsure_and_nothing_is_submitted_again(tmp_path: Path) -> None:
    sim = Simulation(
        tmp_path,
        submit_reply=answers(SubmitReply.UNSURE_TAKEN),
        outcome=lambda _job, _attempt: AttemptOutcome(run_s=100.0),
    )

    def fall_silent(number: int) -> None:
        if number == 1:
            sim.manager.stop_answering(50.0)

    assert sim.engine(executor=Hooked(sim, fall_silent, what="submit")).run() is JobState.SUCCEEDED
    sim.check()
    assert len(sim.asked("submit")) == 3


def test_lookups_may_be_unreachable_when_polls_are_not(tmp_path: Path) -> None:
    class NotFound(FakeExecutor):
        left = 3

        def find(self, tags: Iterable[str]) -> FindResult | Unreachable:
            self.left -= 1
            return Unreachable(why="no answer") if self.left >= 0 else super().find(tags)

    sim = Simulation(tmp_path, submit_reply=answers(SubmitReply.UNSURE_NOT_TAKEN))
    assert sim.engine(executor=NotFound(sim.manager)).run() is JobState.SUCCEEDED
    sim.check()
    assert "the outcome of 1 submissions is unknown: no answer" in sim.said


def test_what_is_dropped_before_it_starts_costs_no_attempt(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, submit_reply=answers(SubmitReply.DROPPED, SubmitReply.DROPPED))
    assert sim.engine().run() is JobState.SUCCEEDED
    assert list(sim.check().attempts) == [1, 1, 1]


def test_old_news_of_what_never_started_change_nothing(tmp_path: Path) -> None:
    class Stale(FakeExecutor):
        def poll(self, since: Mark) -> PollResult | Unreachable:
            answer = super().poll(since)
            assert isinstance(answer, PollResult)
            return PollResult(events=answer.events, mark=answer.mark, never_started=[(0, 7), (99, 1)])

    sim = Simulation(tmp_path)
    assert sim.engine(executor=Stale(sim.manager)).run() is JobState.SUCCEEDED
    assert not sim.of(Refused)


def test_silence_fails_nothing_and_is_shown(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=lambda _job, _attempt: AttemptOutcome(run_s=30.0))
    notes: list[str] = []

    def look(number: int) -> None:
        if number == 1:
            sim.manager.stop_answering(300.0)
        notes.append(sim.snapshot().note)

    assert sim.engine(executor=Hooked(sim, look)).run() is JobState.SUCCEEDED
    sim.check()
    assert "the workload manager does not answer: the manager is silent" in notes
    assert sim.said == ["the workload manager does not answer: the manager is silent"]
    assert not sim.of(Failed, Retry)
    assert sim.snapshot().note == ""


def test_reasons_to_wait_are_said_once_however_they_alternate_and_again_later(
    unprivileged: Path,
) -> None:
    sim = Simulation(unprivileged, outcome=lambda _job, _attempt: AttemptOutcome(run_s=300.0))

    def disturb(number: int) -> None:
        if number in {2, 1000}:
            sim.manager.stop_answering(20.0)
        if number in {2, 60}:
            sim.run.journal.chmod(0 if number == 2 else 0o755)

    assert sim.engine(executor=Hooked(sim, disturb)).run() is JobState.SUCCEEDED
    sim.check()
    silent = "the workload manager does not answer: the manager is silent"
    assert sim.said == [silent, "the run directory cannot be read: Permission denied", silent]


@pytest.mark.parametrize("seed", range(8))
def test_news_late_twice_and_out_of_order(tmp_path: Path, seed: int) -> None:
    dice = Random(seed)

    def outcome(_job: int, _attempt: int) -> AttemptOutcome:
        return AttemptOutcome(
            queue_s=dice.choice((0.0, 2.0)),
            run_s=dice.choice((0.0, 1.0, 7.0)),
            start_delay_s=dice.choice((0.0, 20.0)),
            end_delay_s=dice.choice((0.0, 5.0)),
            reports=dice.choice((1, 2, 3)),
        )

    sim = Simulation(tmp_path, diamonds(), outcome, order=dice)
    assert sim.engine().run() is JobState.SUCCEEDED
    state = sim.check()
    assert list(state.attempts) == [1] * 5
    assert len(sim.of(Ended)) == 5


def test_the_pool_is_kept(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, {f"a_{number}": () for number in range(200)}, capacity={"cpus": 7})
    assert sim.engine().run() is JobState.SUCCEEDED
    sim.check()
    assert sim.manager.most_running == 7


def test_a_wide_run_is_handed_over_without_naps(tmp_path: Path) -> None:
    sim = Simulation(
        tmp_path, {f"a_{number}": () for number in range(200)}, lambda _job, _attempt: AttemptOutcome(queue_s=9.0)
    )
    assert sim.engine(limits=Limits(max_batch=10)).run() is JobState.SUCCEEDED
    sim.check()
    assert {len(batch.members) for batch in sim.asked("submit")} == {10}
    assert set(sim.manager.started.values()) == {9.0}


def test_a_jump_of_the_clock_harms_nothing(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=fails(0, until=2), written={"profiles": {"a": {"number_of_retries": 1}}})

    def jump(number: int) -> None:
        sim.clock.jump(-1e6 if number % 2 else 1e7)

    assert sim.engine(executor=Hooked(sim, jump)).run() is JobState.SUCCEEDED
    sim.check()


@pytest.mark.parametrize("jump", [-1e7, 1e7])
def test_a_retry_is_due_when_it_was_meant_to_be_whatever_the_clock_says(tmp_path: Path, jump: float) -> None:
    sim = Simulation(tmp_path, outcome=fails(0, until=2))

    def jumps(number: int) -> None:
        if number in {2, 20}:
            sim.clock.jump(jump if number == 2 else -3 * jump)

    engine = sim.engine(executor=Hooked(sim, jumps, what="poll"))
    note = engine._record

    def noted(event: Event) -> None:
        note(event)
        if isinstance(event, Ended) and event.cause:
            note(Retry(j=event.j, a=2, cause=Cause.EXIT, not_before=sim.clock.now() + 30.0))

    engine._record = noted  # type: ignore[method-assign]
    assert engine.run() is JobState.SUCCEEDED
    sim.check()
    waited = sim.manager.started[0, 2] - sim.manager.started[0, 1]
    assert 30.0 <= waited <= 33.0


def test_snapshots_show_a_run_on_its_way(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=lambda _job, _attempt: AttemptOutcome(run_s=100.0))
    seen: list[Snapshot] = []
    sim.engine(executor=Hooked(sim, lambda _: seen.append(sim.snapshot()))).run()
    assert {snapshot.state for snapshot in seen} == {JobState.RUNNING}
    assert all(sum(snapshot.counts.values()) == 3 for snapshot in seen)
    assert all(set(snapshot.labels) == {"a"} for snapshot in seen)
    assert max(after.at - before.at for before, after in pairwise(seen)) <= 10.5, "its heartbeat"
    assert not any(snapshot.finished for snapshot in seen)


def test_a_snapshot_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    sim = Simulation(tmp_path)
    sim.run.status.mkdir()
    assert sim.engine().run() is JobState.SUCCEEDED
    assert sim.state().finish_event
    assert sim.said[0].startswith("the snapshot cannot be written: ")
