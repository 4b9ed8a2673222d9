"""Events that are derived from reports lead to the states that the reports have, whatever order they come in."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.contract.service import JobStatus, StatusReport
from longshore.model.event import (
    FORMAT,
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
)
from longshore.model.states import Cause, JobState
from longshore.runstate.apply_events import apply_event
from longshore.runstate.report_events import KnownRun, derive_events
from longshore.runstate.run_state import JOB_STATES, RunState

NOW = 1_763_630_000.0
LIFE = Life(v=FORMAT, life=1, t=NOW, host="ap", pid=0, boot="", by="submit")
CHAIN: list[tuple[int, ...]] = [(), (0,), (1,)]
BAD = {JobState.FAILED, JobState.DELETED, JobState.PRUNED}
OVER = (JobState.SUCCEEDED, JobState.FAILED, JobState.DELETED)
RUN_STATES = (JobState.RUNNING, JobState.RUNNING, JobState.HELD, *OVER)
WAITS = {JobState.UNREADY, JobState.READY}


def known_run(parents: Sequence[tuple[int, ...]] = CHAIN) -> KnownRun:
    """A run of which nothing is known, whose jobs are ``j0``, ``j1``, ..."""
    state = RunState(parents, [0] * len(parents))
    return KnownRun(state, {f"j{job}": job for job in range(len(parents))}, ["j"], "far")


def status(job: int, state: JobState, **more: object) -> JobStatus:
    return JobStatus(name=f"j{job}", state=state, **more)  # type: ignore[arg-type]


def report(*jobs: JobStatus, state: JobState = JobState.RUNNING) -> StatusReport:
    return StatusReport(state=state, jobs=jobs)


def shown(known: KnownRun) -> list[JobState]:
    return [JOB_STATES[code] for code in known.state.code]


def derived(known: KnownRun, *jobs: JobStatus, state: JobState = JobState.RUNNING, life: Life = LIFE) -> list[Event]:
    return derive_events(known, report(*jobs, state=state), life=life, now=NOW + 100)


def kinds(events: Sequence[Event]) -> list[type]:
    return [type(event) for event in events]


def test_the_first_report_begins_the_run() -> None:
    known = known_run()
    events = derived(
        known,
        status(0, JobState.SUCCEEDED, start=NOW + 1, end=NOW + 5, exit=0, host="n1", peak_memory_b=7, wms_id="12"),
        status(1, JobState.RUNNING, start=NOW + 6),
    )
    assert kinds(events) == [Life, Submitting, Submitted, Started, Ended, Submitting, Submitted, Started]
    end = events[4]
    assert isinstance(end, Ended)
    assert (end.run_s, end.exit, end.host, end.rss_b, end.t) == (4.0, 0, "n1", 7, NOW + 5)
    assert isinstance(events[2], Submitted)
    assert events[2].id == "12"
    assert shown(known) == [JobState.SUCCEEDED, JobState.RUNNING, JobState.UNREADY]


def test_the_next_report_tells_only_what_is_new() -> None:
    known = known_run()
    derived(known, status(0, JobState.PENDING))
    events = derived(known, status(0, JobState.RUNNING, host="n1"))
    assert kinds(events) == [Started]
    assert derived(known, status(0, JobState.RUNNING, host="n1")) == []
    numbers = [
        event.n for event in [*events, *derived(known, status(0, JobState.SUCCEEDED))] if not isinstance(event, Life)
    ]
    assert numbers == sorted(set(numbers))


def test_a_failed_job_prunes_what_waits_for_it() -> None:
    known = known_run()
    events = derived(known, status(0, JobState.FAILED, signal=9, reason="it was killed", end=NOW + 3))
    end, failed = events[-2:]
    assert isinstance(end, Ended)
    assert isinstance(failed, Failed)
    assert (end.cause, end.reason, failed.why) == (Cause.SIGNAL, "it was killed", "it was killed")
    assert shown(known) == [JobState.FAILED, JobState.PRUNED, JobState.PRUNED]


def test_an_attempt_that_is_followed_by_another_is_lost() -> None:
    known = known_run()
    derived(known, status(0, JobState.RUNNING))
    events = derived(known, status(0, JobState.RUNNING, attempt=2))
    assert kinds(events) == [Lost, Retry, Submitting, Submitted, Started]
    assert known.state.attempts[0] == 2


def test_an_attempt_that_the_report_does_not_have_any_more_is_lost() -> None:
    known = known_run()
    derived(known, status(0, JobState.RUNNING))
    (lost,) = derived(known)
    assert isinstance(lost, Lost)
    assert derived(known) == []
    assert kinds(derived(known, status(0, JobState.FAILED))) == [Failed], "how it ended is not made up"


def test_a_job_that_is_over_stays_so_when_it_is_forgotten() -> None:
    known = known_run()
    derived(known, status(0, JobState.SUCCEEDED))
    assert derived(known) == []
    assert shown(known)[0] is JobState.SUCCEEDED


def test_an_evicted_job_waits_again_with_the_same_attempt() -> None:
    known = known_run()
    derived(known, status(0, JobState.RUNNING))
    assert kinds(derived(known, status(0, JobState.PENDING))) == [Refused, Submitting, Submitted]
    assert known.state.attempts[0] == 1


def test_holds_and_releases_are_told() -> None:
    known = known_run()
    derived(known, status(0, JobState.RUNNING))
    hold, _ = derived(known, status(0, JobState.HELD, reason="disk full"))
    assert isinstance(hold, Steer)
    assert (hold.who, hold.act, hold.set["why"]) == ("far", "hold", "disk full")
    assert shown(known)[0] is JobState.HELD
    assert derived(known, status(0, JobState.HELD, reason="disk full")) == []
    release = derived(known, status(0, JobState.RUNNING))[0]
    assert isinstance(release, Steer)
    assert release.act == "release"
    assert shown(known)[0] is JobState.RUNNING


@pytest.mark.parametrize("state", [JobState.UNKNOWN, JobState.MISFIT])
def test_nothing_follows_from_a_state_that_says_nothing(state: JobState) -> None:
    known = known_run()
    derived(known, status(0, JobState.RUNNING))
    assert derived(known, status(0, state)) == []


def test_names_that_the_run_does_not_have_are_ignored() -> None:
    assert kinds(derived(known_run(), JobStatus(name="setup", state=JobState.FAILED))) == [Life]


def test_a_restart_begins_another_life_and_runs_again_what_failed() -> None:
    known = known_run()
    derived(known, status(0, JobState.SUCCEEDED), status(1, JobState.FAILED), state=JobState.FAILED)
    assert known.state.finish_event
    life = msgspec.structs.replace(LIFE, life=2, by="restart")
    events = derived(known, status(0, JobState.SUCCEEDED), status(1, JobState.RUNNING), life=life)
    assert kinds(events) == [Life, Restarted, Submitting, Submitted, Started]
    assert shown(known) == [JobState.SUCCEEDED, JobState.RUNNING, JobState.UNREADY]
    assert known.state.attempts[1] == 2
    derived(known, *(status(job, JobState.SUCCEEDED) for job in range(3)), state=JobState.SUCCEEDED, life=life)
    assert known.state.compute_state() is JobState.SUCCEEDED


def test_a_run_that_succeeded_has_no_job_left() -> None:
    known = known_run()
    events = derived(known, state=JobState.SUCCEEDED)
    assert shown(known) == [JobState.SUCCEEDED] * 3
    assert [event.j for event in events if isinstance(event, Ended)] == [0, 1, 2]
    assert isinstance(events[-1], Finished)


def test_what_a_cancelled_run_left_is_deleted() -> None:
    known = known_run()
    derived(known, status(0, JobState.SUCCEEDED), status(1, JobState.RUNNING))
    derived(known, status(0, JobState.SUCCEEDED), status(1, JobState.RUNNING), state=JobState.DELETED)
    assert shown(known) == [JobState.SUCCEEDED, JobState.DELETED, JobState.DELETED]
    assert known.state.compute_state() is JobState.DELETED


def test_jobs_of_a_label_that_is_only_counted_are_given_no_state() -> None:
    known = known_run()
    counts = {"j": {JobState.RUNNING: 2, JobState.SUCCEEDED: 1}}
    events = derive_events(known, StatusReport(state=JobState.RUNNING, counts=counts), life=LIFE, now=NOW)
    assert kinds(events) == [Life]
    events = derive_events(known, StatusReport(state=JobState.SUCCEEDED, counts=counts), life=LIFE, now=NOW)
    assert kinds(events) == [Finished]


STATUS = st.builds(
    lambda state, attempt, start, took: (state, attempt, start, took),
    st.sampled_from(JobState),
    st.integers(1, 3),
    st.none() | st.floats(NOW, NOW + 50),
    st.floats(0, 10),
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[tuple[int, ...]], list[StatusReport]]:
    """A workflow, and reports of it that need not make sense beside each other."""
    size = draw(st.integers(1, 5))
    parents: list[tuple[int, ...]] = [
        tuple(sorted(draw(st.sets(st.integers(0, job - 1), max_size=2)))) if job else () for job in range(size)
    ]
    reports = []
    for _ in range(draw(st.integers(1, 5))):
        jobs = []
        for job in range(size):
            if drawn := draw(st.none() | STATUS):
                state, attempt, start, took = drawn
                end = start + took if start and state in BAD | {JobState.SUCCEEDED} else None
                jobs.append(status(job, state, attempt=attempt, start=start, end=end))
        run = draw(st.sampled_from(RUN_STATES))
        reports.append(StatusReport(state=run, jobs=jobs))
    return parents, reports


@given(histories())
def test_events_lead_to_what_is_reported(drawn: tuple[list[tuple[int, ...]], list[StatusReport]]) -> None:
    parents, reports = drawn
    known, told = known_run(parents), known_run(parents).state
    for each in reports:
        events = derive_events(known, each, life=LIFE, now=NOW + 100)
        for event in events:
            apply_event(told, event)
        assert told.code == known.state.code
        assert derive_events(known, each, life=LIFE, now=NOW + 100) == [], "the same report tells nothing new"
        assert (known.state.finish_event is not None) == (each.is_over)
        if each.is_over:
            assert not known.state.open_jobs
        else:
            _holds(parents, each, known)


def _holds(parents: Sequence[tuple[int, ...]], told: StatusReport, known: KnownRun) -> None:
    """Each job is shown in the state that is reported, as far as its ancestors let it be."""
    states = shown(known)
    for each in told.jobs:
        job = known.index_of[each.name]
        pruned = any(states[parent] in BAD for parent in parents[job])
        if each.state in (JobState.UNKNOWN, JobState.MISFIT) or pruned:
            continue
        if each.state in BAD:
            assert states[job] in BAD, (each, states[job])
        elif each.state in WAITS:
            assert states[job] in WAITS, (each, states[job])
        else:
            assert states[job] is each.state, (each, states[job])
