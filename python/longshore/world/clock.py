"""The clock, so that everything that asks for the time can be given another."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What is asked of a clock."""

    def now(self) -> float:
        """Seconds since the epoch (UTC); may jump."""

    def elapsed(self) -> float:
        """Seconds from some fixed moment; never jumps."""


class SystemClock:
    """The clock of this host."""

    def now(self) -> float:
        """Seconds since the epoch (UTC); may jump."""
        return time.time()

    def elapsed(self) -> float:
        """Seconds from some fixed moment; never jumps."""
        return time.monotonic()


def timestamp(seconds: float) -> str:
    """BPS's way of writing a moment in names: ``20261120T092700Z``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%dT%H%M%SZ")
