"""What HTCondor's numbers mean: why jobs are held, what an event is called."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from longshore.model.run.state import Cause


class Kind(IntEnum):
    """Events of a job that something follows from; all others only tell."""

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


JOB_HELD: Final = 5
"""``JobStatus`` of a job on hold."""
BY_HAND: Final = (1, 15, 16)
"""Hold codes that somebody asked for, or that pass: by hand, submitted so, files being spooled."""

_OOM: Final = frozenset({(34, 0), (3, 34), (21, 102)})
"""Pairs of codes by which memory ran out: a limit of the kernel's, the job's own rule, and the machine's."""

_HOLDS: Final[Mapping[int, Cause]] = {
    0: Cause.HELD,
    1: Cause.HELD,  # by hand
    2: Cause.LOST,  # the machine could not go on (globus, long gone)
    3: Cause.HELD,  # the job's own rule
    4: Cause.HELD,  # credentials are not fetched yet
    5: Cause.HELD,  # a rule of the schedd's
    6: Cause.SUBMIT,  # the program could not be started
    7: Cause.SUBMIT,  # its output could not be opened
    8: Cause.SUBMIT,
    9: Cause.SUBMIT,
    10: Cause.SUBMIT,
    11: Cause.SUBMIT,
    12: Cause.SUBMIT,  # files could not be sent there
    13: Cause.OUTPUT,  # or back
    14: Cause.SUBMIT,  # its directory cannot be entered
    15: Cause.HELD,  # submitted on hold
    16: Cause.HELD,  # its files are on their way
    17: Cause.SUBMIT,
    18: Cause.HELD,
    19: Cause.SUBMIT,  # a hook said no
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
"""Codes from here on are reasons of evictions, not of holds: HTCondor's manual, "Vacate Reason Codes"."""
_OTHER_EVICTIONS: Final[Mapping[int, Cause]] = {
    1002: Cause.LOST,  # what watched the job at the schedd broke
    1003: Cause.LOST,  # what comes before the job did
    1006: Cause.LOST,
    1007: Cause.LOST,  # what watched it at the machine broke
    1008: Cause.LOST,
    1012: Cause.LOST,
    1020: Cause.LOST,
    1021: Cause.LOST,
    1023: Cause.CANCELLED,
    1024: Cause.LOST,
}
"""Evictions that made way for nobody."""


def cause_of_hold(code: int, subcode: int) -> Cause:
    """Why an attempt ended whose job was then held, or taken from its machine.

    Parameters
    ----------
    code, subcode
        ``HoldReasonCode`` and ``HoldReasonSubCode``, or the numbers of an eviction.
    """
    if (code, subcode) in _OOM:
        return Cause.OOM
    if code >= _EVICTIONS:
        return _OTHER_EVICTIONS.get(code, Cause.PREEMPTED)
    return _HOLDS.get(code, Cause.HELD)
