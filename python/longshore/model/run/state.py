"""States of a job and of a run, causes of failed attempts, and the exit status of each state.

States and numbers are those of LSST's BPS (``WmsStates``), so that a script written for ``bps status`` keeps working.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class JobState(StrEnum):
    """The only states users and JSON ever see."""

    UNKNOWN = "UNKNOWN"
    """The service did not answer."""
    MISFIT = "MISFIT"
    """A scheduler's state that matches no other."""
    UNREADY = "UNREADY"
    """Parents are not done."""
    READY = "READY"
    """Ready to be started by the engine; a retry that waits is READY with a reason."""
    PENDING = "PENDING"
    """Submitted to a scheduler, not yet running."""
    RUNNING = "RUNNING"
    DELETED = "DELETED"
    """Cancelled."""
    HELD = "HELD"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    """Failed, with no attempt left."""
    PRUNED = "PRUNED"
    """An ancestor failed or was cancelled."""


class Cause(StrEnum):
    """Why an attempt ended badly, or why a job waits."""

    EXIT = "EXIT"
    SIGNAL = "SIGNAL"
    OOM = "OOM"
    WALLTIME = "WALLTIME"
    OUTPUT = "OUTPUT"
    LOST = "LOST"
    SUBMIT = "SUBMIT"
    PEND_TIMEOUT = "PEND_TIMEOUT"
    HELD = "HELD"
    PREEMPTED = "PREEMPTED"
    CANCELLED = "CANCELLED"
    PREDICATE = "PREDICATE"


STATE_EXIT_STATUS: Mapping[JobState, int] = MappingProxyType(
    {
        JobState.UNKNOWN: 10,
        JobState.MISFIT: 11,
        JobState.UNREADY: 12,
        JobState.READY: 13,
        JobState.PENDING: 14,
        JobState.RUNNING: 15,
        JobState.DELETED: 16,
        JobState.HELD: 17,
        JobState.SUCCEEDED: 0,
        JobState.FAILED: 19,
        JobState.PRUNED: 20,
    }
)
"""Exit status of ``longshore status`` per state; BPS's numbers."""

TERMINAL_STATES = frozenset({JobState.DELETED, JobState.SUCCEEDED, JobState.FAILED, JobState.PRUNED})
"""States a job does not leave by itself."""

_CANNOT_MOVE = TERMINAL_STATES | {JobState.HELD}


def run_state(counts: Mapping[JobState, int], *, expected: int, cancelled: bool = False) -> JobState:
    """State of a run from the states of its jobs.

    `counts` include the final job; counts that do not add up to `expected` make the state UNKNOWN.
    """
    if sum(counts.values()) != expected or counts.get(JobState.UNKNOWN):
        return JobState.UNKNOWN
    if any(count and state not in _CANNOT_MOVE for state, count in counts.items()):
        return JobState.RUNNING
    if cancelled:
        return JobState.DELETED
    if counts.get(JobState.FAILED) or counts.get(JobState.PRUNED):
        return JobState.FAILED
    if counts.get(JobState.HELD):
        return JobState.HELD
    return JobState.DELETED if counts.get(JobState.DELETED) else JobState.SUCCEEDED
