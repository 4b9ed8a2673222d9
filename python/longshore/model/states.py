"""States of jobs and runs, causes of failures, and exit statuses; apart because everything imports them.

States and numbers are those of LSST's BPS (``WmsStates``), so that a script written for ``bps status`` keeps working.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class JobState(StrEnum):
    """State of a job or run."""

    UNKNOWN = "UNKNOWN"
    """State unknown, as when the service did not answer."""
    MISFIT = "MISFIT"
    """State of the scheduler without an equivalent here."""
    UNREADY = "UNREADY"
    """Waiting for parents."""
    READY = "READY"
    """Ready to be started by the engine; a retry that waits is READY with a reason."""
    PENDING = "PENDING"
    """Submitted to a scheduler, not yet running."""
    RUNNING = "RUNNING"
    """Running."""
    DELETED = "DELETED"
    """Cancelled."""
    HELD = "HELD"
    """Held by a person or a rule, until released."""
    SUCCEEDED = "SUCCEEDED"
    """Succeeded."""
    FAILED = "FAILED"
    """Failed, with no attempt left."""
    PRUNED = "PRUNED"
    """Never started, because an ancestor failed or was cancelled."""


class Cause(StrEnum):
    """Cause of a failed attempt, or of a job's wait."""

    EXIT = "EXIT"
    """Exit code other than 0."""
    SIGNAL = "SIGNAL"
    """Ended by a signal."""
    OOM = "OOM"
    """Out of memory."""
    WALLTIME = "WALLTIME"
    """Run time above the request."""
    OUTPUT = "OUTPUT"
    """Log too large."""
    LOST = "LOST"
    """Outcome unknown."""
    SUBMIT = "SUBMIT"
    """Submission refused, or start impossible."""
    PEND_TIMEOUT = "PEND_TIMEOUT"
    """Pending for too long."""
    HELD = "HELD"
    """Held."""
    PREEMPTED = "PREEMPTED"
    """Stopped by the scheduler for another job."""
    CANCELLED = "CANCELLED"
    """Cancelled."""
    PREDICATE = "PREDICATE"
    """Success condition not met."""
    INPUT_MISSING = "INPUT_MISSING"
    """A file that the job reads is missing."""
    TRANSFER = "TRANSFER"
    """Files not transferred to or from the host of the job."""
    OUTPUT_MISSING = "OUTPUT_MISSING"
    """A declared output is missing, or with ``checkOutputs: fresh`` is stale or empty."""


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

PAUSED_EXIT_STATUS = 21
"""Exit status of a command that no longer waits for a run, because this is paused; no number of BPS's."""

TERMINAL_STATES = frozenset({JobState.DELETED, JobState.SUCCEEDED, JobState.FAILED, JobState.PRUNED})
"""States a job does not leave by itself."""

_CANNOT_MOVE = TERMINAL_STATES | {JobState.HELD}


def state_of_run(counts: Mapping[JobState, int], *, expected: int, cancelled: bool = False) -> JobState:
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


COUNTED_CAUSES: Final = frozenset({Cause.PREEMPTED, Cause.TRANSFER, Cause.INPUT_MISSING, Cause.OOM, Cause.WALLTIME})
"""Causes whose ends are counted per job, for rules of their own."""
