"""The states of a job in a byte each, and the words that users see for them."""

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
    """Its attempt ended badly and nobody has said yet whether it is tried again."""
    HELD = 5
    SUCCEEDED = 6
    FAILED = 7
    DELETED = 8
    PRUNED = 9


SHOWN: dict[int, JobState] = {code: JobState.READY if code == Code.UNDECIDED else JobState[code.name] for code in Code}
"""The state users see, per code."""

ACTIVE = (Code.PENDING, Code.RUNNING)
OVER = (Code.SUCCEEDED, Code.FAILED, Code.DELETED, Code.PRUNED)
BAD_ENDS = (Code.FAILED, Code.DELETED, Code.PRUNED)
"""Ends that are not success."""
MOVING = (Code.READY, Code.PENDING, Code.RUNNING, Code.UNDECIDED)
"""Jobs of which something will come without anybody's help."""


def shown_counts(codes: Iterable[int]) -> dict[JobState, int]:
    """Numbers per code as numbers per state users see, all states named."""
    counts = dict.fromkeys(JobState, 0)
    for code, number in enumerate(codes):
        counts[SHOWN[code]] += number
    return counts
