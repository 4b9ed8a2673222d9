"""How often a cluster is asked: often while there is news, ever less often while there is none; never below a floor."""

from __future__ import annotations

from typing import Final

FLOOR_S: Final = 2.0
CEILING_S: Final = 60.0
_SLOWER: Final = 1.5
"""By how much the interval grows with each answer that says nothing new."""


class Pace:
    """When the queue is asked next, in seconds since boot.

    Parameters
    ----------
    floor_s
        Least time between two questions.
    ceiling_s
        The most.
    """

    def __init__(self, floor_s: float = FLOOR_S, ceiling_s: float = CEILING_S) -> None:
        self.floor_s = floor_s
        self.ceiling_s = max(ceiling_s, floor_s)
        self.interval_s = floor_s
        self.asked_at = -1e9
        """When the newest answer was asked for."""
        self.wanted_since = 0.0
        """A question put before this moment does not answer what we want to know now."""

    def due(self, now: float) -> bool:
        """Whether it is time to ask."""
        return now - self.asked_at >= self.interval_s

    def hurry(self) -> None:
        """Ask as often as may be: something happens."""
        self.interval_s = self.floor_s

    def want(self, now: float) -> None:
        """Ask as soon as may be, and take no answer to what was asked before now."""
        self.wanted_since = max(self.wanted_since, now)
        self.hurry()

    def answered(self, asked_at: float) -> None:
        """Take note of an answer."""
        self.asked_at = asked_at
        self.interval_s = min(self.interval_s * _SLOWER, self.ceiling_s)

    def silent(self, now: float) -> None:
        """Take note that there was no answer: it is asked again at leisure, for nothing follows from silence."""
        self.asked_at = now
        self.interval_s = min(self.interval_s * _SLOWER, self.ceiling_s)
