"""Pause between two polls of a run that is followed."""

from __future__ import annotations

import time
from typing import Final

POLL_S: Final = 0.2
"""Shortest pause, in seconds."""
_PAUSE_RATIO: Final = 4.0
"""Pause in multiples of the poll's duration, so that most of the machine is left to others."""


def pause_after_poll(duration_s: float) -> None:
    """Sleep after a poll; the longer the poll took, the longer."""
    time.sleep(max(POLL_S, _PAUSE_RATIO * duration_s))
