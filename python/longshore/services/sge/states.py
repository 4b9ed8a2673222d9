"""Grid Engine's job states, and the phase and cause each means for an attempt."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from longshore.batch.jobs import StateTable
from longshore.model.run.states import Cause

PENDING: Final = "qw"
HELD: Final = "hqw"
ERROR: Final = "Eqw"
SUSPENDED: Final = "suspended"
TRANSFER: Final = "t"
RUNNING: Final = "r"
DELETING: Final = "d"
RESCHEDULED: Final = "rescheduled"
DONE: Final = "done"
EXIT: Final = "exit"
SIGNAL: Final = "signal"
DELETED: Final = "deleted"
TIME: Final = "time limit"
MEMORY: Final = "memory limit"
NOT_STARTED: Final = "not started"

REASONS: Final = MappingProxyType({HELD: "held (hqw)", ERROR: "error state (Eqw)", SUSPENDED: "suspended"})
"""Reason of waiting per state; a job that just waits has none."""

STATES: Final = StateTable(
    waiting=(PENDING, HELD, ERROR, SUSPENDED, RESCHEDULED),
    running=(TRANSFER, RUNNING, DELETING),
    causes=MappingProxyType(
        {
            DONE: None,
            EXIT: Cause.EXIT,
            SIGNAL: Cause.EXIT,
            DELETED: Cause.CANCELLED,
            TIME: Cause.WALLTIME,
            MEMORY: Cause.OOM,
            NOT_STARTED: Cause.LOST,
        }
    ),
    ordinary=frozenset({DONE, EXIT, SIGNAL}),
    suspended=frozenset({SUSPENDED}),
    held_reasons=frozenset({REASONS[HELD], REASONS[ERROR]}),
)


def queue_state(letters: str) -> str:
    """Return the state that qstat's letters mean, such as ``hqw`` or ``dr``; the letters themselves if unknown."""
    if "E" in letters:
        return ERROR
    if "d" in letters:
        return DELETING
    if any(letter in letters for letter in "sSTN"):
        return SUSPENDED
    if "q" in letters:
        # A hold of a job that runs counts only for its next start.
        return HELD if "h" in letters else PENDING
    if "t" in letters:
        return TRANSFER
    return RUNNING if "r" in letters else letters
