"""Barriers between groups of jobs: when they open, what they shut out, and that pressure runs through them."""

from __future__ import annotations

from longshore.engine.schedule.ready_queue import compute_pressures
from longshore.model.event import Ended, Failed, Restarted, Submitting
from longshore.model.states import Cause
from longshore.model.workflow import Barrier
from longshore.runstate.apply_events import apply_event
from longshore.runstate.run_state import Barriers, JobCode, RunState


def chain(groups: int, size: int, *, blocking: bool) -> list[Barrier]:
    """Groups of as many jobs one after another."""
    jobs = [tuple(range(size * number, size * (number + 1))) for number in range(groups)]
    return [Barrier(str(k), f"'{k}'", jobs[k], jobs[k + 1], blocking) for k in range(groups - 1)]


def state_of(groups: int, size: int, *, blocking: bool) -> RunState:
    jobs = groups * size
    return RunState([()] * jobs, [0] * jobs, barriers=chain(groups, size, blocking=blocking))


def run(state: RunState, job: int, *, ok: bool = True, aborts: bool = False) -> None:
    attempt = state.attempts[job] + 1
    apply_event(state, Submitting(b=f"{job}", tag="", jobs=((job, attempt),)))
    apply_event(state, Ended(j=job, a=attempt, exit=int(not ok), cause=None if ok else Cause.EXIT))
    if not ok:
        apply_event(state, Failed(j=job, why="bad", aborts=aborts))


def codes(state: RunState) -> str:
    """A letter per job."""
    return "".join(JobCode(code).name[0] for code in state.code)


def test_the_next_group_is_ready_once_the_last_job_before_it_is_over() -> None:
    for blocking in (True, False):
        state = state_of(2, 2, blocking=blocking)
        assert codes(state) == "RRUU"
        run(state, 1)
        assert codes(state) == "RSUU"
        run(state, 0)
        assert codes(state) == "SSRR"


def test_after_a_failure_a_blocking_group_shuts_all_others_out_and_another_does_not() -> None:
    state = state_of(3, 2, blocking=True)
    run(state, 0, ok=False)
    assert codes(state) == "FRPPPP"
    run(state, 1)
    assert state.is_over
    state = state_of(3, 2, blocking=False)
    run(state, 0, ok=False)
    run(state, 1)
    assert codes(state) == "FSRRUU"


def test_ten_thousand_groups_are_shut_out_without_recursion() -> None:
    state = state_of(10_000, 1, blocking=True)
    run(state, 0, ok=False)
    assert codes(state) == "F" + "P" * 9_999
    assert state.is_over


def test_a_restart_holds_the_next_group_back_again() -> None:
    state = state_of(2, 2, blocking=False)
    run(state, 0, ok=False)
    run(state, 1)
    run(state, 2)
    run(state, 3, ok=False)
    apply_event(state, Restarted(jobs=(0, 3)))
    assert codes(state) == "RSSU"
    run(state, 0)
    assert codes(state) == "SSSR"


def test_a_restart_that_leaves_the_failure_out_leaves_what_it_shut_out_pruned() -> None:
    state = state_of(2, 1, blocking=True)
    run(state, 0, ok=False)
    apply_event(state, Restarted(jobs=(1,)))
    assert codes(state) == "FP"


def test_what_ends_the_run_cancels_all_that_is_not_over() -> None:
    state = RunState([(), (), (0,), ()], [0] * 4, final=True)
    apply_event(state, Submitting(b="b", tag="", jobs=((1, 1),)))
    run(state, 0, ok=False, aborts=True)
    assert codes(state) == "FPPU"
    assert state.cancelling == {1}
    apply_event(state, Ended(j=1, a=1, signal=15, cause=Cause.CANCELLED))
    assert codes(state) == "FDPR"


def test_pressure_runs_through_barriers() -> None:
    barriers = Barriers(chain(3, 2, blocking=False))
    run_s = [1.0, 5.0, 1.0, 2.0, 10.0, 1.0]
    assert list(compute_pressures([[]] * 6, run_s, barriers)) == [13.0, 17.0, 11.0, 12.0, 10.0, 1.0]
    assert [
        barrier.name for barrier in RunState([()] * 6, [0] * 6, barriers=barriers.all).barriers.find_blocking(4)
    ] == ["1"]
    assert not Barriers(())
