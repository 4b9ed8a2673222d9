"""Whole lives of the engine against a manager in memory: every answer it may get, and a death at every moment."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from longshore.contract.context import Context, RunPaths, Site, Unreachable
from longshore.contract.executor import Batch, CancelOutcome, Found, Limits, Mark, Polled, SubmitAnswer
from longshore.engine import orders
from longshore.engine.fold import Code, RunState
from longshore.engine.jobs import JobTable
from longshore.engine.journal import lives, read_events
from longshore.engine.loop import Engine, Superseded
from longshore.engine.settings import read
from longshore.errors import SubmissionRefusedError
from longshore.model.event import Ended, Event, Failed, Finished, Refused, Restarted, Retry, Steer, Submitted
from longshore.model.request import MIB, Request
from longshore.model.rules import Backoff, Bounds, JobRules, Keep, RetryOn, SuccessIf
from longshore.model.snapshot import Snapshot
from longshore.model.state import Cause, JobState
from longshore.testing.fakes import (
    BrokenPromiseError,
    FakeClock,
    FakeExecutor,
    FakeManager,
    Outcome,
    Taking,
    write_run,
)
from longshore.world.clock import Clock
from longshore.world.rundir import read_snapshot

CHAIN: Mapping[str, Sequence[str]] = {"a_0": (), "a_1": ("a_0",), "a_2": ("a_1",)}


class World:
    """A run, its manager, and what the engines of the run said.

    Parameters
    ----------
    root
        Where the run directory is made.
    parents, written
        As for `write_run`.
    outcome, asked
        As for `FakeManager`.
    """

    def __init__(
        self,
        root: Path,
        parents: Mapping[str, Sequence[str]] = CHAIN,
        outcome: Callable[[int, int], Outcome] = lambda _job, _attempt: Outcome(),
        *,
        written: Mapping[str, Any] | None = None,
        **asked: Any,
    ) -> None:
        self.clock = FakeClock()
        self.manager = FakeManager(self.clock, outcome, **asked)
        self.run = write_run(root / "run", parents, **(written or {}))
        self.said: list[str] = []

    def engine(
        self,
        by: str = "submit",
        *,
        executor: FakeExecutor | None = None,
        clock: Clock | None = None,
        limits: Limits | None = None,
    ) -> Engine:
        return Engine(
            self.run,
            executor or FakeExecutor(self.manager, limits=limits),
            read(self.run),
            clock=clock or self.clock,
            by=by,
            say=self.said.append,
        )

    def events(self) -> list[Event]:
        return list(read_events(self.run.journal))

    def of(self, *kinds: type[Event]) -> list[Any]:
        return [event for event in self.events() if isinstance(event, kinds)]

    def asked(self, what: str) -> list[Any]:
        return [asked.given for asked in self.manager.asked if asked.what == what]

    def snapshot(self) -> Snapshot:
        snapshot = read_snapshot(self.run)
        assert snapshot
        return snapshot

    def state(self) -> RunState:
        """The state as anybody would fold it from the journal."""
        table = JobTable(self.run)
        state = RunState(table.parents, table.label_of, final=table.header.final)
        table.close()
        for event in self.events():
            state.apply(event)
        return state

    def codes(self) -> list[str]:
        return [Code(code).name for code in self.state().code]

    def check(self) -> RunState:
        """Hold a run that is over to the promise, and return its state."""
        state = self.state()
        assert state.over
        assert state.finished
        totals = state.totals()
        assert sum(totals.values()) == state.size
        succeeded = {job for job in range(state.size) if state.code[job] == Code.SUCCEEDED}
        assert self.manager.successes == Counter(dict.fromkeys(succeeded, 1)), "each success exactly once"
        assert not self.manager.running
        told = {(end.j, end.a) for end in self.of(Ended)} | self.lost()
        assert told == set(self.manager.ended), "no attempt is unaccounted"
        snapshot = self.snapshot()
        assert snapshot.finished
        assert (snapshot.state, snapshot.counts) == (state.finished.state, totals)
        return state

    def lost(self) -> set[tuple[int, int]]:
        return {attempt for attempt, end in self.manager.ended.items() if not isinstance(end, Ended)}


def fails(*jobs: int, until: int = 99) -> Callable[[int, int], Outcome]:
    return lambda job, attempt: Outcome(exit=1 if job in jobs and attempt < until else 0)


def answers(*takings: Taking) -> Callable[[Batch], Taking]:
    """These answers, then only good ones."""
    left = iter(takings)
    return lambda _batch: next(left, Taking.ACCEPTED)


class Hooked(FakeExecutor):
    """Calls something after every call of one kind.

    Parameters
    ----------
    world
        Whose manager it speaks to.
    hook
        Called with the number of the call, from 1.
    what
        The method.
    """

    def __init__(self, world: World, hook: Callable[[int], None], *, what: str = "wait") -> None:
        super().__init__(world.manager)
        self._hook = hook
        self._what = what
        self._calls = 0

    def wait(self, timeout_s: float) -> None:
        super().wait(timeout_s)
        self._after("wait")

    def submit(self, batch: Batch) -> SubmitAnswer:
        answer = super().submit(batch)
        self._after("submit")
        return answer

    def poll(self, since: Mark) -> Polled | Unreachable:
        answer = super().poll(since)
        self._after("poll")
        return answer

    def find(self, tags: Iterable[str]) -> Found | Unreachable:
        answer = super().find(tags)
        self._after("find")
        return answer

    def cancel(self, attempts: Iterable[tuple[int, int]], *, grace_s: float) -> CancelOutcome:
        answer = super().cancel(attempts, grace_s=grace_s)
        self._after("cancel")
        return answer

    def _after(self, what: str) -> None:
        if self._what in {what, "anything"}:
            self._calls += 1
            self._hook(self._calls)


def test_a_run_succeeds_in_order(tmp_path: Path) -> None:
    world = World(tmp_path, diamonds())
    assert world.engine().run() is JobState.SUCCEEDED
    state = world.check()
    assert state.totals()[JobState.SUCCEEDED] == 5
    starts = world.manager.started
    ends = {(job, attempt): end.run_s for (job, attempt), end in world.manager.ended.items() if isinstance(end, Ended)}
    for job, parents in enumerate(state.parents):
        assert all(starts[job, 1] >= starts[parent, 1] + (ends[parent, 1] or 0.0) for parent in parents)
    assert world.asked("close") == [None]
    assert world.asked("sweep") == []


def diamonds() -> dict[str, Sequence[str]]:
    return {"a_0": (), "b_0": (), "a_1": ("a_0",), "b_1": ("a_0", "b_0"), "c": ("a_1", "b_1")}


def test_a_run_without_jobs_succeeds(tmp_path: Path) -> None:
    world = World(tmp_path, {})
    assert world.engine().run() is JobState.SUCCEEDED
    assert world.snapshot().counts[JobState.SUCCEEDED] == 0


def test_a_child_starts_only_after_its_parents_end_is_durable(tmp_path: Path) -> None:
    world = World(tmp_path)
    known: list[set[int]] = []
    world.engine(
        executor=Hooked(world, lambda _: known.append({end.j for end in world.of(Ended)}), what="submit")
    ).run()
    assert known == [set(), {0}, {0, 1}]


def test_an_intent_is_durable_before_the_act(tmp_path: Path) -> None:
    world = World(tmp_path)
    intended: list[bool] = []

    def taking(batch: Batch) -> Taking:
        intended.append(any(getattr(event, "tag", None) == batch.tag for event in world.events()))
        return Taking.ACCEPTED

    world.manager._taking = taking
    world.engine().run()
    assert intended == [True] * 3


def test_a_failure_prunes_and_the_final_job_runs(tmp_path: Path) -> None:
    world = World(tmp_path, outcome=fails(1), written={"final": "last"})
    assert world.engine().run() is JobState.FAILED
    world.check()
    assert world.codes() == ["SUCCEEDED", "FAILED", "PRUNED", "SUCCEEDED"]


def test_a_retry_mends_a_run(tmp_path: Path) -> None:
    world = World(tmp_path, outcome=fails(1, until=3), written={"profiles": {"a": {"number_of_retries": 2}}})
    assert world.engine().run() is JobState.SUCCEEDED
    state = world.check()
    assert list(state.attempts) == [1, 3, 1]
    assert [(retry.j, retry.a, retry.cause) for retry in world.of(Retry)] == [(1, 2, Cause.EXIT), (1, 3, Cause.EXIT)]


def test_a_lost_attempt_has_a_budget_of_its_own(tmp_path: Path) -> None:
    world = World(tmp_path, outcome=lambda job, attempt: Outcome(lost=job == 0 and attempt < 3))
    assert world.engine().run() is JobState.FAILED
    (failed,) = world.of(Failed)
    assert failed.why == "lost 2 times, and retryOnLost is 1: the manager forgot it"
    assert list(world.check().attempts) == [2, 0, 0]


def test_a_refusal_spends_an_attempt_and_does_not_go_on_for_ever(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        taking=answers(*[Taking.REFUSED] * 3),
        written={"profiles": {"a": {"number_of_retries": 1}}},
    )
    assert world.engine().run() is JobState.FAILED
    (failed,) = world.of(Failed)
    assert failed.why == "no attempt left: numberOfRetries is 1: the manager refuses"
    assert [batch.members[0].attempt for batch in world.asked("submit")] == [1, 2]
    assert world.codes() == ["FAILED", "PRUNED", "PRUNED"]


def test_not_now_spends_nothing_and_is_waited_out(tmp_path: Path) -> None:
    world = World(tmp_path, taking=answers(Taking.THROTTLED, Taking.THROTTLED), retry_after_s=60.0)
    notes: list[str] = []
    assert world.engine(executor=Hooked(world, lambda _: notes.append(world.snapshot().note))).run()
    assert list(world.check().attempts) == [1, 1, 1]
    assert world.manager.started[0, 1] >= 120.0
    assert notes[0] == "the manager is busy"
    assert world.snapshot().note == ""
    assert world.said == ["the manager is busy"], "said once"
    # One poll per nap: a manager that is busy is not asked all the time.
    assert len(world.asked("poll")) < 120.0 / 0.25 + 30


def test_not_now_holds_for_all_batches_of_the_round(tmp_path: Path) -> None:
    world = World(tmp_path, {f"a_{number}": () for number in range(5)}, taking=answers(Taking.THROTTLED))
    assert world.engine().run() is JobState.SUCCEEDED
    assert len(world.asked("submit")) == 1 + 5
    assert list(world.check().attempts) == [1] * 5
    assert min(world.manager.started.values()) >= 5.0


@pytest.mark.parametrize("taking", [Taking.UNSURE_TAKEN, Taking.UNSURE_NOT_TAKEN])
def test_a_batch_of_which_nobody_is_sure_is_looked_up(tmp_path: Path, taking: Taking) -> None:
    world = World(tmp_path, taking=answers(taking))
    assert world.engine().run() is JobState.SUCCEEDED
    assert list(world.check().attempts) == [1, 1, 1]
    assert len(world.asked("find")) == 1
    assert len(world.asked("submit")) == (3 if taking is Taking.UNSURE_TAKEN else 4)
    assert len(world.of(Submitted)) == 3
    assert len(world.of(Refused)) == (0 if taking is Taking.UNSURE_TAKEN else 1)


def test_a_silent_manager_leaves_it_unsure_and_nothing_is_submitted_again(tmp_path: Path) -> None:
    world = World(tmp_path, taking=answers(Taking.UNSURE_TAKEN), outcome=lambda _job, _attempt: Outcome(run_s=100.0))

    def fall_silent(number: int) -> None:
        if number == 1:
            world.manager.be_silent(50.0)

    assert world.engine(executor=Hooked(world, fall_silent, what="submit")).run() is JobState.SUCCEEDED
    world.check()
    assert len(world.asked("submit")) == 3


def test_lookups_may_be_unreachable_when_polls_are_not(tmp_path: Path) -> None:
    class NotFound(FakeExecutor):
        left = 3

        def find(self, tags: Iterable[str]) -> Found | Unreachable:
            self.left -= 1
            return Unreachable(why="no answer") if self.left >= 0 else super().find(tags)

    world = World(tmp_path, taking=answers(Taking.UNSURE_NOT_TAKEN))
    assert world.engine(executor=NotFound(world.manager)).run() is JobState.SUCCEEDED
    world.check()
    assert "it cannot be told what became of 1 batches: no answer" in world.said


def test_what_is_dropped_before_it_starts_costs_no_attempt(tmp_path: Path) -> None:
    world = World(tmp_path, taking=answers(Taking.DROPPED, Taking.DROPPED))
    assert world.engine().run() is JobState.SUCCEEDED
    assert list(world.check().attempts) == [1, 1, 1]


def test_old_news_of_what_never_started_change_nothing(tmp_path: Path) -> None:
    class Stale(FakeExecutor):
        def poll(self, since: Mark) -> Polled | Unreachable:
            answer = super().poll(since)
            assert isinstance(answer, Polled)
            return Polled(events=answer.events, mark=answer.mark, never=[(0, 7), (99, 1)])

    world = World(tmp_path)
    assert world.engine(executor=Stale(world.manager)).run() is JobState.SUCCEEDED
    assert not world.of(Refused)


def test_silence_fails_nothing_and_is_shown(tmp_path: Path) -> None:
    world = World(tmp_path, outcome=lambda _job, _attempt: Outcome(run_s=30.0))
    notes: list[str] = []

    def look(number: int) -> None:
        if number == 1:
            world.manager.be_silent(300.0)
        notes.append(world.snapshot().note)

    assert world.engine(executor=Hooked(world, look)).run() is JobState.SUCCEEDED
    world.check()
    assert "the workload manager does not answer: the manager is silent" in notes
    assert world.said == ["the workload manager does not answer: the manager is silent"]
    assert not world.of(Failed, Retry)
    assert world.snapshot().note == ""


def test_reasons_to_wait_are_said_once_however_they_alternate_and_again_later(
    unprivileged: Path,
) -> None:
    world = World(unprivileged, outcome=lambda _job, _attempt: Outcome(run_s=300.0))

    def disturb(number: int) -> None:
        if number in {2, 1000}:
            world.manager.be_silent(20.0)
        if number in {2, 60}:
            world.run.journal.chmod(0 if number == 2 else 0o755)

    assert world.engine(executor=Hooked(world, disturb)).run() is JobState.SUCCEEDED
    world.check()
    silent = "the workload manager does not answer: the manager is silent"
    assert world.said == [silent, "the run directory cannot be read: Permission denied", silent]


@pytest.mark.parametrize("seed", range(8))
def test_news_late_twice_and_out_of_order(tmp_path: Path, seed: int) -> None:
    dice = Random(seed)

    def outcome(_job: int, _attempt: int) -> Outcome:
        return Outcome(
            queue_s=dice.choice((0.0, 2.0)),
            run_s=dice.choice((0.0, 1.0, 7.0)),
            start_told_s=dice.choice((0.0, 20.0)),
            end_told_s=dice.choice((0.0, 5.0)),
            told=dice.choice((1, 2, 3)),
        )

    world = World(tmp_path, diamonds(), outcome, order=dice)
    assert world.engine().run() is JobState.SUCCEEDED
    state = world.check()
    assert list(state.attempts) == [1] * 5
    assert len(world.of(Ended)) == 5


def test_the_pool_is_kept(tmp_path: Path) -> None:
    world = World(tmp_path, {f"a_{number}": () for number in range(200)}, capacity={"cpus": 7})
    assert world.engine().run() is JobState.SUCCEEDED
    world.check()
    assert world.manager.most_running == 7


def test_a_wide_run_is_handed_over_without_naps(tmp_path: Path) -> None:
    world = World(tmp_path, {f"a_{number}": () for number in range(200)}, lambda _job, _attempt: Outcome(queue_s=9.0))
    assert world.engine(limits=Limits(max_batch=10)).run() is JobState.SUCCEEDED
    world.check()
    assert {len(batch.members) for batch in world.asked("submit")} == {10}
    assert set(world.manager.started.values()) == {9.0}


def test_a_jump_of_the_clock_harms_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, outcome=fails(0, until=2), written={"profiles": {"a": {"number_of_retries": 1}}})

    def jump(number: int) -> None:
        world.clock.jump(-1e6 if number % 2 else 1e7)

    assert world.engine(executor=Hooked(world, jump)).run() is JobState.SUCCEEDED
    world.check()


@pytest.mark.parametrize("jump", [-1e7, 1e7])
def test_a_retry_is_due_when_it_was_meant_to_be_whatever_the_clock_says(tmp_path: Path, jump: float) -> None:
    world = World(tmp_path, outcome=fails(0, until=2))

    def jumps(number: int) -> None:
        if number in {2, 20}:
            world.clock.jump(jump if number == 2 else -3 * jump)

    engine = world.engine(executor=Hooked(world, jumps, what="poll"))
    note = engine._note_event

    def noted(event: Event) -> None:
        note(event)
        if isinstance(event, Ended) and event.cause:
            note(Retry(j=event.j, a=2, cause=Cause.EXIT, not_before=world.clock.now() + 30.0))

    engine._note_event = noted  # type: ignore[method-assign]
    assert engine.run() is JobState.SUCCEEDED
    world.check()
    waited = world.manager.started[0, 2] - world.manager.started[0, 1]
    assert 30.0 <= waited <= 33.0


def test_snapshots_show_a_run_on_its_way(tmp_path: Path) -> None:
    world = World(tmp_path, outcome=lambda _job, _attempt: Outcome(run_s=100.0))
    seen: list[Snapshot] = []
    world.engine(executor=Hooked(world, lambda _: seen.append(world.snapshot()))).run()
    assert {snapshot.state for snapshot in seen} == {JobState.RUNNING}
    assert all(sum(snapshot.counts.values()) == 3 for snapshot in seen)
    assert all(set(snapshot.labels) == {"a"} for snapshot in seen)
    assert max(after.at - before.at for before, after in pairwise(seen)) <= 10.5, "its heartbeat"
    assert not any(snapshot.finished for snapshot in seen)


def test_a_snapshot_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.run.status.mkdir()
    assert world.engine().run() is JobState.SUCCEEDED
    assert world.state().finished
    assert world.said[0].startswith("the snapshot cannot be written: ")


# ------------------------------------------------------------------------------------------------------------ full disk


class FullDisk:
    """No file grows beyond what the journal has, from one wait to another."""

    def __init__(self, world: World, begin: int, end: int) -> None:
        self._world = world
        self._begin, self._end = begin, end
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def __call__(self, number: int) -> None:
        if number == self._begin:
            size = lives(self._world.run.journal)[-1][1].stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, self._limits[1]))
        if number == self._end:
            self.end()

    def end(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)


@pytest.mark.parametrize("begin", range(1, 15))
def test_a_full_disk_is_waited_out(tmp_path: Path, begin: int) -> None:
    """Whichever events meet it, the last one included."""
    world = World(tmp_path, outcome=lambda job, _attempt: Outcome(run_s=0.7, exit=int(job == 2)))
    disk = FullDisk(world, begin, begin + 12)
    try:
        assert world.engine(executor=Hooked(world, disk)).run() is JobState.FAILED
    finally:
        disk.end()
    world.check()
    assert list(world.state().attempts) == [1, 1, 1]
    assert Counter(type(event) for event in world.events())[Finished] == 1
    assert not [word for word in world.said if not word.startswith("the journal cannot be written: ")]


def test_an_order_on_a_full_disk_is_taken_once(tmp_path: Path) -> None:
    world = World(tmp_path, outcome=lambda _job, _attempt: Outcome(run_s=100.0))
    disk = FullDisk(world, 3, 30)

    def hook(number: int) -> None:
        if number == 3:
            orders.leave(world.run, orders.Order(who="me", act="cancel"))
        disk(number)

    try:
        assert world.engine(executor=Hooked(world, hook)).run() is JobState.DELETED
    finally:
        disk.end()
    world.check()
    assert len(world.of(Steer)) == 1
    assert orders.waiting(world.run) == []


# ---------------------------------------------------------------------------------------------------------- credentials


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder of its own for a user to whom permissions mean something."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    root = os.getuid() == 0
    if root:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    yield folder
    if root:
        os.seteuid(0)
    shutil.rmtree(folder)


class Locked:
    """Takes all rights to a folder away, from one wait to another: expired credentials."""

    def __init__(self, folder: Path, begin: int, end: int) -> None:
        self._folder, self._begin, self._end = folder, begin, end

    def __call__(self, number: int) -> None:
        if number in {self._begin, self._end}:
            self._folder.chmod(0 if number == self._begin else 0o755)


@pytest.mark.parametrize("begin", range(1, 12))
@pytest.mark.parametrize("what", ["", "journal", "steer"])
def test_expired_credentials_are_waited_out(unprivileged: Path, begin: int, what: str) -> None:
    world = World(unprivileged, outcome=lambda job, _attempt: Outcome(run_s=0.7, exit=int(job == 2)))
    world.run.steer.mkdir()
    locked = Locked(world.run.root / what, begin, begin + 12)
    try:
        assert world.engine(executor=Hooked(world, locked)).run() is JobState.FAILED
    finally:
        (world.run.root / what).chmod(0o755)
    world.check()
    assert list(world.state().attempts) == [1, 1, 1]
    if what != "steer":
        assert any("Permission denied" in word for word in world.said)


def test_nothing_starts_while_it_cannot_be_told_who_the_newest_is(unprivileged: Path) -> None:
    world = World(unprivileged)
    seen: list[int] = []

    def look(number: int) -> None:
        if number == 1:
            world.run.journal.chmod(0)
        if number == 40:
            seen.append(len(world.asked("submit")))
            world.run.journal.chmod(0o755)

    assert world.engine(executor=Hooked(world, look)).run() is JobState.SUCCEEDED
    world.check()
    assert seen == [1]


# --------------------------------------------------------------------------------------------------------- cancellation


def leave_at(
    world: World, wait: int, *, jobs: tuple[str, ...] = (), labels: tuple[str, ...] = ()
) -> Callable[[int], None]:
    def hook(number: int) -> None:
        if number == wait:
            orders.leave(world.run, orders.Order(who="me", act="cancel", jobs=jobs, labels=labels))

    return hook


def test_a_whole_run_is_cancelled_and_its_final_job_runs(tmp_path: Path) -> None:
    world = World(tmp_path, outcome=lambda _job, _attempt: Outcome(run_s=50.0), written={"final": "last"})
    assert world.engine(executor=Hooked(world, leave_at(world, 210))).run() is JobState.DELETED
    world.check()
    assert world.codes() == ["SUCCEEDED", "DELETED", "DELETED", "SUCCEEDED"]
    (end,) = [end for end in world.of(Ended) if end.j == 1]
    assert (end.cause, end.signal) == (Cause.CANCELLED, 15)
    assert world.asked("cancel") == [{(1, 1)}], "asked once"
    assert world.asked("sweep") == [None]
    assert "me orders: cancel the whole run" in world.said


def test_a_stubborn_job_is_killed_when_the_grace_is_over(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        {"a_0": ()},
        lambda _job, _attempt: Outcome(run_s=1e5, dies_s=1e4),
        written={"engine": {"grace_s": 7.0}},
    )
    assert world.engine(executor=Hooked(world, leave_at(world, 4))).run() is JobState.DELETED
    (end,) = world.of(Ended)
    assert (end.cause, end.signal) == (Cause.CANCELLED, 9)
    assert 7.0 <= end.run_s <= 9.0


def test_a_job_that_is_lost_while_it_is_cancelled_is_gone(tmp_path: Path) -> None:
    world = World(tmp_path, {"a_0": ()}, lambda _job, _attempt: Outcome(run_s=1e5, lost=True))
    assert world.engine(executor=Hooked(world, leave_at(world, 4))).run() is JobState.DELETED
    assert world.codes() == ["DELETED"]
    assert not world.of(Retry)


def test_a_label_is_cancelled_and_others_go_on(tmp_path: Path) -> None:
    graph = {"a_0": (), "b_0": (), "c_0": ("a_0",), "c_1": ("b_0",)}
    world = World(tmp_path, graph, lambda _job, _attempt: Outcome(run_s=20.0))
    hook = leave_at(world, 4, labels=("a",))
    assert world.engine(executor=Hooked(world, hook)).run() is JobState.FAILED
    state = world.check()
    table = JobTable(world.run)
    codes = {table[job].name: Code(state.code[job]).name for job in range(4)}
    table.close()
    assert codes == {"a_0": "DELETED", "b_0": "SUCCEEDED", "c_0": "PRUNED", "c_1": "SUCCEEDED"}
    assert world.of(Steer)[0].select == {"labels": ("a",)}


def test_a_waiting_job_is_cancelled_by_name(tmp_path: Path) -> None:
    world = World(tmp_path, outcome=lambda _job, _attempt: Outcome(run_s=20.0))
    assert world.engine(executor=Hooked(world, leave_at(world, 4, jobs=("a_1", "nobody")))).run() is JobState.FAILED
    world.check()
    assert world.codes() == ["SUCCEEDED", "DELETED", "PRUNED"]
    assert world.asked("cancel") == []


def test_an_unanswered_batch_is_ended_once_it_is_known_to_be_there(tmp_path: Path) -> None:
    world = World(tmp_path, {"a_0": ()}, lambda _job, _attempt: Outcome(run_s=1e5), taking=answers(Taking.UNSURE_TAKEN))

    def hook(number: int) -> None:
        if number == 1:
            world.manager.be_silent(60.0)
            orders.leave(world.run, orders.Order(who="me", act="cancel"))

    assert world.engine(executor=Hooked(world, hook, what="submit")).run() is JobState.DELETED
    world.check()
    asked = [asked.what for asked in world.manager.asked]
    assert asked.index("cancel") > asked.index("find")


def test_an_unanswered_batch_that_never_came_is_just_deleted(tmp_path: Path) -> None:
    taking = answers(Taking.UNSURE_NOT_TAKEN)
    world = World(tmp_path, taking=taking)

    def hook(number: int) -> None:
        if number == 1:
            world.manager.be_silent(1.0)
            orders.leave(world.run, orders.Order(who="me", act="cancel", jobs=("a_0",)))

    assert world.engine(executor=Hooked(world, hook, what="submit")).run() is JobState.FAILED
    assert world.codes() == ["DELETED", "PRUNED", "PRUNED"]


def test_a_cancelled_run_stays_cancelled_when_its_engine_dies(tmp_path: Path) -> None:
    world = World(tmp_path, outcome=lambda _job, _attempt: Outcome(run_s=1e5, dies_s=5.0))
    orders.leave(world.run, orders.Order(who="me", act="cancel", jobs=("nobody",)))

    def die(number: int) -> None:
        if number == 6:
            orders.leave(world.run, orders.Order(who="me", act="cancel"))
        if world.manager.asked[-1].what == "cancel":
            raise Crash

    with pytest.raises(Crash):
        world.engine(executor=Hooked(world, die, what="anything")).run()
    assert world.engine("resume").run() is JobState.DELETED
    world.check()
    assert world.asked("cancel") == [{(0, 1)}] * 2, "the new life asks again"


# -------------------------------------------------------------------------------------------------------------- restart


def test_a_restart_runs_again_what_did_not_succeed(tmp_path: Path) -> None:
    world = World(tmp_path, outcome=fails(1, until=2))
    assert world.engine().run() is JobState.FAILED
    engine = world.engine("restart")
    assert engine.restart() == 2
    assert engine.run() is JobState.SUCCEEDED
    assert list(world.check().attempts) == [1, 2, 1]
    assert world.of(Restarted)[0].jobs == (1, 2)


def test_a_restart_with_nothing_to_do_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.engine().run()
    engine = world.engine("restart")
    assert engine.restart() == 0
    assert engine.run() is JobState.SUCCEEDED
    assert not world.of(Restarted)


def test_a_restart_runs_what_is_named_and_writes_down_who_wanted_what(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.engine().run()
    label = JobTable(world.run).labels[0]
    order = orders.Order(who="me", act="restart", set={"requestMemory": "8G"}, from_labels=(label,))
    path = orders.leave(world.run, order)
    engine = world.engine("restart")
    assert engine.restart() == 3
    assert path.exists(), "until what follows from it is durable"
    assert engine.run() is JobState.SUCCEEDED
    assert not path.exists()
    assert list(world.state().attempts) == [2, 2, 2]
    assert set(world.manager.successes.values()) == {2}, "once more each, and no more"
    [event] = world.of(Restarted)
    assert (event.who, event.set, event.from_labels) == ("me", {"requestMemory": "8G"}, (label,))
    [steer] = world.of(Steer)
    assert (steer.act, steer.jobs, steer.request and steer.request.memory_b) == ("set", (0, 1, 2), 8 << 30)


def test_a_restart_whose_engine_dies_before_it_is_written_down_is_done_by_the_next(tmp_path: Path) -> None:
    world = World(tmp_path, outcome=fails(1, until=2))
    world.engine().run()
    orders.leave(world.run, orders.Order(who="me", act="restart"))
    assert world.engine("restart").restart() == 2, "and nothing more: it died"
    assert world.engine("resume").run() is JobState.SUCCEEDED
    assert list(world.check().attempts) == [1, 2, 1]
    assert len(world.of(Restarted)) == 1


def test_a_cancelled_run_can_be_restarted(tmp_path: Path) -> None:
    world = World(tmp_path, outcome=lambda _job, _attempt: Outcome(run_s=20.0))
    assert world.engine(executor=Hooked(world, leave_at(world, 4))).run() is JobState.DELETED
    engine = world.engine("restart")
    assert engine.restart() == 3
    assert engine.run() is JobState.SUCCEEDED
    assert list(world.check().attempts) == [2, 1, 1]


def test_a_finished_run_taken_up_again_finishes_at_once(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.engine().run()
    assert world.engine("resume").run() is JobState.SUCCEEDED
    world.check()
    assert len(world.asked("submit")) == 3


# ---------------------------------------------------------------------------------------------- deaths, and two at once


class Crash(Exception):  # noqa: N818 - no error, a death
    """The engine dies here."""


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

    def __init__(self, world: World, fuse: Fuse) -> None:
        super().__init__(world.manager)
        self._fuse = fuse

    def open(self, run: RunPaths, life: int) -> None:
        self._fuse()
        super().open(run, life)
        self._fuse()

    def submit(self, batch: Batch) -> SubmitAnswer:
        self._fuse()
        answer = super().submit(batch)
        self._fuse()
        return answer

    def find(self, tags: Iterable[str]) -> Found | Unreachable:
        self._fuse()
        answer = super().find(tags)
        self._fuse()
        return answer

    def poll(self, since: Mark) -> Polled | Unreachable:
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


def eventful(job: int, attempt: int) -> Outcome:
    """Fails, is lost, ends by a signal, starts late, or is told of late, by turns."""
    return Outcome(
        queue_s=(job % 3) * 0.08,
        run_s=0.2 + 0.2 * (job % 2),
        exit=int((job == 2 and attempt == 1) or job == 6),
        signal=9 if job == 5 and attempt == 1 else None,
        lost=job == 3 and attempt == 1,
        dies_s=0.12,
        end_told_s=(job % 4) * 0.1,
        told=1 + job % 2,
    )


def eventful_world(root: Path) -> World:
    turns = iter([Taking.ACCEPTED, Taking.UNSURE_TAKEN, Taking.THROTTLED, Taking.UNSURE_NOT_TAKEN, Taking.DROPPED])

    def taking(batch: Batch) -> Taking:
        first = batch.members[0]
        if (first.job, first.attempt) == (1, 1):
            return Taking.REFUSED
        return next(turns, Taking.ACCEPTED)

    retries = {"number_of_retries": 1}
    return World(
        root,
        TWELVE,
        eventful,
        written={"final": "last", "profiles": {"a": retries, "b": retries}},
        taking=taking,
        capacity={"cpus": 3},
        retry_after_s=0.2,
    )


def live(world: World, fuse: Fuse, by: str, *, also_within: bool = False) -> JobState | None:
    """A life of the engine; its end, or nothing when it dies before.

    What it appends to the journal between two commits dies with it whenever it dies in between, so that a death at what
    is asked of the manager stands for all; `also_within` does not rely on it, and counts every event as well.
    """
    clock = FusedClock(world.clock, fuse) if also_within else world.clock
    try:
        return world.engine(by, executor=FusedExecutor(world, fuse), clock=clock).run()
    except Crash:
        return None


def calls_of(world: World) -> int:
    fuse = Fuse(0)
    live(world, fuse, "submit")
    return fuse.calls


EXPECTED = ["SUCCEEDED"] * 6 + ["FAILED"] + ["SUCCEEDED"] * 3 + ["PRUNED", "SUCCEEDED"]


def test_an_engine_may_die_at_any_moment(tmp_path: Path) -> None:
    calls = calls_of(eventful_world(tmp_path))
    assert calls > 80
    for moment in range(1, calls + 1):
        root = tmp_path / str(moment)
        root.mkdir()
        world = eventful_world(root)
        if live(world, Fuse(moment), "submit") is None:
            assert world.engine("resume").run() is JobState.FAILED
        assert sorted(world.codes()) == sorted(EXPECTED), moment
        world.check()


def test_engines_may_die_again_and_again(tmp_path: Path) -> None:
    for gap in range(7, 90, 5):
        root = tmp_path / str(gap)
        root.mkdir()
        world = eventful_world(root)
        ended = live(world, Fuse(gap), "submit", also_within=True)
        for _ in range(60):
            ended = ended or live(world, Fuse(gap), "resume", also_within=True)
        assert (ended or world.engine("resume").run()) is JobState.FAILED
        assert sorted(world.codes()) == sorted(EXPECTED), gap
        world.check()


def test_a_cancelled_run_may_lose_its_engine_at_any_moment(tmp_path: Path) -> None:
    calls = calls_of(eventful_world(tmp_path))
    for moment in range(1, calls, 2):
        root = tmp_path / str(moment)
        root.mkdir()
        world = eventful_world(root)
        world.manager.at(0.5, partial(orders.leave, world.run, orders.Order(who="me", act="cancel")))
        ended = live(world, Fuse(moment), "submit")
        assert (ended or world.engine("resume").run()) is JobState.DELETED, moment
        state = world.check()
        assert orders.waiting(world.run) == []
        assert state.totals()[JobState.DELETED]
        assert state.code[11] == Code.SUCCEEDED


def test_a_superseded_engine_stops_wherever_it_is(tmp_path: Path) -> None:
    """The manager itself raises `BrokenPromiseError` when a superseded life hands anything over."""
    for call in range(1, 1_000):
        root = tmp_path / str(call)
        root.mkdir()
        world = eventful_world(root)
        newer: list[Engine] = []

        def take_over(number: int, call: int = call, world: World = world, newer: list[Engine] = newer) -> None:
            if number == call:
                newer.append(world.engine("resume"))

        older = world.engine(executor=Hooked(world, take_over, what="anything"))
        stopped = stops(older)
        if not newer:
            break
        assert newer[0].run() is JobState.FAILED
        assert stopped, call
        assert sorted(world.codes()) == sorted(EXPECTED), call
        world.check()
    assert call > 40


def stops(engine: Engine) -> bool:
    """Whether an engine ends because it is superseded."""
    try:
        engine.run()
    except Superseded:
        return True
    return False


def test_a_superseded_engine_leaves_orders_cancellations_and_snapshots_to_the_newer(tmp_path: Path) -> None:
    world = World(tmp_path, outcome=lambda _job, _attempt: Outcome(run_s=50.0))
    newer: list[Engine] = []
    executor = FakeExecutor(world.manager)
    older = world.engine(executor=executor)
    assert not older._round()
    newer.append(world.engine("resume"))
    before = world.run.status.read_bytes()
    orders.leave(world.run, orders.Order(who="me", act="cancel"))
    world.clock.advance(20.0)
    with pytest.raises(Superseded):
        older.run()
    assert len(orders.waiting(world.run)) == 1
    assert world.asked("cancel") == []
    assert world.run.status.read_bytes() == before
    assert newer[0].run() is JobState.DELETED
    world.check()


def test_an_engine_superseded_while_it_cancels_asks_for_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, outcome=lambda _job, _attempt: Outcome(run_s=50.0))
    older = world.engine()
    assert not older._round()
    older._note_event(Steer(who="me", act="cancel"))
    newer = world.engine("resume")
    with pytest.raises(Superseded):
        older._end_cancelled()
    assert world.asked("cancel") == []
    assert newer.run() is JobState.SUCCEEDED, "what was never written down never was"


def test_a_superseded_engine_writes_no_snapshot(tmp_path: Path) -> None:
    world = World(tmp_path, {"a_0": ()})
    newer: list[Engine] = []
    older = world.engine(executor=Hooked(world, lambda _: newer.append(world.engine("resume")), what="submit"))
    assert stops(older)
    assert not world.run.status.exists()
    assert newer[0].run() is JobState.SUCCEEDED
    world.check()


def test_what_an_older_engine_writes_once_a_newer_has_begun_is_not_believed(tmp_path: Path) -> None:
    world = World(tmp_path)
    older = world.engine()
    assert not older._round()
    newer = world.engine("resume")
    older._note_event(Ended(j=0, a=1, exit=0))
    older._journal.commit()
    assert not newer.state.totals()[JobState.SUCCEEDED]
    newer._journal.commit()
    assert not world.of(Ended)
    assert newer.run() is JobState.SUCCEEDED
    world.check()


def test_what_an_older_engine_does_while_a_newer_begins_is_not_done_again(tmp_path: Path) -> None:
    """The newer one has read the journal, and has not yet begun its own."""
    world = World(tmp_path)
    older = world.engine()

    class Late(FakeClock):
        acted = False

        def now(self) -> float:
            if not self.acted:
                self.acted = True
                assert not older._round()
            return super().now()

    newer = world.engine("resume", clock=Late())
    assert newer.state.code[0] == Code.PENDING
    newer._clock = world.clock
    assert newer.run() is JobState.SUCCEEDED
    world.check()
    assert list(newer.state.attempts) == [1, 1, 1]


def test_one_of_two_engines_that_begin_at_once_gives_way(tmp_path: Path) -> None:
    world = World(tmp_path)

    class Late(FakeClock):
        def now(self) -> float:
            if world.manager.newest_life == 0:
                world.engine()
            return super().now()

    with pytest.raises(SubmissionRefusedError, match="another engine has just taken this run up"):
        world.engine(clock=Late())
    assert len(lives(world.run.journal)) == 1


# ------------------------------------------------------------------------------------------------ the fakes themselves


def batch_of(world: World, *attempts: tuple[int, int], tag: str = "t", cpus: int = 1) -> Batch:
    table = JobTable(world.run)
    request = Request(cpus=cpus)
    members = tuple(table.member(job, attempt, request) for job, attempt in attempts)
    table.close()
    return Batch(id=tag, tag=tag, request=request, members=members)


def test_the_manager_starts_no_attempt_twice(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.manager.submit(batch_of(world, (0, 1)), 1)
    with pytest.raises(BrokenPromiseError, match="attempt 1 of job 0 is handed over a second time"):
        world.manager.submit(batch_of(world, (0, 1), tag="u"), 1)


def test_the_manager_starts_nothing_for_a_superseded_life(tmp_path: Path) -> None:
    world = World(tmp_path)
    FakeExecutor(world.manager).open(world.run, 2)
    with pytest.raises(BrokenPromiseError, match="life 1 hands over 't', and life 2 has begun"):
        world.manager.submit(batch_of(world, (0, 1)), 1)


def test_the_manager_has_no_more_than_there_is(tmp_path: Path) -> None:
    world = World(tmp_path, capacity={"cpus": 3})
    world.manager.submit(batch_of(world, (0, 1), cpus=2), 1)
    with pytest.raises(BrokenPromiseError, match="'a_1' is handed over, and there is too little of 'cpus'"):
        world.manager.submit(batch_of(world, (1, 1), tag="u", cpus=2), 1)


def test_a_job_that_is_cancelled_in_the_queue_never_starts(tmp_path: Path) -> None:
    world = World(tmp_path, outcome=lambda _job, _attempt: Outcome(queue_s=5.0))
    executor = FakeExecutor(world.manager)
    executor.submit(batch_of(world, (0, 1)))
    assert executor.cancel([(0, 1), (7, 1)], grace_s=3.0).ended == 1
    assert executor.cancel([(0, 1)], grace_s=3.0).ended == 0
    world.clock.advance(100.0)
    answer = executor.poll("")
    assert isinstance(answer, Polled)
    (end,) = answer.events
    assert isinstance(end, Ended)
    assert (end.cause, end.run_s) == (Cause.SIGNAL, None)
    assert world.manager.started == {}


def test_a_silent_manager_finds_nothing_either(tmp_path: Path) -> None:
    manager = FakeManager(FakeClock())
    manager.submit(batch_of(World(tmp_path), (0, 1)), 1)
    manager.be_silent(5.0)
    assert isinstance(manager.find(["t"]), Unreachable)
    manager.clock.advance(5.0)
    assert manager.find(["t", "u"]) == Found({"t": frozenset({(0, 1)})})


def test_an_executor_writes_no_script(tmp_path: Path) -> None:
    world = World(tmp_path)
    ctx = Context(settings={}, site=Site(name="s"), paths=world.run, templates={})
    assert FakeExecutor(world.manager).script(batch_of(world, (0, 1)), ctx) is None


def test_a_job_out_of_memory_asks_for_more_until_it_has_enough(tmp_path: Path) -> None:
    rules = {
        "request": Request(memory_b=100 * MIB),
        "number_of_retries": 5,
        "attributes": {"memoryMultiplier": 2.0, "requestMemoryMax": 700 * MIB},
    }
    world = World(
        tmp_path,
        {"a_0": ()},
        outcome=lambda _job, attempt: Outcome() if attempt == 4 else Outcome(signal=9, cause=Cause.OOM),
        written={"profiles": {"a": rules}},
    )
    assert world.engine().run() is JobState.SUCCEEDED
    world.check()
    asked = [(batch.request.memory_b or 0) // MIB for batch in world.asked("submit")]
    assert asked == [100, 200, 400, 700]


def test_the_most_the_manager_has_is_a_cap_which_is_run_once_and_again_after_a_restart(tmp_path: Path) -> None:
    rules = {"request": Request(memory_b=100 * MIB), "number_of_retries": 5, "attributes": {"memoryMultiplier": 3.0}}
    world = World(
        tmp_path,
        {"a_0": ()},
        outcome=lambda _job, _attempt: Outcome(signal=9, cause=Cause.OOM),
        written={"profiles": {"a": rules}},
        capacity={"memory": 500 * MIB},
    )
    assert world.engine().run() is JobState.FAILED
    again = world.engine("restart")
    again.restart()
    assert again.run() is JobState.FAILED
    asked = [(batch.request.memory_b or 0) // MIB for batch in world.asked("submit")]
    assert asked == [100, 300, 500, 500], "a restart forgets nothing"
    assert {failed.why for failed in world.of(Failed)} == {"out of memory with 500 MiB, the most it may have"}


def test_a_retry_waits_for_its_time(tmp_path: Path) -> None:
    rules = {"number_of_retries": 2, "rules": JobRules(backoff=Backoff(first_s=100.0, most_s=1000.0))}
    world = World(tmp_path, {"a_0": ()}, outcome=fails(0, until=3), written={"profiles": {"a": rules}})
    assert world.engine().run() is JobState.SUCCEEDED
    started = world.manager.started
    assert 50.0 <= started[0, 2] - started[0, 1] - 1.0 <= 101.0
    assert 100.0 <= started[0, 3] - started[0, 2] - 1.0 <= 201.0


def test_a_host_that_fails_every_job_pauses_the_run_until_somebody_lets_it_go_on(tmp_path: Path) -> None:
    broken = True
    world = World(
        tmp_path,
        {f"a_{number:02}": () for number in range(20)},
        outcome=lambda _job, _attempt: Outcome(exit=3 if broken else 0),
        written={"engine": {"max_fast_failures": 5}},
        capacity={"cpus": 2},
    )
    notes: list[str] = []

    def mend(number: int) -> None:
        nonlocal broken
        notes.append(world.snapshot().note)
        if number == 200:
            broken = False
            orders.leave(world.run, orders.Order(who="me", act="unpause"))

    assert world.engine(executor=Hooked(world, mend)).run() is JobState.FAILED
    totals = world.check().totals()
    assert totals[JobState.FAILED] <= 7, "what ran when the fifth failed, and no more"
    assert totals[JobState.SUCCEEDED] == 20 - totals[JobState.FAILED]
    (note,) = {note for note in notes if note}
    assert note.startswith(
        "paused: 5 different jobs failed in a row on 'fakehost', each within 10 s, and none succeeded"
    )
    assert [(steer.who, steer.act) for steer in world.of(Steer)] == [("longshore", "pause"), ("me", "unpause")]
    assert len(world.asked("submit")) == 20


def test_a_paused_run_can_be_cancelled_and_stays_paused_in_the_next_life(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        {f"a_{number}": () for number in range(9)},
        outcome=lambda _job, _attempt: Outcome(exit=3),
        written={"engine": {"max_fast_failures": 2}},
        capacity={"cpus": 1},
    )

    def die(number: int) -> None:
        if world.of(Steer):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.engine(executor=Hooked(world, die)).run()
    ended = len(world.asked("submit"))

    def cancel(number: int) -> None:
        if number == 20:
            orders.leave(world.run, orders.Order(who="me", act="cancel"))

    assert world.engine("resume", executor=Hooked(world, cancel)).run() is JobState.DELETED
    assert len(world.asked("submit")) == ended


def test_an_end_is_judged_by_what_the_attempt_left_behind(tmp_path: Path) -> None:
    wanted = JobRules(
        success_if=SuccessIf(exit=(0, 3), log="^done$", file="out/{jobName}.txt"),
        retry_on=RetryOn(log="connection lost", only=True),
        bounds=Bounds(logs=Keep.FAILED),
        backoff=Backoff(first_s=0.0),
    )
    logs: list[Path] = []

    def works(job: int, attempt: int) -> Outcome:
        # The manager asks when it starts an attempt, and again when that ends.
        text = "connection lost" if (job, attempt) == (1, 1) else "failed" if job == 2 else "done"
        log = world.run.root / world.run.log_of(job, f"a_{job}", "a", attempt)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"{text}\n", "utf-8")
        logs.append(log)
        out = world.run.root / "out" / f"a_{job}.txt"
        out.parent.mkdir(exist_ok=True)
        if (job, attempt) != (1, 1):
            out.touch()
        return Outcome(exit=3)

    world = World(
        tmp_path,
        {f"a_{number}": () for number in range(3)},
        outcome=works,
        written={"profiles": {"a": {"number_of_retries": 3, "rules": wanted}}},
    )
    assert world.engine().run() is JobState.FAILED
    assert world.codes() == ["SUCCEEDED", "SUCCEEDED", "FAILED"]
    assert [(retry.j, retry.cause) for retry in world.of(Retry)] == [(1, Cause.PREDICATE)]
    reasons = {(end.j, end.a): end.reason for end in world.of(Ended)}
    nothing = "its log has nothing that matches successIf.log '^done$'"
    file = world.run.root / "out" / "a_1.txt"
    assert reasons == {
        (0, 1): None,
        (1, 1): f"{nothing}; there is no file '{file}' (successIf.file)",
        (1, 2): None,
        (2, 1): nothing,
    }
    assert {log.name for log in logs if log.exists()} == {"a_1.1.log", "a_2.1.log"}, "those of successes are not kept"
