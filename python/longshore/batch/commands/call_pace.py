"""Pace of calls: limits how often one process calls each program of a workload manager."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from longshore.system.sharing import seconds_since_boot

BURST: Final = 5
"""Calls of one program that may follow each other at once, after a pause."""


class CallPace:
    """At most one call of each program per `interval_s` seconds, beyond a burst of `BURST`.

    Each loop has an interval of its own. This bound holds for all of them together, so that a loop that misreads its
    answers cannot load the controller.
    """

    def __init__(
        self,
        interval_s: float,
        *,
        now: Callable[[], float] = seconds_since_boot,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._interval_s = interval_s
        self._burst_s = (BURST - 1) * interval_s
        self._now = now
        self._sleep = sleep
        self._lock = threading.Lock()
        self._next_s: dict[str, float] = {}
        """Per program, when its next call is due without bursts."""

    def wait(self, program: str) -> None:
        """Wait for the turn of a call, and take it."""
        with self._lock:
            now = self._now()
            next_s = max(self._next_s.get(program, now), now)
            self._next_s[program] = next_s + self._interval_s
        if (wait_s := next_s - self._burst_s - now) > 0.0:
            self._sleep(wait_s)
