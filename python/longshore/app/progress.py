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
    warnings: list[str] = field(default_factory=list)
    """The notes that are warnings: all but facts about the surroundings."""

    def note(self, text: str) -> None:
        """Forward a warning and record it."""
        self.warnings.append(text)
        self.inform(text)

    def inform(self, text: str) -> None:
        """Forward and record a fact that is no warning."""
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


class HeldNotes:
    """Forwards stages at once, and keeps notes until they are released."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._notes: list[str] | None = []

    def note(self, text: str) -> None:
        """Keep a note, or forward it after the release."""
        if self._notes is None:
            self._progress.note(text)
        else:
            self._notes.append(text)

    def stage(self, text: str) -> None:
        """Forward the start of a stage."""
        self._progress.stage(text)

    def release(self) -> None:
        """Forward the notes so far, and all later ones at once."""
        notes, self._notes = self._notes or (), None
        for note in notes:
            self._progress.note(note)
