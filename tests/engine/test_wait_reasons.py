"""Why jobs wait at the manager, how urgent they are, and how notes are told."""

from __future__ import annotations

from pathlib import Path

import msgspec

from longshore.contract.executor import Urgency, WaitReasons
from longshore.contract.service import RunPaths
from longshore.engine.run.progress import WaitNotes, WaitReasonsWriter, find_held_jobs
from longshore.engine.schedule.estimates import BatchUrgencies
from longshore.model.event import Life, Started, Submitting
from longshore.model.states import JobState
from longshore.rundir.run_directory import read_waiting
from longshore.runstate.apply_events import apply_event
from longshore.runstate.run_state import RunState, make_snapshot
from longshore.testing.fakes import FakeClock

HELD = WaitReasons(
    reasons={"JobHeldUser": (0, 2), "Priority": (1,)}, held=frozenset({"JobHeldUser"}), hint="release it"
)
LIFE = Life(v=1, life=1, t=0.0, host="h", pid=1, boot="b", by="submit")


def pending(size: int = 3) -> RunState:
    """Jobs that do not wait for each other, all handed over, each in a batch of its own."""
    state = RunState([()] * size, [0] * size)
    for job in range(size):
        apply_event(state, Submitting(b=f"b{job}", tag=f"b{job}", jobs=((job, 1),)))
    return state


def test_what_is_held_is_shown_as_that(tmp_path: Path) -> None:
    state = pending()
    waiting = WaitReasonsWriter(RunPaths(tmp_path), state)
    assert waiting.note == ""
    waiting.update(HELD)
    assert waiting.held == {0, 2}
    assert waiting.note == "2 jobs are held by the workload manager (JobHeldUser); release it"
    shown = make_snapshot(state, ["a"], life=LIFE, number=1, now=0.0, note="", held=waiting.held)
    assert (shown.counts[JobState.HELD], shown.counts[JobState.PENDING], shown.state) == (2, 1, JobState.RUNNING)
    assert shown.labels["a"] == shown.counts
    assert sum(shown.counts.values()) == 3


def test_what_moved_since_is_held_no_longer(tmp_path: Path) -> None:
    state = pending()
    waiting = WaitReasonsWriter(RunPaths(tmp_path), state)
    waiting.update(HELD)
    apply_event(state, Started(j=0, a=1))
    assert waiting.held == {2}
    assert waiting.note.startswith("1 job is held")
    assert find_held_jobs(HELD, state.code[:1]) == frozenset()


def test_what_is_held_after_its_start_is_shown_as_that(tmp_path: Path) -> None:
    state = pending()
    for job in (0, 2):
        apply_event(state, Started(j=job, a=1))
    waiting = WaitReasonsWriter(RunPaths(tmp_path), state)
    waiting.update(msgspec.structs.replace(HELD, requeued=frozenset({2})))
    # The other one was held when the manager answered, and has begun since.
    assert waiting.held == {2}
    shown = make_snapshot(state, ["a"], life=LIFE, number=1, now=0.0, note="", held=waiting.held)
    states = (JobState.HELD, JobState.RUNNING, JobState.PENDING)
    assert [shown.counts[each] for each in states] == [1, 1, 1]
    assert read_waiting(RunPaths(tmp_path)).requeued == {2}


def test_a_run_of_which_all_is_held_is_held(tmp_path: Path) -> None:
    state = pending(1)
    waiting = WaitReasonsWriter(RunPaths(tmp_path), state)
    waiting.update(HELD)
    assert make_snapshot(state, ["a"], life=LIFE, number=1, now=0.0, note="", held=waiting.held).state is JobState.HELD
    state.is_cancelled = True
    shown = make_snapshot(state, ["a"], life=LIFE, number=1, now=0.0, note="", held=waiting.held)
    assert shown.state is JobState.RUNNING


def test_readers_find_it_and_may_lose_it(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    assert read_waiting(run) == WaitReasons()
    waiting = WaitReasonsWriter(run, pending())
    waiting.update(HELD)
    assert read_waiting(run) == HELD
    (run.cache / "waiting.json").write_bytes(b"{")
    assert read_waiting(run) == WaitReasons()
    # What is not new is not written again.
    waiting.update(HELD)
    assert read_waiting(run) == WaitReasons()


def test_urgency_is_that_of_the_most_urgent_member() -> None:
    pressures = [5.0, 20.0, 7.0]
    urgencies = BatchUrgencies(pending(), pressures.__getitem__, lambda: 100.0)
    assert urgencies.urgency_of("b9", (0, 1), 1000.0) == Urgency(pressure_s=20.0, end_at=1100.0)
    late = BatchUrgencies(pending(), pressures.__getitem__, lambda: 1.0)
    # The end is that of the run, and so the same for all.
    assert [late.urgency_of("b9", (job,), 1000.0).end_at for job in (0, 1)] == [1020.0, 1020.0]


def test_only_what_moved_by_more_than_a_tenth_is_told_and_seldom() -> None:
    pressures = [100.0, 100.0, 100.0]
    state = pending()
    urgencies = BatchUrgencies(state, pressures.__getitem__, lambda: 0.0)
    assert urgencies.find_changes(0.0, 1000.0) == {}
    pressures[:] = [109.0, 120.0, 50.0]
    assert urgencies.find_changes(29.0, 1000.0) == {}
    apply_event(state, Started(j=2, a=1))
    told = urgencies.find_changes(30.0, 1000.0)
    assert told == {"b1": Urgency(pressure_s=120.0, end_at=1120.0)}
    assert urgencies.find_changes(60.0, 1000.0) == {}
    # Small steps add up.
    pressures[0] = 111.0
    assert list(urgencies.find_changes(90.0, 1000.0)) == ["b0"]


def test_notes_are_shown_while_they_hold_and_said_once() -> None:
    clock, said = FakeClock(), list[str]()
    notes = WaitNotes(clock, said.append)
    for _ in range(5):
        notes.begin("it pauses")
        notes.add("nobody answers")
        notes.add("two are held")
        assert str(notes) == "it pauses; nobody answers; two are held"
    assert said == ["it pauses", "nobody answers", "two are held"]
    notes.begin("")
    assert str(notes) == ""
    clock.advance(60.0)
    notes.add("nobody answers")
    assert said[3:] == ["nobody answers"]


def test_what_can_never_start_is_noted_with_its_mend(tmp_path: Path) -> None:
    state = pending()
    waiting = WaitReasonsWriter(RunPaths(tmp_path), state)
    waiting.update(
        WaitReasons(
            reasons={"JobHeldUser": (2,), "PartitionNodeLimit": (0, 1)},
            held=frozenset({"JobHeldUser"}),
            hopeless={"PartitionNodeLimit": "request fewer nodes"},
        )
    )
    assert waiting.note == (
        "1 job is held by the workload manager (JobHeldUser); "
        "2 jobs can never start (PartitionNodeLimit): request fewer nodes"
    )
    apply_event(state, Started(j=0, a=1))
    assert waiting.note.endswith("; 1 job can never start (PartitionNodeLimit): request fewer nodes")
    assert read_waiting(RunPaths(tmp_path)).hopeless == {"PartitionNodeLimit": "request fewer nodes"}
