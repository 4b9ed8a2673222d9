"""Takes what a use case tells its user."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ProgressNotes:
    """What the user was told."""

    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Keep it."""
        self.notes.append(text)

    def stage(self, text: str) -> None:
        """Drop it."""
