"""Which notices are due: each event once between a start and an end, in order, also after a notifier died."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.model.notice import NoticeEvent, NoticeRecord, NoticeRule
from longshore.model.report import RunReport
from longshore.model.states import JobState
from longshore.rundir.notices import RunPhase, due_events, unsent

START, FIRST, HOLD, STOPPED, END = NoticeEvent


def report(*, paused: bool = False, **counts: int) -> RunReport:
    numbers = {JobState(state): number for state, number in counts.items()}
    return RunReport(
        id="b1",
        name="mosaic",
        path="/runs/mosaic",
        service="local",
        state=JobState.RUNNING,
        expected=sum(numbers.values()),
        counts=numbers,
        labels={},
        paused=paused,
    )


def seen(*events: NoticeEvent, life: int = 1) -> list[NoticeRecord]:
    return [NoticeRecord(at=0.0, event=event, life=life) for event in events]


@pytest.mark.parametrize(
    ("given_report", "phase", "known", "life", "due"),
    [
        (report(RUNNING=1), RunPhase.LIVE, [], 1, [START]),
        (report(RUNNING=1), RunPhase.LIVE, seen(START), 1, []),
        (report(RUNNING=1, FAILED=1), RunPhase.LIVE, seen(START), 1, [FIRST]),
        (report(FAILED=1), RunPhase.OVER, [], 1, [START, FIRST, END]),
        (report(RUNNING=1, HELD=1), RunPhase.LIVE, seen(START), 1, [HOLD]),
        (report(RUNNING=1, paused=True), RunPhase.LIVE, seen(START), 1, [HOLD]),
        (report(HELD=1), RunPhase.OVER, seen(START, HOLD), 1, [END]),
        (report(RUNNING=1), RunPhase.STOPPED, seen(START), 1, [STOPPED]),
        (report(RUNNING=1), RunPhase.STOPPED, seen(START, STOPPED), 1, []),
        (report(RUNNING=1), RunPhase.STOPPED, seen(START, STOPPED), 2, [STOPPED]),
        (report(RUNNING=1), RunPhase.LIVE, seen(START, STOPPED), 2, []),
        (report(SUCCEEDED=1), RunPhase.OVER, seen(START, END), 1, []),
        (report(FAILED=1), RunPhase.OVER, seen(START, FIRST, END), 2, [START, FIRST, END]),
        (report(RUNNING=1), RunPhase.LIVE, seen(START, FIRST, END), 2, [START]),
    ],
)
def test_events_are_due_once(
    given_report: RunReport, phase: RunPhase, known: list[NoticeRecord], life: int, due: list[NoticeEvent]
) -> None:
    assert due_events(given_report, phase, known, life) == due


looks = st.lists(
    st.tuples(st.sampled_from(list(RunPhase)), st.booleans(), st.booleans(), st.integers(0, 1)), min_size=1, max_size=12
)


@given(looks)
def test_no_event_is_told_twice_in_one_life(given_looks: list[tuple[RunPhase, bool, bool, int]]) -> None:
    records: list[NoticeRecord] = []
    life = 1
    for phase, fails, holds, step in given_looks:
        life += step
        counts = {"RUNNING": 1, "FAILED": int(fails), "HELD": int(holds)}
        records += seen(*due_events(report(paused=False, **counts), phase, records, life), life=life)
        again = due_events(report(paused=False, **counts), phase, records, life)
        assert again == [], "a look that follows at once finds nothing new"
    told = [(record.event, record.life) for record in records if record.event in {STOPPED, END}]
    assert len(told) == len(set(told))
    ends = [index for index, record in enumerate(records) if record.event is END]
    for begin, end in zip([0, *(index + 1 for index in ends)], [*ends, len(records)], strict=True):
        events = [record.event for record in records[begin:end] if record.event is not STOPPED]
        assert len(events) == len(set(events)), "once between two ends"


def event(what: NoticeEvent, *rules: str, life: int = 1) -> NoticeRecord:
    return NoticeRecord(at=0.0, event=what, life=life, rules=rules)


RULES = (NoticeRule(name="a", events=(START, END), command="x"), NoticeRule(name="b", events=(END,), command="x"))


def test_rules_are_carried_out_that_a_dead_notifier_left() -> None:
    known = [
        event(START, "a"),
        NoticeRecord(at=0.0, event=START, life=1, rule="a", is_sent=True),
        event(END, "a", "b"),
        NoticeRecord(at=0.0, event=END, life=1, rule="a", why="it hung"),
    ]
    assert [(rule.name, what) for rule, what in unsent(RULES, known)] == [("b", END)]


def test_a_rule_that_was_written_later_does_not_tell_what_was_before() -> None:
    known = [event(END, "a"), NoticeRecord(at=0.0, event=END, life=1, rule="a", is_sent=True)]
    assert list(unsent(RULES, known)) == []


def test_a_second_start_is_told_again() -> None:
    known = [event(START, "a"), NoticeRecord(at=0.0, event=START, life=1, rule="a"), event(START, "a", life=2)]
    assert [(rule.name, what) for rule, what in unsent(RULES, known)] == [("a", START)]


def test_nothing_is_left_where_nothing_was_seen() -> None:
    assert list(unsent(RULES, [])) == []


def test_each_event_without_a_result_is_left() -> None:
    known = [event(START, "a", "b"), NoticeRecord(at=0.0, event=START, life=1, rule="b"), event(END, "a", "b")]
    assert [(rule.name, what) for rule, what in unsent(RULES, known)] == [("a", START), ("a", END), ("b", END)]


def test_a_result_that_comes_after_a_restart_is_that_of_the_earlier_event() -> None:
    known = [event(START, "a"), event(START, "a", life=2), NoticeRecord(at=0.0, event=START, life=1, rule="a")]
    assert [(rule.name, what) for rule, what in unsent(RULES, known)] == [("a", START)]
