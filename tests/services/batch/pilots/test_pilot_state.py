"""What the engine makes of a pilot's records: events, attempts that come back, and orders of earlier lives."""

from __future__ import annotations

from longshore.keeper.protocol import ReapingRecord, StartRecord
from longshore.model.event import Ended, Lost, Started
from longshore.services.batch.pilots.pilot_state import (
    AttemptsGivenBack,
    AttemptsGot,
    GenerationTaken,
    OlderHandOver,
    PilotBegun,
    PilotClosed,
    PilotState,
    decode_news,
)

_BEGUN = PilotBegun(node=0, host="n7", cpus=2, memory=100, until=60.0)


def begun_state(generation: int = 1) -> PilotState:
    """Return the state of a pilot that has begun."""
    state = PilotState(generation)
    state.apply(_BEGUN)
    return state


def returned(state: PilotState) -> list[tuple[int, int]]:
    """Return the attempts that came back."""
    return [attempt for attempt, _ in state.returned]


def test_records_of_a_pilot_become_events() -> None:
    state = begun_state()
    state.hand([(4, 1)], tag="t", kind=1, end=10)
    text = (
        b'{"r":"got","m":[[4,1]],"c":"0"}\n'
        b'{"r":"start","j":4,"a":1,"pid":9,"t":5.0,"up":1.0,"c":"0"}\n'
        b'{"r":"end","j":4,"a":1,"t":7.0,"s":256,"run":2.0,"c":"0"}\n'
    )
    for record in decode_news(text):
        state.apply(record)
    (_, started), (tag, ended) = state.events
    assert isinstance(started, Started)
    assert started.host == "n7"
    assert isinstance(ended, Ended)
    assert (tag, ended.exit, ended.run_s) == ("t", 1, 2.0)
    assert (state.attempts, state.run_times) == ({}, [(1, 2.0)])


def test_a_record_of_a_newer_version_is_left_out() -> None:
    text = b'{"r":"weather","m":1}\n{"r":"got","m":[[4,1]]}\n'
    assert decode_news(text) == [AttemptsGot(((4, 1),))]


def test_a_pilot_that_is_gone_lost_what_it_got() -> None:
    state = begun_state()
    state.hand([(1, 1), (2, 1), (3, 1)], tag="t", kind=1, end=10)
    state.apply(AttemptsGot(((1, 1), (2, 1))))
    state.apply(StartRecord(j=2, a=1, pid=9, t=5.0, up=1.0))
    state.apply(ReapingRecord(j=2, a=1, t=6.0, s=0))
    state.events.clear()
    state.finish("its node died")
    lost, ended = (event for _, event in state.events)
    assert isinstance(lost, Lost)
    assert (lost.j, lost.why) == (1, "its node died")
    assert isinstance(ended, Ended)
    assert (ended.j, ended.exit) == (2, 0)
    assert returned(state) == [(3, 1)]


def test_what_waits_is_lost_if_the_records_are_damaged() -> None:
    state = begun_state()
    state.hand([(3, 1)], tag="t", kind=1, end=10)
    state.finish("its node died", is_damaged=True)
    assert [event.j for _, event in state.events] == [3]
    assert returned(state) == []


def test_an_attempt_that_was_got_can_be_given_back() -> None:
    state = begun_state()
    state.hand([(3, 1)], tag="t", kind=1, end=10)
    state.apply(AttemptsGot(((3, 1),)))
    assert state.waiting_count == 0
    state.apply(AttemptsGivenBack(((3, 1),)))
    state.apply(PilotClosed("idle"))
    assert returned(state) == [(3, 1)]
    assert (state.events, state.waiting_count) == ([], 0)


def test_a_start_that_failed_for_a_passing_reason_costs_no_attempt() -> None:
    state = begun_state()
    state.hand([(3, 1)], tag="t", kind=1, end=10)
    for record in decode_news(b'{"r":"end","j":3,"a":1,"t":7.0,"no":28,"err":"disk full","own":true}\n'):
        state.apply(record)
    assert [(attempt, why) for attempt, _, why in state.failed] == [((3, 1), "disk full")]
    assert state.events == []


def test_orders_that_a_pilot_did_not_take_before_it_switched_never_start() -> None:
    state = begun_state(generation=2)
    state.extend_older(1, [OlderHandOver((1, 1), "t", 100), OlderHandOver((2, 1), "t", 200)])
    answers = [state.has_answered]
    state.apply(GenerationTaken(2, 1, 100))
    answers.append(state.has_answered)
    assert answers == [False, True]
    assert set(state.attempts) == {(1, 1)}
    assert returned(state) == [(2, 1)]


def test_an_attempt_that_was_handed_again_counts_once_more() -> None:
    state = begun_state(generation=2)
    state.extend_older(1, [OlderHandOver((1, 1), "t1", 100), OlderHandOver((1, 1), "t2", 200)])
    state.apply(AttemptsGivenBack(((1, 1),)))
    assert (returned(state), state.attempts[1, 1].tag) == ([], "t2")
    state.apply(AttemptsGivenBack(((1, 1),)))
    assert returned(state) == [(1, 1)]


def test_orders_of_a_later_life_count_from_the_switch_on() -> None:
    state = begun_state(generation=3)
    state.extend_older(1, [OlderHandOver((1, 1), "t1", 100)])
    state.extend_older(2, [OlderHandOver((1, 2), "t2", 50)])
    # By the orders of the first life; that of the second life is another attempt.
    state.apply(AttemptsGot(((1, 1), (1, 2))))
    state.apply(GenerationTaken(2, 1, 100))
    assert set(state.attempts) == {(1, 1), (1, 2)}
    assert state.waiting() == [(1, 2)]


def test_a_pilot_that_was_told_to_end_takes_no_more() -> None:
    state = begun_state(generation=2)
    state.extend_older(1, [], has_end=True)
    assert state.is_ending


def test_a_pilot_without_older_orders_has_nothing_to_tell() -> None:
    state = PilotState(3)
    answers = [state.has_answered]
    # Now it may have taken what another engine orders.
    state.apply(_BEGUN)
    answers.append(state.has_answered)
    assert answers == [True, False]
    state.apply(GenerationTaken(4, 2, 0))
    assert state.is_superseded
