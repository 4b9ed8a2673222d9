"""Events of an earlier submission, read with the job numbers of a later one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.model.event import (
    Deleted,
    Ended,
    Event,
    Failed,
    Finished,
    JobMap,
    Life,
    Lost,
    Refused,
    Restarted,
    Retry,
    Started,
    Steer,
    Submitted,
    Submitting,
    translate_events,
)
from longshore.model.states import Cause, JobState

LIFE = Life(v=1, life=1, t=0.0, host="h", pid=1, boot="b", by="submit")
FINISHED = Finished(state=JobState.FAILED)
SWAPPED = JobMap({0: 2, 1: 0, 3: 1}, {0: 1, 2: 0})
"""Job 2 and label 1 are gone."""

numbers = st.integers(0, 9)
pairs = st.lists(st.tuples(numbers, st.integers(1, 3)), min_size=1, max_size=4).map(tuple)
some = st.lists(numbers, min_size=1, max_size=4).map(tuple)
events = st.one_of(
    st.builds(Submitting, n=numbers, b=st.just("1.1"), tag=st.just("t"), jobs=pairs),
    st.builds(Submitted, b=st.just("1.1"), id=st.just("1")),
    st.builds(Refused, b=st.just("1.1"), why=st.just("full"), jobs=st.none() | pairs),
    st.builds(Started, j=numbers, a=numbers),
    st.builds(Ended, j=numbers, a=numbers, exit=st.just(0)),
    st.builds(Lost, j=numbers, a=numbers, why=st.just("gone")),
    st.builds(Retry, j=numbers, a=numbers, cause=st.just(Cause.EXIT)),
    st.builds(Failed, j=numbers, why=st.just("no attempt is left")),
    st.builds(Steer, who=st.just("me"), act=st.just("hold"), jobs=st.none() | some, labels=st.just(()) | some),
    st.builds(Deleted, jobs=some),
    st.builds(Restarted, jobs=some),
    st.just(LIFE),
    st.just(FINISHED),
)
maps = st.permutations(range(10)).flatmap(
    lambda order: st.sets(numbers).map(lambda gone: {old: new for old, new in enumerate(order) if old not in gone})
)
job_maps = st.builds(JobMap, maps, maps)

TRANSLATIONS: list[tuple[Event, Event | None]] = [
    (Started(j=0, a=1), Started(j=2, a=1)),
    (Ended(j=2, a=1, exit=1), None),
    (Submitting(b="1", tag="t", jobs=((0, 1), (2, 1))), Submitting(b="1", tag="t", jobs=((2, 1),))),
    (Submitting(b="1", tag="t", jobs=((2, 1),)), None),
    (
        Submitting(b="1", tag="t", jobs=((0, 1), (3, 1)), ids={3: {"gpus": ("1",)}}),
        Submitting(b="1", tag="t", jobs=((2, 1), (1, 1)), ids={1: {"gpus": ("1",)}}),
    ),
    (Refused(b="1", why="full"), Refused(b="1", why="full")),
    (Refused(b="1", why="full", jobs=((2, 1),)), None),
    (Steer(who="me", act="pause"), Steer(who="me", act="pause")),
    (Steer(who="me", act="hold", jobs=(1, 2)), Steer(who="me", act="hold", jobs=(0,))),
    (Steer(who="me", act="hold", jobs=(2,)), None),
    (Steer(who="me", act="throttle", labels=(0, 1)), Steer(who="me", act="throttle", labels=(1,))),
    (Steer(who="me", act="throttle", labels=(1,)), None),
    (Deleted(jobs=(2,)), None),
    (Restarted(jobs=(2,)), Restarted(jobs=())),
    (LIFE, LIFE),
    (FINISHED, FINISHED),
]


@pytest.mark.parametrize(("event", "expected"), TRANSLATIONS, ids=lambda each: type(each).__name__)
def test_an_event_gets_the_later_numbers(event: Event, expected: Event | None) -> None:
    assert list(translate_events([event], SWAPPED)) == ([] if expected is None else [expected])


@given(events=st.lists(events))
def test_equal_numbers_change_nothing(events: list[Event]) -> None:
    same = {number: number for number in range(10)}
    assert list(translate_events(events, JobMap(same, same))) == events


@given(events=st.lists(events), first=job_maps, second=job_maps)
def test_a_map_then_another_translates_as_both_in_turn(events: list[Event], first: JobMap, second: JobMap) -> None:
    in_turn = translate_events(translate_events(events, first), second)
    assert list(translate_events(events, first.then(second))) == list(in_turn)
