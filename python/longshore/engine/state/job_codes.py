"""Job codes: internal states of a job in a byte each, and the job states that users see for them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from longshore.model.run.state import JobState


class Code(IntEnum):
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


SHOWN: dict[int, JobState] = {code: JobState.READY if code == Code.UNDECIDED else JobState[code.name] for code in Code}
"""State that users see, per code."""

ACTIVE = (Code.PENDING, Code.RUNNING)
OVER = (Code.SUCCEEDED, Code.FAILED, Code.DELETED, Code.PRUNED)
BAD_ENDS = (Code.FAILED, Code.DELETED, Code.PRUNED)
"""Ends that are not success."""
MOVING = (Code.READY, Code.PENDING, Code.RUNNING, Code.UNDECIDED)
"""States that change without a person's help."""


def shown_counts(codes: Iterable[int]) -> dict[JobState, int]:
    """Convert counts per code to counts per state that users see, with all states named."""
    counts = dict.fromkeys(JobState, 0)
    for code, number in enumerate(codes):
        counts[SHOWN[code]] += number
    return counts
