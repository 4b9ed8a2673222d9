"""Collects why the engine waits, round by round, and tells the log of each reason once in a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from longshore.world.clock import Clock

_SAY_AGAIN_S: Final = 600.0
"""Time before the log is told of the same again."""


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

    def __str__(self) -> str:
        return "; ".join(self._now)

    def begin(self, *notes: str) -> None:
        """Begin a round with what still holds."""
        self._now = [note for note in notes if note]

    def add(self, why: str) -> None:
        """Show a reason, and tell it to the log where that was not done a while ago."""
        if why not in self._now:
            self._now.append(why)
        now = self._clock.elapsed()
        if now - self._said.get(why, -_SAY_AGAIN_S) >= _SAY_AGAIN_S:
            self._say(why)
            self._said = {said: at for said, at in self._said.items() if now - at < _SAY_AGAIN_S} | {why: now}
