"""Which jobs of a run run again, and why: what did not succeed, and what is or descends from a named label."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.engine.states import codes, run_job

from longshore.model.event import Failed, Restarted, Started, Submitting
from longshore.runstate.apply_events import apply_event
from longshore.runstate.restart_selection import RestartReason as Why
from longshore.runstate.restart_selection import select_for_restart
from longshore.runstate.run_state import OVER, JobCode, RunState

FORK: Sequence[Sequence[int]] = ((), (0,), (0,), (1, 2), ())
"""A diamond, and one beside it; each job has a label of its own."""


def done(*bad: int, final: bool = False) -> RunState:
    """The fork, run to its end."""
    state = RunState(FORK, range(5), final=final)
    run_out(state, bad)
    return state


def run_out(state: RunState, bad: Sequence[int] = ()) -> None:
    for job in range(state.size):
        if state.code[job] == JobCode.READY:
            run_job(state, job, exit_code=job in bad)
            if job in bad:
                apply_event(state, Failed(j=job, why="no attempt left"))


def test_what_did_not_succeed_runs_again_for_its_own_reason() -> None:
    chosen = select_for_restart(done(1))
    assert chosen.jobs == {1: Why.FAILED, 3: Why.PRUNED}
    assert not chosen.restarted_jobs, "it goes on from the task it came to"


def test_what_is_named_runs_again_with_all_that_descends_from_it() -> None:
    chosen = select_for_restart(done(), {1})
    assert chosen.jobs == {1: Why.NAMED, 3: Why.DESCENDS}
    assert chosen.restarted_jobs == [1, 3]


def test_what_failed_keeps_its_reason_and_begins_anew_where_it_works_on_what_is_made_anew() -> None:
    chosen = select_for_restart(done(1, 4), {0})
    assert chosen.jobs == {
        0: Why.NAMED,
        1: Why.FAILED,
        2: Why.DESCENDS,
        3: Why.PRUNED,
        4: Why.FAILED,
    }
    assert chosen.restarted_jobs == [0, 1, 2, 3]


def test_the_final_job_runs_again_where_anything_does() -> None:
    assert select_for_restart(done(final=True)).jobs == {}
    assert select_for_restart(done(final=True), {3}).jobs == {3: Why.NAMED, 4: Why.FINAL}
    assert select_for_restart(done(3, final=True)).jobs == {3: Why.FAILED, 4: Why.FINAL}
    assert select_for_restart(done(final=True), {4}).jobs == {4: Why.NAMED}


def test_what_is_under_way_is_told_and_left_alone() -> None:
    state = RunState(FORK, range(5))
    run_job(state, 0)
    apply_event(state, Submitting(b="b", tag="t", jobs=((1, 1),)))
    apply_event(state, Started(j=1, a=1))
    chosen = select_for_restart(state, {0})
    assert (chosen.jobs, chosen.active_jobs, chosen.restarted_jobs) == ({0: Why.NAMED}, [1], [0, 2, 3])
    apply_event(state, Restarted(jobs=tuple(chosen.jobs)))
    assert codes(state) == ["READY", "RUNNING", "UNREADY", "UNREADY", "READY"], "what was ready waits again"


@settings(max_examples=examples(200))
@given(data=st.data())
def test_whatever_is_named_every_job_runs_after_its_parents_and_the_run_comes_to_its_end(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 8))
    parents = [tuple(sorted(data.draw(st.sets(st.integers(0, job - 1))))) if job else () for job in range(size)]
    labels = [data.draw(st.integers(0, 2)) for _ in range(size)]
    state = RunState(parents, labels)
    for _ in range(3):
        run_out(state, sorted(data.draw(st.sets(st.integers(0, size - 1)))))
        assert all(code in OVER for code in state.code)
        named = data.draw(st.sets(st.integers(0, 2)))
        chosen = select_for_restart(state, named)
        before = list(state.attempts)
        apply_event(state, Restarted(jobs=tuple(chosen.jobs)))
        for job in range(size):
            again = labels[job] in named or any(parent in chosen.restarted_jobs for parent in parents[job])
            assert (job in chosen.restarted_jobs) == again
            assert state.waiting[job] == sum(state.code[parent] != JobCode.SUCCEEDED for parent in parents[job])
            assert not again or state.code[job] in (JobCode.READY, JobCode.UNREADY)
        run_out(state)
        assert set(codes(state)) == {"SUCCEEDED"}
        assert all((state.attempts[job] > before[job]) == (job in chosen.jobs) for job in range(size))
