"""How a use case tells its user what it is doing, without knowing how that is shown."""

from __future__ import annotations

from typing import Protocol


class Teller(Protocol):
    """Takes notes and progress."""

    def note(self, text: str) -> None:
        """Something the user should know, a line long."""

    def stage(self, text: str) -> None:
        """A stage begins that may take a while."""


class Silent:
    """Tells nobody."""

    def note(self, text: str) -> None:
        """Drop it."""

    def stage(self, text: str) -> None:
        """Drop it."""
