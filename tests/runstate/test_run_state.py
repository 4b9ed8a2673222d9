"""The fold of a run's events: for any graph and any history, the numbers add up and nothing is forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples

from longshore.model.event import (
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
    Steer,
    Submitted,
    Submitting,
    decode_event,
)
from longshore.model.json_lines import encode_line
from longshore.model.states import Cause, JobState
from longshore.model.workflow import Barrier, Request
from longshore.runstate.apply_events import apply_event
from longshore.runstate.run_state import JOB_STATES, JobCode, RunState, count_states

OVER = {JobCode.SUCCEEDED, JobCode.FAILED, JobCode.DELETED, JobCode.PRUNED}
ACTIVE = {JobCode.PENDING, JobCode.RUNNING}
BAD = {JobCode.FAILED, JobCode.DELETED, JobCode.PRUNED}
LIFE = Life(v=1, life=1, t=0.0, host="h", pid=1, boot="b", by="resume")


class Graph(NamedTuple):
    parents: list[tuple[int, ...]]
    labels: list[int]
    final: bool
    barriers: tuple[Barrier, ...] = ()

    def begin(self) -> RunState:
        return RunState(self.parents, self.labels, final=self.final, barriers=self.barriers)

    def waits_for(self, job: int) -> list[Barrier]:
        return [barrier for barrier in self.barriers if job in barrier.before]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    size = draw(st.integers(0, 8))
    parents = [tuple(sorted(draw(st.sets(st.integers(0, job - 1), max_size=3)))) if job else () for job in range(size)]
    labels = draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    final = draw(st.booleans())
    return Graph([*parents, ()] if final else parents, [*labels, 1] if final else labels, final)


@st.composite
def ordered_graphs(draw: st.DrawFn) -> Graph:
    """Graphs with barriers, each of which has jobs on either side, in an order that obeys it."""
    graph = draw(graphs())
    size = len(graph.parents) - graph.final
    found = []
    for number in range(draw(st.integers(0, 3)) if size > 1 else 0):
        middle = draw(st.integers(1, size - 1))
        after = draw(st.sets(st.integers(0, middle - 1), min_size=1))
        before = draw(st.sets(st.integers(middle, size - 1), min_size=1))
        found.append(
            Barrier(f"b{number}", f"number {number}", tuple(sorted(after)), tuple(sorted(before)), draw(st.booleans()))
        )
    return graph._replace(barriers=tuple(found))


def is_passed(barrier: Barrier, codes: Sequence[JobCode]) -> bool:
    return all(codes[job] in ({JobCode.SUCCEEDED} if barrier.blocking else OVER) for job in barrier.after)


def moves(state: RunState, number: int) -> list[Event]:
    """Every event that may come next."""
    found: list[Event] = []
    batch = f"b{number}"
    ready = [job for job in range(state.size) if state.code[job] == JobCode.READY]
    for some in (ready[:1], ready[-1:], ready):
        jobs = tuple((job, state.attempts[job] + 1) for job in some)
        found += [Submitting(b=batch, tag=batch, jobs=jobs)] if jobs else []
    for tag, intent in state.batches.items():
        members = tuple(pair for pair in intent.jobs if state.active.get(pair[0]) == tag)
        found += [Submitted(b=tag, id="7"), Refused(b=tag, why="busy"), Refused(b=tag, why="never", spent=True)]
        found += [Refused(b=tag, why="in part", jobs=members[:1])] if members else []
    for job in state.active:
        attempt = state.attempts[job]
        found += [
            Started(j=job, a=attempt),
            Ended(j=job, a=attempt, exit=0, t=float(number)),
            Ended(j=job, a=attempt, exit=1, cause=Cause.EXIT, t=float(number)),
            Lost(j=job, a=attempt, why="gone", t=float(number)),
        ]
    for job in state.undecided_ends:
        attempt = state.attempts[job] + 1
        found += [
            Retry(j=job, a=attempt, cause=Cause.EXIT),
            Retry(j=job, a=attempt, cause=Cause.OOM, request=Request(memory_b=5), not_before=9.0),
            Failed(j=job, why="no more"),
        ]
    if state.is_over:
        found += [Finished(state=JobState.FAILED), Restarted(jobs=tuple(state.unsuccessful_jobs()))]
    return found


def rare_moves(state: RunState) -> list[Event]:
    """What people do, and what may come at any time."""
    jobs = range(state.size)
    return [
        LIFE,
        Steer(who="me", act="cancel"),
        Steer(who="me", act="cancel", set={"final": "no"}),
        Steer(who="me", act="cancel", select={"jobs": ("a",)}),
        *(Deleted(jobs=(job,)) for job in jobs),
        Deleted(jobs=tuple(jobs)),
    ]


def history(data: st.DataObject, graph: Graph, steps: int) -> tuple[RunState, list[Event]]:
    """A state in the middle of a valid history, checked after each event, and that history."""
    state, events = graph.begin(), []
    check(state, graph)
    for number in range(steps):
        usual = moves(state, number)
        rare = not usual or data.draw(st.integers(0, 15)) == 0
        event = data.draw(st.sampled_from(rare_moves(state) if rare else usual))
        apply_event(state, event)
        events.append(event)
        check(state, graph)
    return state, events


def check(state: RunState, graph: Graph) -> None:
    """Hold a state to all that is true of every state."""
    codes = [JobCode(code) for code in state.code]
    jobs = range(state.size)
    for label, row in enumerate(state.counts):
        of_label = Counter(codes[job] for job in jobs if graph.labels[job] == label)
        assert row == [of_label[code] for code in JobCode]
    assert sum(state.count_states().values()) == state.size
    assert state.is_over == all(code in OVER for code in codes)
    assert set(state.active) == {job for job in jobs if codes[job] in ACTIVE}
    assert state.cancelling <= set(state.active)
    assert set(state.undecided_ends) == {job for job in jobs if codes[job] == JobCode.UNDECIDED}
    assert state.unsuccessful_jobs() == [job for job in jobs if codes[job] in BAD]
    final = state.size - 1 if graph.final else -1
    for job in jobs:
        parents = [codes[parent] for parent in graph.parents[job]]
        before = graph.waits_for(job)
        closed = sum(not is_passed(barrier, codes) for barrier in before)
        assert state.waiting[job] == sum(code != JobCode.SUCCEEDED for code in parents) + closed
        assert len(state.barriers.find_blocking(job)) == closed
        bad_parent = any(code in BAD for code in parents) or any(
            barrier.blocking and any(codes[each] in BAD for each in barrier.after) for barrier in before
        )
        if bad_parent:
            assert codes[job] in {JobCode.PRUNED, JobCode.DELETED}
        if codes[job] == JobCode.PRUNED:
            assert bad_parent
        if codes[job] == JobCode.UNREADY and job != final:
            assert state.waiting[job]
        # What a restart runs again holds back those of the next group that are to come, and not what they have done.
        missing = state.waiting[job] - (0 if codes[job] == JobCode.READY else closed)
        if codes[job] not in {JobCode.UNREADY, JobCode.PRUNED, JobCode.DELETED}:
            assert not missing
    if final >= 0:
        others_over = all(code in OVER for code in codes[:-1])
        assert (codes[final] == JobCode.UNREADY) <= (not others_over)
        assert (codes[final] in {JobCode.READY, JobCode.UNDECIDED} | ACTIVE) <= others_over


def picture(state: RunState) -> dict[str, Any]:
    """All that a state holds; what was freed is the scheduler's to take."""
    held = {name: list(value) if name == "active" else value for name, value in vars(state).items() if name != "freed"}
    return held | {"barriers": vars(state.barriers)}


@settings(max_examples=examples(200))
@given(st.data(), st.one_of(graphs(), ordered_graphs()), st.integers(0, 60))
def test_any_history_adds_up_and_folds_alike_a_second_time(data: st.DataObject, graph: Graph, steps: int) -> None:
    state, events = history(data, graph, steps)
    again = graph.begin()
    for event in events:
        apply_event(again, decode_event(encode_line(event)))
    assert picture(again) == picture(state)


@settings(max_examples=examples(100))
@given(st.data(), st.one_of(graphs(), ordered_graphs()), st.integers(0, 30))
def test_any_history_can_come_to_an_end(data: st.DataObject, graph: Graph, steps: int) -> None:
    state, _ = history(data, graph, steps)
    number = steps
    while not state.is_over:
        apply_event(state, next(move for move in (moves(state, number)[::-1])))
        check(state, graph)
        number += 1
        assert number < steps + 200
    assert not state.active
    assert not state.cancelling


@settings(max_examples=examples(100))
@given(st.data(), graphs(), st.integers(0, 40))
def test_stale_and_unknown_news_change_nothing(data: st.DataObject, graph: Graph, steps: int) -> None:
    state, _ = history(data, graph, steps)
    before = [repr(value) for value in picture(state).values()]
    for event in stale_news(state):
        apply_event(state, event)
    assert [repr(value) for value in picture(state).values()] == before


def stale_news(state: RunState) -> Iterable[Event]:
    jobs = range(-1, state.size + 1)
    pairs = [(job, attempt) for job in jobs for attempt in range(4) if not state.is_active_attempt(job, attempt)]
    for job, attempt in pairs:
        yield Started(j=job, a=attempt)
        yield Ended(j=job, a=attempt, exit=0, t=1e9)
        yield Ended(j=job, a=attempt, exit=1, cause=Cause.EXIT, t=1e9)
        yield Lost(j=job, a=attempt, why="?", t=1e9)
    for job in jobs:
        if job not in state.undecided_ends:
            yield Retry(j=job, a=1, cause=Cause.EXIT, request=Request(cpus=9), not_before=1.0)
            yield Failed(j=job, why="?")
    yield Submitted(b="unknown", id="1")
    yield Refused(b="unknown", why="?")
    yield Refused(b="unknown", why="?", spent=True, jobs=tuple((job, state.attempts[job]) for job in state.active))


@settings(max_examples=examples(100))
@given(graphs(), st.randoms(use_true_random=False))
def test_exactly_the_descendants_of_failed_jobs_are_pruned(graph: Graph, dice: Any) -> None:
    state = graph.begin()
    number = 0
    while not state.is_over:
        number += 1
        job = dice.choice([job for job in range(state.size) if state.code[job] == JobCode.READY])
        run(state, job, *([Failed(j=job, why="no more")] if dice.random() < 0.3 else []), ok=False)
    failed = {job for job in range(state.size) if state.code[job] == JobCode.FAILED}
    below: set[int] = set()
    for job, parents in enumerate(graph.parents):
        if any(parent in failed | below for parent in parents):
            below.add(job)
    assert {job for job in range(state.size) if state.code[job] == JobCode.PRUNED} == below


def run(state: RunState, job: int, *then: Event, ok: bool = True) -> None:
    """Let a job run once: it succeeds unless something comes `then`."""
    attempt, batch = state.attempts[job] + 1, f"{job}.{state.attempts[job] + 1}"
    apply_event(state, Submitting(b=batch, tag=batch, jobs=((job, attempt),)))
    apply_event(state, Submitted(b=batch, id=batch))
    bad = then and not ok
    apply_event(state, Ended(j=job, a=attempt, exit=int(bool(bad)), cause=Cause.EXIT if bad else None))
    for event in then:
        apply_event(state, event)


def states(state: RunState) -> list[str]:
    return [JobCode(code).name for code in state.code]


CHAIN: Sequence[Sequence[int]] = [(), (0,), (1,), ()]
"""Three jobs one behind the other, and one beside them (or the final one)."""


def handed_over(job: int = 0, *, answered: bool = True) -> RunState:
    state = RunState(CHAIN, [0] * 4, final=True)
    apply_event(state, Submitting(b="b", tag="b", jobs=((job, 1),)))
    if answered:
        apply_event(state, Submitted(b="b", id="b"))
    return state


def test_the_final_job_waits_for_all_others_however_they_end() -> None:
    state = RunState(CHAIN, [0] * 4, final=True)
    assert states(state) == ["READY", "UNREADY", "UNREADY", "UNREADY"]
    run(state, 0)
    run(state, 1, Failed(j=1, why="no more"), ok=False)
    assert states(state) == ["SUCCEEDED", "FAILED", "PRUNED", "READY"]
    assert not state.is_over
    run(state, 3)
    assert state.is_over


def test_a_final_job_alone_is_ready_at_once() -> None:
    assert states(RunState([()], [0], final=True)) == ["READY"]


def test_a_run_without_jobs_is_over() -> None:
    state = RunState([], [])
    assert state.is_over
    assert not any(state.count_states().values())


def test_a_cancelled_run_still_runs_its_final_job() -> None:
    state = handed_over()
    apply_event(state, Steer(who="me", act="cancel"))
    assert states(state) == ["PENDING", "DELETED", "DELETED", "UNREADY"]
    assert state.cancelling == {0}
    apply_event(state, Ended(j=0, a=1, signal=15, cause=Cause.CANCELLED))
    assert states(state) == ["DELETED", "DELETED", "DELETED", "READY"]
    assert state.is_cancelled


def test_a_cancelled_run_can_do_without_its_final_job() -> None:
    state = handed_over()
    apply_event(state, Steer(who="me", act="cancel", set={"final": "no"}))
    apply_event(state, Lost(j=0, a=1, why="?"))
    assert states(state) == ["DELETED"] * 4
    assert state.is_over


def test_a_job_that_succeeds_while_it_is_cancelled_has_succeeded() -> None:
    state = handed_over()
    apply_event(state, Deleted(jobs=(0,)))
    apply_event(state, Ended(j=0, a=1, exit=0))
    assert states(state) == ["SUCCEEDED", "READY", "UNREADY", "UNREADY"]
    assert not state.cancelling


@pytest.mark.parametrize("spent", [True, False])
def test_what_descends_from_a_cancelled_job_that_was_never_taken_is_pruned(spent: bool) -> None:
    state = handed_over(answered=False)
    apply_event(state, Deleted(jobs=(0,)))
    apply_event(state, Refused(b="b", why="busy", spent=spent))
    assert states(state) == ["DELETED", "PRUNED", "PRUNED", "READY"]


def test_a_refusal_for_good_spends_an_attempt_and_is_judged() -> None:
    state = handed_over(answered=False)
    apply_event(state, Refused(b="b", why="no such queue", spent=True))
    assert (state.attempts[0], state.tries[0], state.lost[0]) == (1, 1, 0)
    end = state.undecided_ends[0]
    assert isinstance(end, Ended)
    assert (end.cause, end.reason, end.hopeless) == (Cause.SUBMIT, "no such queue", False)


def test_a_refusal_that_would_come_again_is_not_tried_again() -> None:
    state = handed_over(answered=False)
    apply_event(state, Refused(b="b", why="no such queue", spent=True, hopeless=True))
    end = state.undecided_ends[0]
    assert isinstance(end, Ended)
    assert end.hopeless


def test_a_refusal_for_now_spends_nothing() -> None:
    state = handed_over(answered=False)
    apply_event(state, Refused(b="b", why="busy"))
    assert states(state)[0] == "READY"
    assert (state.attempts[0], state.tries[0], state.batches) == (0, 0, {})


def test_a_retry_keeps_what_was_changed_and_waits() -> None:
    state = handed_over()
    apply_event(state, Ended(j=0, a=1, cause=Cause.OOM))
    apply_event(state, Retry(j=0, a=2, cause=Cause.OOM, request=Request(memory_b=7), not_before=50.0))
    assert (state.requests[0].memory_b, state.not_before[0]) == (7, 50.0)
    apply_event(state, Submitting(b="c", tag="c", jobs=((0, 2),)))
    assert not state.not_before
    apply_event(state, Lost(j=0, a=2, why="?"))
    apply_event(state, Retry(j=0, a=3, cause=Cause.LOST))
    assert state.requests[0].memory_b == 7
    run(state, 0)
    assert not state.requests
    assert state.attempts[0] == 3


def test_a_restart_gives_a_fresh_budget_and_goes_on_counting_attempts() -> None:
    state = RunState(CHAIN, [0] * 4)
    run(state, 3)
    run(state, 0)
    run(state, 1, Retry(j=1, a=2, cause=Cause.EXIT, not_before=1e12), ok=False)
    apply_event(state, Steer(who="me", act="cancel"))
    apply_event(state, Finished(state=JobState.DELETED))
    assert states(state) == ["SUCCEEDED", "DELETED", "DELETED", "SUCCEEDED"]
    apply_event(state, Restarted(jobs=tuple(state.unsuccessful_jobs())))
    assert states(state) == ["SUCCEEDED", "READY", "UNREADY", "SUCCEEDED"]
    assert (state.attempts[1], state.tries[1], state.lost[1]) == (1, 0, 0)
    assert not state.not_before, "the time a retry had to wait for is no matter of the restarted job"
    assert not state.is_cancelled
    assert state.finish_event is None
    assert not state.is_over


def test_a_restart_runs_a_failed_final_job_again() -> None:
    state = RunState([(), ()], [0, 0], final=True)
    run(state, 0, Failed(j=0, why="no more"), ok=False)
    run(state, 1, Failed(j=1, why="no more"), ok=False)
    apply_event(state, Restarted(jobs=(0, 1)))
    assert states(state) == ["READY", "UNREADY"]
    run(state, 0)
    assert states(state) == ["SUCCEEDED", "READY"]


def test_a_new_life_takes_the_end_of_a_run_back() -> None:
    state = RunState([()], [0])
    apply_event(state, Finished(state=JobState.SUCCEEDED))
    ends = [state.finish_event]
    apply_event(state, LIFE)
    ends.append(state.finish_event)
    assert ends == [Finished(state=JobState.SUCCEEDED), None]
    assert state.life == LIFE


def test_users_see_eleven_states_and_an_undecided_job_as_ready() -> None:
    assert JOB_STATES[JobCode.UNDECIDED] is JobState.READY
    counts = count_states([1] * len(JobCode))
    assert set(counts) == set(JobState)
    assert (counts[JobState.READY], sum(counts.values())) == (2, len(JobCode))


def test_what_a_retry_asks_for_outlives_a_restart_and_not_a_success() -> None:
    state = handed_over()
    more = Request(memory_b=4096)
    apply_event(state, Ended(j=0, a=1, cause=Cause.OOM))
    apply_event(state, Retry(j=0, a=2, cause=Cause.OOM, request=more))
    run(state, 0, Failed(j=0, why="no attempt left"), ok=False)
    apply_event(state, Restarted(jobs=(0,)))
    assert state.requests == {0: more}
    assert state.cause_counts == {(0, Cause.OOM): 1}, "the series goes on where it stood"
    run(state, 0)
    assert state.requests == {}


def test_ends_with_a_rule_of_their_own_are_counted() -> None:
    state = handed_over()
    for attempt, cause in enumerate([Cause.PREEMPTED, Cause.WALLTIME, Cause.PREEMPTED, Cause.EXIT], start=1):
        apply_event(state, Ended(j=0, a=attempt, cause=cause))
        apply_event(state, Retry(j=0, a=attempt + 1, cause=cause))
        apply_event(state, Submitting(b=f"x{attempt}", tag="x", jobs=((0, attempt + 1),)))
    assert state.cause_counts == {(0, Cause.PREEMPTED): 2, (0, Cause.WALLTIME): 1}
    assert state.tries[0] == 4
    apply_event(state, Ended(j=0, a=5, cause=Cause.EXIT))
    apply_event(state, Failed(j=0, why="no attempt left"))
    apply_event(state, Restarted(jobs=(0,)))
    assert state.cause_counts == {(0, Cause.WALLTIME): 1}, "a budget is fresh, a series is not"


def test_a_pause_lasts_until_somebody_ends_it() -> None:
    state = handed_over()
    apply_event(state, Steer(who="longshore", act="pause", set={"why": "it burns"}))
    assert state.paused == "it burns"
    apply_event(state, Steer(who="me", act="unpause"))
    assert state.paused == ""
    apply_event(state, Steer(who="me", act="pause"))
    assert state.paused == "paused by me"
    apply_event(state, Restarted(jobs=()))
    assert state.paused == ""
