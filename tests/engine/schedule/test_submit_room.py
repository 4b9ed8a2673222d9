"""Room at the workload manager: jobs that run in allocations have limits of their own."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from tests.engine.schedulers import make_scheduler

from longshore.contract.executor import Limits
from longshore.engine.schedule.lanes import SubmitRoom
from longshore.engine.schedule.scheduler import Scheduler, SchedulerProfile
from longshore.model.event import Started, Submitted, Submitting
from longshore.model.workflow import Request
from longshore.runstate.apply_events import apply_event
from longshore.runstate.run_state import RunState

LIMITS = st.none() | st.integers(0, 7)
SMALL, LARGE = Request(cpus=1), Request(cpus=64)


def both(state: RunState, limits: Limits, packed: Limits, profile_of: Sequence[int]) -> Scheduler:
    """A scheduler whose jobs with few processors run in allocations."""
    profiles = [
        SchedulerProfile(request=request, kind="k", is_packed=lambda request: request.cpus < 8)
        for request in (SMALL, LARGE)
    ]
    return make_scheduler(state, profiles, profile_of, limits=limits, packed_limits=packed)


def submit(state: RunState, chooser: Scheduler, *, at_most: int | None = None) -> list[Submitting]:
    """Submit what may be submitted now."""
    batches = chooser.next_batches(0.0, at_most=at_most)
    for batch in batches:
        apply_event(state, batch)
        apply_event(state, Submitted(b=batch.b, id=batch.b))
    return batches


def sizes(batches: list[Submitting]) -> dict[int, list[int]]:
    """Members of each batch, by processors."""
    found: dict[int, list[int]] = {1: [], 64: []}
    for batch in batches:
        assert batch.request is not None
        found[batch.request.cpus].append(len(batch.jobs))
    return found


def independent(size: int) -> RunState:
    return RunState([[] for _ in range(size)], [0] * size)


@given(
    st.builds(Limits, max_waiting=LIMITS, max_active=LIMITS, max_waiting_alike=LIMITS),
    st.booleans(),
    st.sampled_from([None, 0, 1]),
    st.integers(0, 6),
)
def test_there_is_room_for_as_many_as_can_be_added_one_by_one(
    limits: Limits, packed: bool, at_most: int | None, most: int
) -> None:
    room = SubmitRoom(Limits() if packed else limits)
    if packed:
        room.packed_limits = limits
        room.packed_buckets.add("b")
    room.begin_round(2, 3, at_most=at_most)
    number = room.count_room("b", most)
    for _ in range(number):
        assert room.has_room("b")
        room.add("b")
    assert number == most or not room.has_room("b")


def test_packed_jobs_do_not_count_for_the_limits_of_others() -> None:
    state = independent(20)
    limits = Limits(max_batch=2, max_waiting=3, max_active=4, max_waiting_alike=3)
    chooser = both(state, limits, Limits(max_batch=8, max_waiting=9), [job % 2 for job in range(20)])
    assert sizes(submit(state, chooser)) == {1: [8, 1], 64: [2, 1]}
    assert submit(state, chooser) == []
    for job in (0, 1):
        apply_event(state, Started(j=job, a=1))
    # One more of each may wait; of the large ones, four may be active.
    assert sizes(submit(state, chooser)) == {1: [1], 64: [1]}
    for job in (3, 5, 7):
        apply_event(state, Started(j=job, a=1))
    assert submit(state, chooser) == []


def test_packed_batches_do_not_count_for_the_submissions_of_a_round() -> None:
    state = independent(20)
    chooser = both(state, Limits(max_batch=2), Limits(max_batch=5), [job % 2 for job in range(20)])
    assert sizes(submit(state, chooser, at_most=0)) == {1: [5, 5], 64: []}
    assert sizes(submit(state, chooser, at_most=2)) == {1: [], 64: [2, 2]}


def test_jobs_of_one_profile_whose_request_grew_are_not_packed() -> None:
    state = independent(2)
    chooser = both(state, Limits(max_batch=5), Limits(max_batch=5), [0, 0])
    state.requests[1] = LARGE
    assert sizes(submit(state, chooser)) == {1: [1], 64: [1]}


def test_without_packed_jobs_all_count() -> None:
    room = SubmitRoom(Limits(max_waiting=2, max_active=4))
    assert not room.needs_buckets
    room.begin_round(1, 3, at_most=1)
    assert room.has_room("any")
    room.add("any")
    assert not room.has_room("other")
    room.begin_round(0, 3, at_most=1)
    room.add_batch("any")
    assert not room.has_room("any")
    room.begin_round(0, 4, at_most=None)
    assert not room.has_room("any")
