"""What the engine does with what a manager says beside ends: notes, reasons to wait, openings, and the run given up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from longshore.contract.executor import (
    Batch,
    FindResult,
    Limits,
    PollResult,
    Rejected,
    Reprioritisable,
    SubmitResult,
    SubmitWindow,
    Throttled,
    Unsure,
    Urgency,
    WaitReasons,
)
from longshore.contract.service import Mark, RunPaths, Unreachable
from longshore.engine.run.loop import Engine
from longshore.engine.settings import EngineSettings
from longshore.model.event import Ended, Failed
from longshore.model.states import JobState
from longshore.rundir.journal import read_events
from longshore.rundir.run_directory import read_snapshot, read_waiting
from longshore.testing.fakes import AttemptOutcome, FakeClock, FakeExecutor, FakeManager
from longshore.testing.runs import write_run

FAN: Mapping[str, tuple[str, ...]] = {"a_0": (), "a_1": (), "a_2": ("a_0",), "a_3": ()}


class _Executor(FakeExecutor, SubmitWindow, Reprioritisable):
    """A manager that says more than most."""

    def __init__(self, manager: FakeManager, *, limits: Limits | None = None) -> None:
        super().__init__(manager, limits=limits)
        self.batches: list[Batch] = []
        self.polls = 0
        self.rounds: list[int] = []
        """How often it was asked before each batch."""
        self.told: list[Mapping[str, Urgency]] = []
        self.refuses: str | None = None
        self.refusal = Rejected("no such partition", for_all=True)
        self.late: Rejected | None = None
        self.drained: dict[str, int] = {}
        """How many more batches of a label are refused for now."""
        self.opens: int | None = None
        self.note = ""
        self.waiting: WaitReasons | None = None

    def submit(self, batch: Batch) -> SubmitResult:
        self.batches.append(batch)
        self.rounds.append(self.polls)
        label = batch.members[0].name.partition("_")[0]
        if self.drained.get(label):
            self.drained[label] -= 1
            return Throttled("the partition is drained", 20.0, alike=True)
        if self.late:
            return Unsure("it does not answer yet")
        if self.refuses and any(member.name == self.refuses for member in batch.members):
            return self.refusal
        return super().submit(batch)

    def find(self, tags: Iterable[str]) -> FindResult | Unreachable:
        if self.late:
            return FindResult({}, dict.fromkeys(tags, self.late))
        return super().find(tags)

    def poll(self, since: Mark) -> PollResult | Unreachable:
        self.polls += 1
        answer = super().poll(since)
        if isinstance(answer, Unreachable):
            return answer
        waiting, self.waiting = self.waiting, None
        return PollResult(events=answer.events, mark=answer.mark, note=self.note, waiting=waiting)

    def free_submissions(self) -> int | None:
        return self.opens

    def reprioritise(self, urgencies: Mapping[str, Urgency]) -> None:
        self.told.append(urgencies)


def engine(folder: Path, *, limits: Limits | None = None) -> tuple[Engine, _Executor, RunPaths, list[str]]:
    clock, said = FakeClock(), list[str]()
    manager = FakeManager(clock, lambda _job, _attempt: AttemptOutcome(run_s=10.0))
    executor = _Executor(manager, limits=limits)
    run = write_run(folder / "run", FAN, profiles={"a": {"number_of_retries": 5}})
    return Engine(run, executor, EngineSettings(), clock=clock, by="submit", log_line=said.append), executor, run, said


def test_a_refusal_that_would_come_again_fails_its_jobs_at_once(tmp_path: Path) -> None:
    made, executor, _, _ = engine(tmp_path, limits=Limits(max_active=1))
    executor.refuses, executor.refusal = "a_0", Rejected("no such partition", hopeless=True)
    assert made.run() is JobState.FAILED
    assert sum(member.name == "a_0" for batch in executor.batches for member in batch.members) == 1


def test_jobs_that_are_not_taken_for_now_wait_alone_and_one_of_them_is_tried(tmp_path: Path) -> None:
    clock, said = FakeClock(), list[str]()
    manager = FakeManager(clock, lambda _job, _attempt: AttemptOutcome(run_s=10.0))
    executor = _Executor(manager, limits=Limits(max_batch=10))
    executor.drained = {"a": 3}
    parents: dict[str, tuple[str, ...]] = {f"{label}_{number}": () for label in "ab" for number in range(5)}
    run = write_run(tmp_path / "run", parents, profiles={"a": {"service_settings": {"partition": "main"}}})
    made = Engine(run, executor, EngineSettings(), clock=clock, by="submit", log_line=said.append)
    assert made.run() is JobState.SUCCEEDED
    sizes = {
        label: [len(each.members) for each in executor.batches if each.members[0].name[0] == label] for label in "ab"
    }
    assert sizes == {"a": [5, 1, 1, 1, 4], "b": [5]}
    assert all(member.attempt == 1 for each in executor.batches for member in each.members)
    assert said.count("jobs of 'a' wait: the partition is drained") == 1
    ends = {event.j: event.t for event in read_events(run.journal) if isinstance(event, Ended)}
    # The others did not wait, and these no longer than their last pause.
    assert max(ends[job] for job in range(5, 10)) - made.life.t < 20.0
    assert 70.0 <= max(ends[job] for job in range(5)) - made.life.t < 72.0


def test_batches_of_one_round_that_would_be_refused_alike_are_not_submitted(tmp_path: Path) -> None:
    clock = FakeClock()
    manager = FakeManager(clock, lambda _job, _attempt: AttemptOutcome(run_s=10.0))
    executor = _Executor(manager, limits=Limits(max_batch=1))
    executor.drained = {"a": 1}
    run = write_run(tmp_path / "run", {f"a_{number}": () for number in range(5)})
    made = Engine(run, executor, EngineSettings(), clock=clock, by="submit", log_line=lambda _line: None)
    assert made.run() is JobState.SUCCEEDED
    assert len(executor.batches) == 6


def test_what_the_manager_says_late_counts_as_if_it_had_been_said_at_once(tmp_path: Path) -> None:
    made, executor, _, _ = engine(tmp_path)
    executor.late = Rejected("no such partition", hopeless=True)
    assert made.run() is JobState.FAILED
    assert sorted(member.name for batch in executor.batches for member in batch.members) == ["a_0", "a_1", "a_3"]
    assert all(member.attempt == 1 for batch in executor.batches for member in batch.members)


def test_a_refusal_for_all_ends_the_run_at_once(tmp_path: Path) -> None:
    made, executor, run, said = engine(tmp_path, limits=Limits(max_active=1))
    executor.refuses = "a_0"
    assert made.run() is JobState.FAILED
    assert "the engine ends the run: no such partition" in said
    (failed,) = [event for event in read_events(run.journal) if isinstance(event, Failed)]
    assert (failed.j, failed.why) == (
        0,
        "the workload manager refused the job, and refuses all others: no such partition",
    )
    totals = {state: number for state, number in made.state.count_states().items() if number}
    assert totals == {JobState.FAILED: 1, JobState.PRUNED: 1, JobState.DELETED: 2}
    # It was tried once, whatever the number of retries is.
    assert len(executor.batches) == 1


def test_a_note_is_shown_while_it_is_told(tmp_path: Path) -> None:
    made, executor, run, said = engine(tmp_path)
    executor.note = "nobody answers"
    assert made.run() is JobState.SUCCEEDED
    assert said.count("nobody answers") == 1
    snapshot = read_snapshot(run)
    assert snapshot is not None
    assert "nobody answers" in snapshot.note


def test_reasons_to_wait_are_left_to_readers(tmp_path: Path) -> None:
    made, executor, run, _ = engine(tmp_path)
    executor.waiting = WaitReasons(reasons={"Priority": (1,)})
    made.run()
    assert read_waiting(run).reasons == {"Priority": (1,)}


def test_no_more_is_handed_over_than_there_are_openings(tmp_path: Path) -> None:
    made, executor, _, _ = engine(tmp_path)
    executor.opens = 1
    assert made.run() is JobState.SUCCEEDED
    # None was handed over in the round of another.
    assert len(executor.rounds) == len(set(executor.rounds)) == 4


def test_batches_say_how_urgent_they_are(tmp_path: Path) -> None:
    made, executor, _, _ = engine(tmp_path, limits=Limits(max_batch=2))
    made.run()
    urgent = {batch.members[0].name: batch.urgency for batch in executor.batches}
    first, other = urgent["a_0"], urgent["a_3"]
    assert first is not None
    assert other is not None
    assert first.pressure_s == 2 * other.pressure_s
    assert first.end_at >= first.pressure_s


def test_limits_may_change_while_a_run_goes_on(tmp_path: Path) -> None:
    made, executor, _, _ = engine(tmp_path, limits=Limits(max_batch=10))
    executor.limits = Limits(max_batch=2)
    made.run()
    assert max(len(batch.members) for batch in executor.batches) == 2
