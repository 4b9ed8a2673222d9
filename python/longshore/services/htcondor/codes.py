"""HTCondor's numbers and names of DAG nodes; apart because what renders, reads and steers a run needs them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from longshore.model.states import Cause


class EventType(IntEnum):
    """Types of log events that change a job's state; all others are ignored."""

    SUBMIT = 0
    EXECUTE = 1
    EVICTED = 4
    TERMINATED = 5
    SHADOW_EXCEPTION = 7
    ABORTED = 9
    HELD = 12
    RELEASED = 13
    POST_SCRIPT = 16
    RECONNECT_FAILED = 24


class JobStatusCode(IntEnum):
    """Values of a job's ``JobStatus`` in its ad."""

    IDLE = 1
    RUNNING = 2
    REMOVED = 3
    COMPLETED = 4
    HELD = 5
    TRANSFERRING_OUTPUT = 6
    SUSPENDED = 7


USER_HOLD: Final = 1
"""Hold code of a user's hold."""
CANCEL_REASON: Final = "longshore cancel"
"""Reason of removals that Longshore orders."""
BY_HAND: Final = (USER_HOLD, 15, 16)
"""Hold codes that are intended or pass by themselves: by a user, submitted on hold, spooling files."""

_OOM: Final = frozenset({(34, 0), (3, 34), (21, 102)})
"""Pairs of code and subcode for out of memory: the kernel's limit, the job's own rule, the machine's rule."""

_HOLD_CAUSES: Final[Mapping[int, Cause]] = {
    2: Cause.LOST,  # the machine failed (globus, obsolete)
    24: Cause.LOST,
    34: Cause.OOM,
    # The program, the directory, the container or the input files could not be prepared; 45: too many tries.
    **dict.fromkeys((*range(6, 12), 14, 17, 19, 22, 23, *range(28, 32), *range(35, 40), 41, 42, 44, 45), Cause.SUBMIT),
    48: Cause.SUBMIT,
    51: Cause.SUBMIT,
    # Files could not be transferred to or from the machine, or are more than allowed.
    **dict.fromkeys((12, 13, 32, 33, 50), Cause.TRANSFER),
    # The job was in the queue, or ran, for too long.
    **dict.fromkeys((46, 47), Cause.WALLTIME),
}
"""Cause by hold code; all other holds are by a user or a rule."""
_EVICTIONS: Final = 1000
"""First code of evictions, not holds: HTCondor's manual, "Vacate Reason Codes"."""
_EVICTION_CAUSES: Final[Mapping[int, Cause]] = {
    # The shadow, the program before the job, or the starter failed.
    **dict.fromkeys((1002, 1003, 1006, 1007, 1008, 1012, 1020, 1021, 1024), Cause.LOST),
    1023: Cause.CANCELLED,
}
"""Evictions that are no preemption."""


def cause_of_hold(code: int, subcode: int) -> Cause:
    """The cause of an attempt's end by hold or eviction.

    The numbers are ``HoldReasonCode`` and ``HoldReasonSubCode``, or those of an eviction.
    """
    if (code, subcode) in _OOM:
        return Cause.OOM
    if code >= _EVICTIONS:
        return _EVICTION_CAUSES.get(code, Cause.PREEMPTED)
    return _HOLD_CAUSES.get(code, Cause.HELD)


FINAL_NODE: Final = "final"
"""Node of the final job."""
BPS_FINAL_NODE: Final = "finalJob"
"""The same in a DAG that BPS made; its other nodes have the names of their jobs."""
JOIN_NODE: Final = "wms_noop_g"
"""Beginning of nodes without a job, before their number; BPS's report takes nodes of such names for no jobs."""
