"""What is seen of a graph that Slurm runs by itself becomes the events that an engine would have told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.errors import ConfigError
from longshore.model.event import Deleted, Ended, Event, Finished, Lost, Started
from longshore.model.states import Cause, JobState
from longshore.model.workflow import Request
from longshore.runstate.apply_events import apply_event
from longshore.runstate.run_state import RunState
from longshore.services.batch.native.native_run import find_missing_events
from longshore.services.batch.native.observe import Cancellation, ObservedJob, derive_events, group_arrays
from longshore.services.batch.records import BatchRecord
from longshore.services.batch.settings import wants_native
from longshore.services.slurm.dialect import dependency_value

DIAMOND = ((), (0,), (0,), (1, 2))
ME = Cancellation(who="me", at=9.0)


def observed_job(job: int, outcome: str) -> ObservedJob:
    """One job: it waits, runs, ended well or badly, was cancelled or is lost."""
    ends: dict[str, Ended | Lost] = {
        "well": Ended(j=job, a=1, exit=0, start=1.0, end=2.0, t=2.0),
        "badly": Ended(j=job, a=1, exit=3, cause=Cause.EXIT, t=2.0),
        "cancelled": Ended(j=job, a=1, cause=Cause.CANCELLED, t=3.0),
        "lost": Lost(j=job, a=1, why="gone", t=3.0),
    }
    return ObservedJob(tag="t", id=str(job), at=0.5, request=Request(), began=outcome == "runs", end=ends.get(outcome))


def folded(
    parents: Any, outcomes: list[str], *, final: bool = False, cancelled: Cancellation | None = None
) -> tuple[RunState, list[Event]]:
    last = len(parents) - 1 if final else -1
    events = list(
        derive_events(parents, last, {job: observed_job(job, word) for job, word in enumerate(outcomes)}, cancelled)
    )
    state = RunState(parents, [0] * len(parents), final=final)
    for event in events:
        apply_event(state, event)
    return state, events


def counts(state: RunState) -> dict[JobState, int]:
    return {name: number for name, number in state.count_states().items() if number}


def test_a_run_that_goes_well() -> None:
    state, _ = folded(DIAMOND, ["well"] * 4)
    assert (state.is_over, state.compute_state()) == (True, JobState.SUCCEEDED)


def test_what_waits_for_its_parents_is_not_ready_and_what_need_not_is_pending() -> None:
    state, _ = folded(DIAMOND, ["well", "waits", "runs", "waits"])
    assert counts(state) == {
        JobState.UNREADY: 1,
        JobState.PENDING: 1,
        JobState.RUNNING: 1,
        JobState.SUCCEEDED: 1,
    }


@pytest.mark.parametrize("bad", ["badly", "cancelled", "lost"])
def test_what_descends_from_a_failure_is_pruned(bad: str) -> None:
    state, events = folded(DIAMOND, ["well", bad, "well", "cancelled"])
    assert state.is_over
    own = JobState.DELETED if bad == "cancelled" else JobState.FAILED
    assert counts(state) == {JobState.SUCCEEDED: 2, own: 1, JobState.PRUNED: 1}
    assert not any(getattr(event, "j", None) == 3 for event in events), "that Slurm cancelled it is no news"


def test_the_final_job_waits_for_all_and_runs_whatever_became_of_them() -> None:
    parents = (*DIAMOND, ())
    state, _ = folded(parents, ["well", "badly", "well", "cancelled", "well"], final=True)
    assert (state.is_over, counts(state)[JobState.SUCCEEDED]) == (True, 3)
    state, _ = folded(parents, ["well", "badly", "runs", "cancelled", "waits"], final=True)
    assert not state.is_over
    assert counts(state)[JobState.UNREADY] == 1


def test_a_cancelled_run() -> None:
    state, _ = folded(DIAMOND, ["well", "cancelled", "lost", "cancelled"], cancelled=ME)
    assert (state.is_over, state.compute_state()) == (True, JobState.DELETED)
    assert counts(state) == {JobState.SUCCEEDED: 1, JobState.DELETED: 3}
    state, _ = folded((*DIAMOND, ()), ["cancelled"] * 4 + ["well"], final=True, cancelled=ME)
    assert counts(state) == {JobState.SUCCEEDED: 1, JobState.DELETED: 4}
    whole = Cancellation(who="me", at=9.0, final_too=True)
    state, _ = folded((*DIAMOND, ()), ["cancelled"] * 5, final=True, cancelled=whole)
    assert counts(state) == {JobState.DELETED: 5}


WORDS = ("waits", "runs", "well", "badly", "cancelled", "lost")


@given(st.data())
def test_any_graph_and_any_ends_can_be_told(data: Any) -> None:
    size = data.draw(st.integers(1, 8))
    parents = [
        tuple(sorted(data.draw(st.sets(st.integers(0, job - 1), max_size=3)))) if job else () for job in range(size)
    ]
    outcomes = data.draw(st.lists(st.sampled_from(WORDS), min_size=size, max_size=size))
    state, _ = folded(parents, outcomes)
    begun = {job for job in range(size) if state.attempts[job]}
    for job in begun:
        assert all(outcomes[parent] == "well" and parent in begun for parent in parents[job])
    still = [job for job in begun if outcomes[job] in ("waits", "runs")]
    assert state.is_over is (not still)


def test_dependencies_name_arrays_where_all_of_one_is_meant() -> None:
    array = BatchRecord(tag="a", name="a", members=((0, 1), (1, 1), (2, 1)), at=0.0, id=7)
    single = BatchRecord(tag="b", name="b", members=((3, 1),), at=0.0, id=9)
    records = {0: (array, 0), 1: (array, 1), 2: (array, 2), 3: (single, 0)}
    assert dependency_value([(0, 1, 2, 3)], records) == "afterok:7:9"
    assert dependency_value([(1, 3), (1, 3)], records) == "afterok:7_1:9"
    assert dependency_value([(1,)], records) == "afterok:7_1"
    assert dependency_value([()], records) == ""


def test_arrays_whose_members_correspond_wait_for_each_other_one_by_one() -> None:
    array = BatchRecord(tag="a", name="a", members=((0, 1), (1, 1)), at=0.0, id=7)
    other = BatchRecord(tag="b", name="b", members=((2, 1), (3, 1)), at=0.0, id=9)
    records = {0: (array, 0), 1: (array, 1), 2: (other, 0), 3: (other, 1)}
    assert dependency_value([(0, 2), (1, 3)], records) == "aftercorr:7:9"


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        # Three that wait for nothing, one after each, and one after all.
        (
            [(0, ()), (0, ()), (0, ()), (1, (0,)), (1, (1,)), (1, (2,)), (2, (3, 4, 5))],
            [[0, 1, 2], [3, 4, 5], [6]],
        ),
        # Two after the same are an array by themselves.
        ([(0, ()), (0, ()), (1, (0,)), (1, (0,)), (1, (1,)), (1, (1,))], [[0, 1], [2, 3], [4, 5]]),
        # One of them has no child: those behind it are out of place.
        ([(0, ()), (0, ()), (0, ()), (1, (0,)), (1, (2,))], [[0, 1, 2], [3], [4]]),
        # Two chains of which one is told after the other.
        ([(0, ()), (1, (0,)), (0, ()), (1, (2,))], [[0, 2], [1], [3]]),
        # Each waits for two.
        ([(0, ()), (0, ()), (1, ()), (1, ()), (2, (0, 2)), (2, (1, 3))], [[0, 1], [2, 3], [4, 5]]),
    ],
)
def test_what_goes_as_one_array(keys: list[tuple[int, tuple[int, ...]]], found: list[list[int]]) -> None:
    assert group_arrays(keys, [True] * len(keys), 1000) == found


def test_arrays_are_no_larger_than_allowed_and_without_those_that_go_alone() -> None:
    keys: list[tuple[int, tuple[int, ...]]] = [(0, ())] * 5
    assert group_arrays(keys, [True, True, False, True, True], 2) == [[0, 1], [2], [3, 4]]


@given(st.data())
def test_arrays_come_after_all_that_their_members_wait_for(data: Any) -> None:
    size = data.draw(st.integers(1, 12))
    keys = [
        (data.draw(st.integers(0, 1)), tuple(sorted(data.draw(st.sets(st.integers(0, job - 1), max_size=2)))))
        if job
        else (0, ())
        for job in range(size)
    ]
    found = group_arrays(keys, data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), 3)
    assert sorted(job for group in found for job in group) == list(range(size))
    place = {job: (number, at) for number, group in enumerate(found) for at, job in enumerate(group)}
    for number, group in enumerate(found):
        assert len(group) <= 3
        assert len({keys[job][0] for job in group}) == 1
        for at, job in enumerate(group):
            above = [place[parent] for parent in keys[job][1]]
            assert all(before < number for before, _ in above)
            # Either all wait for the same, or each for what is at its own place of larger arrays.
            if keys[job][1] != keys[group[0]][1]:
                assert all(there == at and len(found[before]) > 1 for before, there in above)


def test_who_wants_it() -> None:
    assert not wants_native("slurm", {})
    assert wants_native("slurm", {"slurm": {"mode": "native"}})
    with pytest.raises(ConfigError, match="must be 'engine' or 'native', not 'dag'"):
        wants_native("slurm", {"slurm": {"mode": "dag"}})
    with pytest.raises(ConfigError, match="means nothing"):
        wants_native("slurm", {"slurm": {"mode": "native", "engineAs": "job"}})


def test_a_second_collector_records_the_end_again_and_nothing_else_twice() -> None:
    end = Finished(state=JobState.SUCCEEDED, t=9.0)
    events: list[Event] = [Started(j=0, a=1, t=1.0), Ended(j=0, a=1, exit=0, t=2.0), end]
    assert find_missing_events(events, []) == events
    assert find_missing_events(events, events[:1]) == events[1:]
    assert find_missing_events(events, events) == [end], "a new life without it would not be over"


def test_a_job_that_runs_is_told_to_run_since_its_start_and_not_since_its_submission() -> None:
    waited = msgspec.structs.replace(observed_job(0, "runs"), started_at=3600.0)
    (started,) = [event for event in derive_events([()], -1, {0: waited}, None) if isinstance(event, Started)]
    assert (started.at, started.t) == (3600.0, 3600.0)


def test_a_job_that_a_person_removed_is_deleted() -> None:
    state, events = folded(((), (0,), ()), ["cancelled", "cancelled", "well"])
    assert counts(state) == {JobState.DELETED: 1, JobState.PRUNED: 1, JobState.SUCCEEDED: 1}
    assert [event.why for event in events if isinstance(event, Deleted)] == ["a person removed it"]
