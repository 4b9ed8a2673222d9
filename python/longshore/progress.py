"""Progress, notes and warnings of a use case, apart because commands, notebooks and tests show them differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from longshore.config.hidden_secrets import hide_read_secrets
from longshore.contract.service import Problem


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


class _Forwarding(msgspec.Struct):
    """Forwards the starts of stages."""

    progress: Progress

    def stage(self, text: str) -> None:
        """Forward the start of a stage."""
        self.progress.stage(text)


class RecordingProgress(_Forwarding):
    """Forwards messages and records the notes, without the secrets of the configuration."""

    notes: list[str] = msgspec.field(default_factory=list)
    warnings: list[str] = msgspec.field(default_factory=list)
    """The notes that `--strict` refuses: all but facts about the surroundings."""

    def note(self, text: str) -> None:
        """Forward a note and record it."""
        self.warnings.append(self.inform(text))

    def warn(self, text: str) -> None:
        """Forward a warning and record it."""
        shown = hide_read_secrets(text)
        self.warnings.append(shown)
        self.notes.append(shown)
        warn(self.progress, shown)

    def inform(self, text: str) -> str:
        """Forward and record a fact that is no warning; return it as it is shown."""
        shown = hide_read_secrets(text)
        self.notes.append(shown)
        self.progress.note(shown)
        return shown


def warn(progress: Progress, text: str) -> None:
    """Report a warning about the user's files; a note where the receiver does not tell them apart."""
    getattr(progress, "warn", progress.note)(text)


def inform(progress: Progress, text: str) -> None:
    """Report a fact that is no warning; a note where the receiver does not tell them apart."""
    getattr(progress, "inform", progress.note)(text)


def note_problem(progress: Progress, problem: Problem) -> None:
    """Report a problem that is not fatal, with its origin and remedy."""
    if (receive := getattr(progress, "problem", None)) is not None:
        receive(problem)
        return
    place = f"{problem.origin}: " if problem.origin else ""
    progress.note(f"{place}{problem.message}" + (f". {problem.hint}" if problem.hint else ""))


class OnceProgress(_Forwarding):
    """Forwards messages, each note once: a configuration that is resolved again gives the same warnings."""

    _seen: set[str] = msgspec.field(default_factory=set)

    def note(self, text: str) -> None:
        """Forward a note that is new."""
        if self._is_new(text):
            self.progress.note(text)

    def warn(self, text: str) -> None:
        """Forward a warning that is new."""
        if self._is_new(text):
            warn(self.progress, text)

    def inform(self, text: str) -> None:
        """Forward a fact that is new."""
        if self._is_new(text):
            inform(self.progress, text)

    def _is_new(self, text: str) -> bool:
        is_new = text not in self._seen
        self._seen.add(text)
        return is_new


class HeldNotes(_Forwarding):
    """Forwards stages at once, and keeps notes until they are released."""

    _notes: list[Callable[[], None]] | None = msgspec.field(default_factory=list)

    def note(self, text: str) -> None:
        """Keep a note, or forward it after the release."""
        self._keep(lambda: self.progress.note(text))

    def warn(self, text: str) -> None:
        """Keep a warning, or forward it after the release."""
        self._keep(lambda: warn(self.progress, text))

    def _keep(self, forward: Callable[[], None]) -> None:
        if self._notes is None:
            forward()
        else:
            self._notes.append(forward)

    def release(self) -> None:
        """Forward the notes so far, and all later ones at once."""
        notes, self._notes = self._notes or (), None
        for forward in notes:
            forward()
