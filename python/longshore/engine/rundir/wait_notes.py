"""Collects why the engine waits, round by round, and tells the log of each reason once while it lasts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from longshore.world.clock import Clock

_PASSED_S: Final = 60.0
"""A reason that did not hold for so long has passed, and is told to the log when it comes back."""


class Notes:
    """Why the engine waits, as of this round.

    Parameters
    ----------
    clock
        The time.
    say
        Takes a line for the engine's log.
    """

    def __init__(self, clock: Clock, say: Callable[[str], None]) -> None:
        self._clock = clock
        self._say = say
        self._now: list[str] = []
        self._said: dict[str, float] = {}
        """When each reason last held, on the clock that never jumps."""

    def __str__(self) -> str:
        return "; ".join(self._now)

    def begin(self, *notes: str) -> None:
        """Begin a round with what still holds."""
        self._now = []
        for note in filter(None, notes):
            self.add(note)

    def add(self, why: str) -> None:
        """Show a reason, and tell it to the log where it is new."""
        if why not in self._now:
            self._now.append(why)
        now = self._clock.elapsed()
        # Several may hold by turns, four times a second and for days.
        self._said = {each: at for each, at in self._said.items() if now - at < _PASSED_S}
        if why not in self._said:
            self._say(why)
        self._said[why] = now
