"""Job codes: internal states of a job in a byte each, and the job states that users see for them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from longshore.model.states import JobState


class JobCode(IntEnum):
    """State of a job in one byte."""

    UNREADY = 0
    READY = 1
    PENDING = 2
    RUNNING = 3
    UNDECIDED = 4
    """A bad end of its attempt, before the decision whether to retry."""
    HELD = 5
    SUCCEEDED = 6
    FAILED = 7
    DELETED = 8
    PRUNED = 9


JOB_STATES: dict[int, JobState] = {
    code: JobState.READY if code == JobCode.UNDECIDED else JobState[code.name] for code in JobCode
}
"""State that users see, per code."""

ACTIVE = (JobCode.PENDING, JobCode.RUNNING)
OVER = (JobCode.SUCCEEDED, JobCode.FAILED, JobCode.DELETED, JobCode.PRUNED)
BAD_ENDS = (JobCode.FAILED, JobCode.DELETED, JobCode.PRUNED)
"""Ends that are not success."""
UNBLOCKED = (JobCode.READY, JobCode.PENDING, JobCode.RUNNING, JobCode.UNDECIDED)
"""States that change without a person's help."""


def count_states(codes: Iterable[int]) -> dict[JobState, int]:
    """Convert counts per code to counts per state that users see, with all states named."""
    counts = dict.fromkeys(JobState, 0)
    for code, number in enumerate(codes):
        counts[JOB_STATES[code]] += number
    return counts
