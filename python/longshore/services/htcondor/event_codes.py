"""HTCondor's numbers: types of log events, job status, and causes by hold and eviction codes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from longshore.model.run.state import Cause


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


class JobStatus(IntEnum):
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
BY_HAND: Final = (USER_HOLD, 15, 16)
"""Hold codes that are intended or pass by themselves: by a user, submitted on hold, spooling files."""

_OOM: Final = frozenset({(34, 0), (3, 34), (21, 102)})
"""Pairs of code and subcode for out of memory: the kernel's limit, the job's own rule, the machine's rule."""

_HOLDS: Final[Mapping[int, Cause]] = {
    0: Cause.HELD,
    1: Cause.HELD,  # by hand
    2: Cause.LOST,  # the machine failed (globus, obsolete)
    3: Cause.HELD,  # the job's own rule
    4: Cause.HELD,  # credentials are not fetched yet
    5: Cause.HELD,  # a rule of the schedd's
    6: Cause.SUBMIT,  # the program could not be started
    7: Cause.SUBMIT,  # its output could not be opened
    8: Cause.SUBMIT,
    9: Cause.SUBMIT,
    10: Cause.SUBMIT,
    11: Cause.SUBMIT,
    12: Cause.SUBMIT,  # input files could not be transferred
    13: Cause.OUTPUT,  # nor output files
    14: Cause.SUBMIT,  # its directory cannot be entered
    15: Cause.HELD,  # submitted on hold
    16: Cause.HELD,  # its files are being spooled
    17: Cause.SUBMIT,
    18: Cause.HELD,
    19: Cause.SUBMIT,  # a hook refused
    20: Cause.HELD,
    21: Cause.HELD,  # a rule of the machine's
    22: Cause.SUBMIT,
    23: Cause.SUBMIT,
    24: Cause.LOST,
    25: Cause.HELD,
    26: Cause.HELD,
    27: Cause.HELD,
    28: Cause.SUBMIT,
    29: Cause.SUBMIT,
    30: Cause.SUBMIT,
    31: Cause.SUBMIT,
    32: Cause.OUTPUT,  # more files than allowed
    33: Cause.OUTPUT,
    34: Cause.OOM,
    35: Cause.SUBMIT,  # the container's program
    36: Cause.SUBMIT,
    37: Cause.SUBMIT,
    38: Cause.SUBMIT,
    39: Cause.SUBMIT,
    40: Cause.HELD,
    41: Cause.SUBMIT,
    42: Cause.SUBMIT,
    43: Cause.HELD,
    44: Cause.SUBMIT,
    45: Cause.SUBMIT,  # too many tries to start it
    46: Cause.WALLTIME,  # it was in the queue, or ran, for too long
    47: Cause.WALLTIME,
    48: Cause.SUBMIT,
    49: Cause.HELD,
    50: Cause.OUTPUT,
    51: Cause.SUBMIT,
}
_EVICTIONS: Final = 1000
"""First code of evictions, not holds: HTCondor's manual, "Vacate Reason Codes"."""
_OTHER_EVICTIONS: Final[Mapping[int, Cause]] = {
    1002: Cause.LOST,  # the shadow, at the schedd, failed
    1003: Cause.LOST,  # the program before the job failed
    1006: Cause.LOST,
    1007: Cause.LOST,  # the starter, at the machine, failed
    1008: Cause.LOST,
    1012: Cause.LOST,
    1020: Cause.LOST,
    1021: Cause.LOST,
    1023: Cause.CANCELLED,
    1024: Cause.LOST,
}
"""Evictions that are no preemption."""


def cause_of_hold(code: int, subcode: int) -> Cause:
    """The cause of an attempt's end by hold or eviction.

    The numbers are ``HoldReasonCode`` and ``HoldReasonSubCode``, or those of an eviction.
    """
    if (code, subcode) in _OOM:
        return Cause.OOM
    if code >= _EVICTIONS:
        return _OTHER_EVICTIONS.get(code, Cause.PREEMPTED)
    return _HOLDS.get(code, Cause.HELD)
