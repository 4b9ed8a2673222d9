"""States, the state of a run, and the numbers that stand for states."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.model.states import STATE_EXIT_STATUS, TERMINAL_STATES, Cause, JobState, state_of_run

S = JobState

BPS = {
    "UNKNOWN": 10,
    "MISFIT": 11,
    "UNREADY": 12,
    "READY": 13,
    "PENDING": 14,
    "RUNNING": 15,
    "DELETED": 16,
    "HELD": 17,
    "SUCCEEDED": 0,
    "FAILED": 19,
    "PRUNED": 20,
}
"""Exit codes of ``bps status``."""


def test_exit_codes_are_those_of_bps() -> None:
    assert {state.value: code for state, code in STATE_EXIT_STATUS.items()} == BPS
    assert set(STATE_EXIT_STATUS) == set(JobState)


@pytest.mark.parametrize("kind", [JobState, Cause])
def test_a_word_is_its_own_name(kind: type[JobState | Cause]) -> None:
    assert all(member.value == member.name == str(member) for member in kind)


RUNS: dict[str, tuple[dict[JobState, int], int, JobState, JobState]] = {
    # counts, expected, state, state when cancelled
    "no jobs": ({}, 0, S.SUCCEEDED, S.DELETED),
    "all succeeded": ({S.SUCCEEDED: 3}, 3, S.SUCCEEDED, S.DELETED),
    "zeros count nothing": ({S.SUCCEEDED: 3, S.RUNNING: 0, S.FAILED: 0, S.UNKNOWN: 0}, 3, S.SUCCEEDED, S.DELETED),
    "one runs": ({S.SUCCEEDED: 2, S.RUNNING: 1}, 3, S.RUNNING, S.RUNNING),
    "one waits for us": ({S.SUCCEEDED: 2, S.READY: 1}, 3, S.RUNNING, S.RUNNING),
    "one waits for parents": ({S.FAILED: 2, S.UNREADY: 1}, 3, S.RUNNING, S.RUNNING),
    "one waits in a queue": ({S.PRUNED: 2, S.PENDING: 1}, 3, S.RUNNING, S.RUNNING),
    "one is strange": ({S.SUCCEEDED: 2, S.MISFIT: 1}, 3, S.RUNNING, S.RUNNING),
    "one failed": ({S.SUCCEEDED: 2, S.FAILED: 1}, 3, S.FAILED, S.DELETED),
    "one pruned": ({S.SUCCEEDED: 2, S.PRUNED: 1}, 3, S.FAILED, S.DELETED),
    "one failed, others held": ({S.HELD: 2, S.FAILED: 1}, 3, S.FAILED, S.DELETED),
    "one held, others move": ({S.HELD: 1, S.RUNNING: 2}, 3, S.RUNNING, S.RUNNING),
    "all that is left is held": ({S.HELD: 1, S.SUCCEEDED: 2}, 3, S.HELD, S.DELETED),
    "one deleted": ({S.DELETED: 1, S.SUCCEEDED: 2}, 3, S.DELETED, S.DELETED),
    "one deleted, one failed": ({S.DELETED: 1, S.FAILED: 1, S.SUCCEEDED: 1}, 3, S.FAILED, S.DELETED),
    "one without answer": ({S.UNKNOWN: 1, S.SUCCEEDED: 2}, 3, S.UNKNOWN, S.UNKNOWN),
    "one missing": ({S.SUCCEEDED: 2}, 3, S.UNKNOWN, S.UNKNOWN),
    "one too many": ({S.SUCCEEDED: 4}, 3, S.UNKNOWN, S.UNKNOWN),
}


@pytest.mark.parametrize(("counts", "expected", "state", "cancelled"), RUNS.values(), ids=RUNS.keys())
def test_the_state_of_a_run(counts: dict[JobState, int], expected: int, state: JobState, cancelled: JobState) -> None:
    assert state_of_run(counts, expected=expected) is state
    assert state_of_run(counts, expected=expected, cancelled=True) is cancelled


@given(st.lists(st.sampled_from(JobState), max_size=6), st.booleans())
def test_a_run_is_over_exactly_when_no_job_can_move(states: list[JobState], cancelled: bool) -> None:
    state = state_of_run(Counter(states), expected=len(states), cancelled=cancelled)
    if S.UNKNOWN in states:
        assert state is S.UNKNOWN
    else:
        assert (state is S.RUNNING) == any(each not in TERMINAL_STATES | {S.HELD} for each in states)
        assert state in {S.RUNNING, S.DELETED, S.FAILED, S.HELD, S.SUCCEEDED}
