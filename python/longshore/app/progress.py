"""How a use case tells its user what it is doing, without knowing how that is shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


class Teller(Protocol):
    """Takes notes and progress."""

    def note(self, text: str) -> None:
        """Something the user should know, a line long."""

    def stage(self, text: str) -> None:
        """A stage begins that may take a while."""


@dataclass
class Keeping:
    """Passes on what there is to tell, and keeps the notes."""

    tell: Teller
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Pass a note on and keep it."""
        self.notes.append(text)
        self.tell.note(text)

    def stage(self, text: str) -> None:
        """Pass it on."""
        self.tell.stage(text)
