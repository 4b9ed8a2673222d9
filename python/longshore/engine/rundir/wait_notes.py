"""Wait notes: collects why the engine waits, round by round, and logs each reason once while it lasts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from longshore.system.host import Clock

_REPEAT_S: Final = 60.0
"""Time after which an absent reason has passed, so that it is logged again when it comes back."""


class WaitNotes:
    """Reasons why the engine waits, as of this round; `log_line` takes a line for the engine's log."""

    def __init__(self, clock: Clock, log_line: Callable[[str], None]) -> None:
        self._clock = clock
        self._log_line = log_line
        self._now: list[str] = []
        self._logged_at: dict[str, float] = {}
        """Monotonic time at which each reason last held."""

    def __str__(self) -> str:
        return "; ".join(self._now)

    def begin(self, *notes: str) -> None:
        """Begin a round with the reasons that still hold."""
        self._now = []
        for note in filter(None, notes):
            self.add(note)

    def add(self, why: str) -> None:
        """Show a reason, and log it if it is new."""
        if why not in self._now:
            self._now.append(why)
        now = self._clock.elapsed()
        # Several may hold by turns, four times a second and for days.
        self._logged_at = {each: at for each, at in self._logged_at.items() if now - at < _REPEAT_S}
        if why not in self._logged_at:
            self._log_line(why)
        self._logged_at[why] = now
