"""Progress messages of a use case, independent of their presentation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


class Progress(Protocol):
    """Receives notes and progress messages."""

    def note(self, text: str) -> None:
        """Report a note for the user, one line long."""

    def stage(self, text: str) -> None:
        """Report the start of a stage that may take a while."""


class QuietProgress:
    """Drops all messages."""

    def note(self, text: str) -> None:
        """Drop a note."""

    def stage(self, text: str) -> None:
        """Drop the start of a stage."""


@dataclass
class RecordingProgress:
    """Forwards messages and records the notes."""

    progress: Progress
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Forward a note and record it."""
        self.notes.append(text)
        self.progress.note(text)

    def stage(self, text: str) -> None:
        """Forward the start of a stage."""
        self.progress.stage(text)


class SilentProgress:
    """Drops messages, for a use case whose caller only wants the result."""

    def note(self, text: str) -> None:
        """Drop a note."""

    def stage(self, text: str) -> None:
        """Drop the start of a stage."""
