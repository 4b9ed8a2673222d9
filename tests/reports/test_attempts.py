"""Counts and attempts of the collector agree with the states of jobs after any events."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.model.event import (
    FORMAT,
    AttemptFacts,
    Deleted,
    Ended,
    Event,
    Failed,
    Finished,
    Life,
    Lost,
    Refused,
    Restarted,
    Retry,
    Started,
    Submitted,
    Submitting,
)
from longshore.model.states import Cause, JobState
from longshore.model.workflow import Request
from longshore.reports.attempts import AttemptCollector, AttemptRecords, NewestAttempts
from longshore.runstate.apply_events import apply_event
from longshore.runstate.run_state import JobCode, RunState

PARENTS = [(), (), (0,), (0, 1), (2,), (3, 4)]
LABELS = [0, 0, 1, 1, 2, 2]
SUBMIT = (
    "submitting",
    "submitted",
    "started",
    "fine",
    "bad",
    "lost",
    "refused",
    "retry",
    "failed",
    "deleted",
    "restart",
)


def possible(state: RunState, kind: str, job: int, n: int) -> Event | None:
    """An event of that kind, if an engine could write it now."""
    code, attempt = state.code[job], state.attempts[job]
    active = code in (JobCode.PENDING, JobCode.RUNNING)
    b = state.active.get(job, "")
    events: dict[str, tuple[bool, Event]] = {
        "submitting": (
            code == JobCode.READY,
            Submitting(n=n, t=n, b=f"1.{n}", tag="t", jobs=((job, attempt + 1),)),
        ),
        "submitted": (b in state.batches, Submitted(n=n, t=n, b=b, id=b)),
        "started": (code == JobCode.PENDING, Started(n=n, t=n, j=job, a=attempt, host="h", at=float(n))),
        "fine": (active, Ended(n=n, t=n, j=job, a=attempt, exit=0, run_s=2.0)),
        "bad": (active, Ended(n=n, t=n, j=job, a=attempt, exit=3, cause=Cause.EXIT, run_s=3.0)),
        "lost": (active, Lost(n=n, t=n, j=job, a=attempt, why="gone")),
        "refused": (
            b in state.batches and code == JobCode.PENDING,
            Refused(n=n, t=n, b=b, why="no", spent=bool(n % 2)),
        ),
        "retry": (
            code == JobCode.UNDECIDED,
            Retry(n=n, t=n, j=job, a=attempt + 1, cause=Cause.EXIT, not_before=n + 5.0),
        ),
        "failed": (code == JobCode.UNDECIDED, Failed(n=n, t=n, j=job, why="no attempt is left")),
        "deleted": (True, Deleted(n=n, t=n, jobs=(job,))),
        "restart": (not state.active, Restarted(n=n, t=n, jobs=tuple(state.unsuccessful_jobs()))),
    }
    fits, event = events[kind]
    return event if fits else None


@given(st.lists(st.tuples(st.sampled_from(SUBMIT), st.integers(0, 5)), max_size=150))
def test_the_collector_agrees_with_the_states(steps: list[tuple[str, int]]) -> None:
    state, attempts = RunState(PARENTS, LABELS), AttemptCollector(LABELS, 3)
    life = Life(v=FORMAT, life=1, t=0.0, host="h", pid=1, boot="b", by="submit")
    apply_event(state, life)
    attempts.add([life])
    bad = fine = 0
    for n, (kind, job) in enumerate(steps, start=1):
        event = possible(state, kind, job, n)
        if event is None:
            continue
        spent = isinstance(event, Refused) and event.spent
        fine += kind == "fine"
        bad += kind in {"bad", "lost"} or spent
        apply_event(state, event)
        attempts.add([event])
        assert set(attempts.failed) == {each for each in range(6) if state.code[each] == JobCode.FAILED}
        assert all(each in attempts.failed_ends for each in attempts.failed)
        assert set(attempts.running) == {each for each in range(6) if state.code[each] == JobCode.RUNNING}
        assert sum(map(len, attempts.run_s)) == fine
        assert sum(spent.number for spent in attempts.badput.values()) == bad
    assert list(attempts.ended_at) == sorted(attempts.ended_at)


MEMBERS = ((0, 1), (1, 1))
TOLD: list[Event] = [
    Submitting(t=1.0, b="x", tag="x", jobs=MEMBERS, request=Request(cpus=2)),
    Submitted(t=2.0, b="x", id="7.0"),
    Started(t=3.0, j=0, a=1, host="h", at=2.5),
    Started(t=3.0, j=1, a=1),
    Ended(t=4.0, j=0, a=1, exit=3, cause=Cause.EXIT, end=3.5, run_s=1.0, host="other"),
    Lost(t=5.0, j=1, a=1, why="gone"),
]


def test_attempts_of_some_jobs_are_collected_in_full() -> None:
    records = AttemptRecords({0}, len(LABELS))
    records.add(TOLD)
    (attempt,) = records.of(0)
    assert (attempt.wms_id, attempt.host, attempt.requested) == ("7.0", "h", Request(cpus=2))
    assert (attempt.submitted_at, attempt.started_at, attempt.ended_at, attempt.clock) == (1.0, 2.5, 3.5, "host")
    assert (attempt.exit_code, attempt.cause, attempt.run_s) == (3, Cause.EXIT, 1.0)
    assert records.of(1) == []


def test_a_refused_attempt_counts_only_if_it_is_spent() -> None:
    for spent in (True, False):
        records, newest = AttemptRecords({0, 1}, len(LABELS)), NewestAttempts(len(LABELS))
        attempts = AttemptCollector(LABELS, 3, newest=newest)
        events: list[Event] = [TOLD[0], Refused(t=2.0, b="x", why="no", spent=spent)]
        attempts.add(events)
        records.add(events)
        assert [len(records.of(job)) for job in (0, 1)] == [int(spent)] * 2
        assert [attempt.cause for attempt in records.of(0)] == [Cause.SUBMIT] * spent
        end = newest.end(0, 1)
        assert isinstance(end, Ended) == spent
        assert attempts.failed_ends.keys() == ({0, 1} if spent else set())


def test_the_newest_attempt_of_every_job_is_collected() -> None:
    newest = NewestAttempts(len(LABELS))
    attempts = AttemptCollector(LABELS, 3, newest=newest)
    attempts.add(TOLD)
    assert newest.start(0, 1) == ("h", 2.5)
    assert newest.start(1, 1) == (None, None)
    assert newest.end(0, 1) == TOLD[4]
    assert newest.end(1, 1) == TOLD[5]
    attempts.add([Started(t=6.0, j=0, a=2, host="h", at=6.0)])
    assert (newest.start(0, 2), newest.end(0, 2)) == (("h", 6.0), None), "how the one before it ended says nothing"
    assert newest.start(0, 1) == (None, None)


def test_facts_that_came_later_stand_with_their_attempt_only() -> None:
    records, newest = AttemptRecords({0}, len(LABELS)), NewestAttempts(len(LABELS))
    attempts = AttemptCollector(LABELS, 3, newest=newest)
    attempts.add(TOLD)
    records.add(TOLD)
    (before,) = records.of(0)
    assert (before.peak_memory_b, before.cpu_s, before.queue_s) == (None, None, None), "unknown until they are known"
    facts = AttemptFacts(t=6.0, j=0, a=1, rss_b=70, cpu_s=0.5, queue_s=9.0, extra={"QOS": "short"})
    later = [facts, AttemptFacts(t=6.0, j=1, a=1, rss_b=9), AttemptFacts(t=6.0, j=0, a=2, rss_b=8)]
    attempts.add(later)
    records.add(later)
    (attempt,) = records.of(0)
    assert (attempt.peak_memory_b, attempt.cpu_s, attempt.queue_s, attempt.extra) == (70, 0.5, 9.0, {"QOS": "short"})
    assert (attempt.exit_code, attempt.run_s) == (3, 1.0)
    ends = (newest.end(0, 1), attempts.failed_ends[0])
    assert [isinstance(end, Ended) and (end.rss_b, end.exit) for end in ends] == [(70, 3)] * 2
    assert newest.end(1, 1) == TOLD[5], "a lost attempt has no facts"
    assert max(attempts.peak_memory_b) == 70


def test_a_start_that_a_later_engine_tells_again_without_a_host_keeps_the_first() -> None:
    records = AttemptRecords(range(1), 1)
    records.add(
        [
            Submitting(n=1, t=1.0, b="x", tag="x", jobs=((0, 1),)),
            Submitted(n=2, t=2.0, b="x", id="7"),
            Started(n=3, t=3.0, j=0, a=1, host="node1", at=2.5),
            Started(n=4, t=9.0, j=0, a=1),
        ]
    )
    (attempt,) = records.of(0)
    assert (attempt.host, attempt.wms_id) == ("node1", "7")
    records.add([Lost(n=5, t=10.0, j=0, a=1, why="gone")])
    assert records.of(0)[0].host == "node1"


YEAR_S = 402 * 86400.0


def begun(t: float, up: float | None, number: int = 1, boot: str = "b") -> Life:
    return Life(v=FORMAT, life=number, t=t, host="h", pid=1, boot=boot, by="submit", up=up)


def started(t: float, job: int = 0) -> Started:
    return Started(t=t, j=job, a=1, host="h", at=t)


def over(t: float, up: float | None) -> Finished:
    return Finished(t=t, state=JobState.SUCCEEDED, up=up)


@pytest.mark.parametrize("jump_s", [YEAR_S, -YEAR_S, 30.0, -30.0, 0.0])
@pytest.mark.parametrize(
    ("events", "elapsed_s"),
    [
        # The clock is set after the first start, before it, between two engines, and while none runs.
        (lambda jump_s: [begun(100, 5), started(101), over(111 + jump_s, 16)], 10.0),
        (lambda jump_s: [begun(100, 5), started(101 + jump_s), over(111 + jump_s, 16)], 10.0),
        (lambda jump_s: [begun(100, 5), started(101), begun(106 + jump_s, 11, 2), over(111 + jump_s, 16)], 10.0),
        (
            lambda jump_s: [
                *(begun(100, 5), started(101), over(106, 11)),
                *(begun(900 + jump_s, 805, 2), over(905 + jump_s, 810)),
            ],
            10.0,
        ),
    ],
)
def test_a_clock_that_is_set_does_not_change_how_long_a_run_took(
    events: Callable[[float], list[Event]], elapsed_s: float, jump_s: float
) -> None:
    collector = AttemptCollector([0], 1)
    collector.add(events(jump_s))
    assert collector.elapsed_s(0.0) == elapsed_s


@pytest.mark.parametrize("jump_s", [YEAR_S, -YEAR_S, 0.0])
def test_nor_how_long_a_live_run_has_run(jump_s: float) -> None:
    collector = AttemptCollector([0, 0], 1)
    collector.add([begun(100, 5), started(101), started(104 + jump_s, 1)])
    collector.observe(111 + jump_s, 16, "b")
    # Where the clock was set back, the first start seems to be the second one's.
    assert collector.elapsed_s(111 + jump_s) == (7.0 if jump_s < 0 else 10.0)
    runs_s = [collector.run_so_far(start, 111 + jump_s) for start in collector.running.values()]
    assert runs_s == [11.0 if jump_s else 10.0, 7.0]


def test_the_clock_of_another_host_is_not_compared() -> None:
    collector = AttemptCollector([0], 1)
    collector.add([begun(100, 5), started(101)])
    collector.observe(2000, 16, "other")
    assert (collector.elapsed_s(2000), collector.since_life_s) == (1899.0, None)
