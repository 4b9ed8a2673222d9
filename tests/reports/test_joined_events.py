"""Joined events give the same state, counts and newest attempts as the events that they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import example, given
from tests.engine.simulation import Simulation
from tests.reports.histories import Step, history, steps_of_runs

from longshore.model.event import (
    AttemptFacts,
    AttemptSucceeded,
    BriefEvent,
    Ended,
    Event,
    Refused,
    Started,
    Steer,
    Submitted,
    Submitting,
)
from longshore.reports.attempts import AttemptCollector, NewestAttempts
from longshore.reports.job_reports import ReplayedJobReports, ReplayedJobs
from longshore.reports.join_successes import SuccessJoiner
from longshore.rundir.job_table import JobTable
from longshore.runstate.apply_events import apply_event, apply_events
from longshore.runstate.replay import initial_state
from longshore.runstate.run_state import JOB_STATES
from longshore.testing.fakes import AttemptOutcome


def joined(events: Iterable[BriefEvent], *, pieces: int = 7) -> list[BriefEvent]:
    """Join events as a reader does, some at a time."""
    joiner, every = SuccessJoiner(), list(events)
    found: list[BriefEvent] = []
    for begin in range(0, len(every), pieces):
        found += joiner.join(every[begin : begin + pieces])
    return [*found, *joiner.release()]


def summary(table: JobTable, events: Sequence[BriefEvent], *, at_once: bool = False) -> list[object]:
    """Everything that a report uses of events, which are applied one by one or at once."""
    state = initial_state(table)
    if at_once:
        apply_events(state, events)
    else:
        for event in events:
            apply_event(state, event)
    newest = NewestAttempts(len(table))
    attempts = AttemptCollector(table.label_of, len(table.labels), newest=newest)
    attempts.add(events)
    reports = ReplayedJobReports(
        ReplayedJobs(
            state=state,
            attempts=newest,
            names=table.names,
            labels=table.labels,
            shown=list(JOB_STATES.values()),
            not_retried=attempts.failed,
        )
    )
    rows = list(reports.values(lambda at: at))
    assert rows == [reports.values_of(job) for job in range(len(table))]
    return [
        rows,
        *(list(values) for values in (state.code, state.attempts, state.tries, state.waiting)),
        *(state.counts, state.active, sorted(state.batches), state.undecided_ends, state.last_end),
        [(newest.start(job, state.attempts[job]), newest.end(job, state.attempts[job])) for job in range(len(table))],
        *(list(values) for values in (attempts.run_s, attempts.ended_at, attempts.busy_s, attempts.peak_memory_b)),
        *(attempts.running, attempts.failed, attempts.failed_ends, attempts.badput, attempts.first_start),
        *(attempts.over, attempts.finished, attempts.life),
    ]


@pytest.mark.parametrize("seed", range(6))
def test_a_run_is_the_same_from_joined_events_at_any_moment(seed: int, tmp_path: Path) -> None:
    dice = Random(seed)
    names = [f"{label}_{number}" for label in "abc" for number in range(5)]
    parents = {
        name: [names[dice.randrange(place)]] if place and dice.random() < 0.6 else []
        for place, name in enumerate(names)
    }

    def outcome(_job: int, attempt: int) -> AttemptOutcome:
        return AttemptOutcome(
            run_s=dice.choice((0.5, 3.0, 20.0)),
            exit=int(dice.random() < (0.3 if attempt == 1 else 0.0)),
            lost=dice.random() < 0.1,
            start_delay_s=dice.choice((0.0, 0.0, 5.0)),
        )

    profiles = {label: {"number_of_retries": 1} for label in "abc"}
    sim = Simulation(tmp_path, parents, outcome, written={"profiles": profiles}, capacity={"cpus": 3})
    sim.engine().run()
    table, events = JobTable(sim.run, "parents"), sim.events()
    assert any(isinstance(event, AttemptSucceeded) for event in joined(events))
    for end in range(0, len(events) + 1, 3):
        assert summary(table, joined(events[:end]), at_once=True) == summary(table, events[:end])


def in_any_order(found: Iterable[object]) -> list[object]:
    """What a summary has, with maps in the order of their keys."""
    return [sorted(each.items()) if isinstance(each, dict) else each for each in found]


@given(steps_of_runs)
@example([("submitting", 0, 1), ("started", 0, 1), ("started", 0, 1)])
@example([("submitting", 0, 1), ("started", 0, 1), ("submitting", 0, 2), ("ended", 0, 2)])
def test_any_history_is_the_same_from_joined_events(table: JobTable, steps: list[Step]) -> None:
    events = history(*steps)
    assert in_any_order(summary(table, joined(events))) == in_any_order(summary(table, events))


BATCH = Submitting(n=1, t=1.0, b="x", tag="x", jobs=((0, 1), (1, 1)))
ANSWER = Submitted(n=2, t=2.0, b="x", id="7")
STARTS = [Started(n=3, t=3.0, j=0, a=1, at=2.5, host="h"), Started(n=4, t=3.0, j=1, a=1)]
SUCCESS = Ended(n=5, t=5.0, j=0, a=1, exit=0, end=4.5, run_s=2.0, rss_b=9)


def test_a_success_is_one_event_with_its_host_and_end() -> None:
    found = joined([BATCH, ANSWER, *STARTS, SUCCESS])
    assert found == [
        AttemptSucceeded(j=0, a=1, at=2.5, t=5.0, run_s=2.0, rss_b=9, host="h", end=4.5),
        Submitting(n=1, t=1.0, b="x", tag="x", jobs=((1, 1),)),
        ANSWER,
        STARTS[1],
    ]


def test_events_of_the_whole_run_have_all_others_before_them() -> None:
    steer = Steer(n=6, t=6.0, who="ada", act="cancel")
    later: list[Event] = [SUCCESS]
    assert joined([BATCH, ANSWER, *STARTS, steer, *later]) == [BATCH, ANSWER, *STARTS, steer, *later]
    refused = Refused(n=3, t=3.0, b="x", why="no")
    assert joined([BATCH, refused]) == [BATCH, refused]


def test_what_belongs_to_no_held_attempt_is_passed_on() -> None:
    facts = AttemptFacts(n=7, t=9.0, j=0, a=1, cpu_s=1.0)
    lone: list[BriefEvent] = [ANSWER, STARTS[0], SUCCESS, facts]
    assert joined(lone) == lone
    with_ids = Submitting(n=1, t=1.0, b="y", tag="y", jobs=((0, 1),), ids={0: {"gpus": ("0",)}})
    assert joined([with_ids, STARTS[0], SUCCESS]) == [with_ids, STARTS[0], SUCCESS]
    again = Ended(n=9, t=9.0, j=1, a=2, run_s=1.0)
    assert joined([BATCH, again])[-1] == again


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (STARTS[0], msgspec.structs.replace(SUCCESS, exit=3, reason="3 is a success")),
        (STARTS[0], msgspec.structs.replace(SUCCESS, end=None)),
        (msgspec.structs.replace(STARTS[0], host=None), SUCCESS),
        (msgspec.structs.replace(STARTS[0], at=None), SUCCESS),
    ],
)
def test_a_success_with_more_or_less_to_tell_is_not_joined(start: Started, end: Ended) -> None:
    alone = msgspec.structs.replace(BATCH, jobs=((0, 1),))
    assert joined([alone, ANSWER, start, end]) == [alone, ANSWER, start, end]
