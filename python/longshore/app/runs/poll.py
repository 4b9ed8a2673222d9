"""Pause between two polls of a run that is followed."""

from __future__ import annotations

import math
import time
from typing import Final

POLL_S: Final = 0.2
"""Shortest pause once a run has been followed for some seconds."""
_FIRST_POLL_S: Final = 0.01
"""Shortest pause at first: many runs of a few jobs are over in a moment."""
_WAITED_SHARE: Final = 0.1
"""Pause in between, as a share of the time waited so far: the end of a run is seen a tenth late at most."""
_PAUSE_RATIO: Final = 4.0
"""Pause in multiples of the poll's duration, so that most of the machine is left to others."""


def pause_after_poll(duration_s: float, waited_s: float = math.inf) -> None:
    """Sleep after a poll; the longer the poll took, the longer. `waited_s` is the time since the first poll."""
    time.sleep(pause_of(duration_s, waited_s))


def pause_of(duration_s: float, waited_s: float) -> float:
    """Return the seconds of a pause; see `pause_after_poll`."""
    shortest_s = min(POLL_S, max(_FIRST_POLL_S, _WAITED_SHARE * waited_s))
    return max(shortest_s, _PAUSE_RATIO * duration_s)
