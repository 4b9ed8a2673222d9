"""Clock protocol and the system clock, injected so that tests can control time."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Source of wall-clock and monotonic time."""

    def now(self) -> float:
        """Return seconds since the epoch (UTC); may jump."""

    def elapsed(self) -> float:
        """Return monotonic seconds from an arbitrary origin; never jumps."""


class SystemClock:
    """Clock of this host."""

    def now(self) -> float:
        """Return seconds since the epoch (UTC); may jump."""
        return time.time()

    def elapsed(self) -> float:
        """Return seconds since boot, time in which it slept included; never jumps, equal in all processes."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)


def timestamp(seconds: float) -> str:
    """Format a time as BPS does in names: ``20261120T092700Z``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%dT%H%M%SZ")
