"""Messages of a use case, independent of their presentation: its progress, notes and errors.

A message may quote any value: one that a command refers to, what a program answers, a line of a file. So no message
looks for secrets itself. A use case that reads a configuration runs in `hidden_secrets`, which masks its errors, and
`RecordingProgress` masks its notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol, TypeAlias

import msgspec

from longshore.contract.service import Problem
from longshore.errors import LongshoreError

_Source: TypeAlias = Callable[[], Iterable[str]]


class _ReadSecrets:
    """Secrets of what a use case has read so far, which are looked for only once there is a message."""

    def __init__(self) -> None:
        self._sources: list[_Source] = []
        self._found: set[str] = set()

    def add(self, source: _Source) -> None:
        self._sources.append(source)

    def find(self) -> Sequence[str]:
        """Return all of them, the longest first."""
        while self._sources:
            self._found.update(self._sources.pop()())
        return sorted(self._found, key=len, reverse=True)


_READ: Final[ContextVar[_ReadSecrets | None]] = ContextVar("_READ", default=None)


@contextmanager
def hidden_secrets() -> Iterator[None]:
    """Mask the secrets of what the body reads in the error that leaves it, and let `hide_read_secrets` know them."""
    token = _READ.set(_ReadSecrets())
    try:
        yield
    except LongshoreError as error:
        _hide_in_error(error)
        raise
    finally:
        _READ.reset(token)


def note_secrets(source: _Source) -> None:
    """Let messages of the use case mask the secrets that a function returns; it is called where there is a message."""
    if (read := _READ.get()) is not None:
        read.add(source)


def hide_read_secrets(text: str) -> str:
    """Mask the parts of a message that are secrets: of what the use case has read, or by their form."""
    # Imported late: what only looks at a run has no such message.
    from longshore.config.secrets import hide_secrets

    read = _READ.get()
    return hide_secrets(text, read.find() if read is not None else ())


def _hide_in_error(error: LongshoreError) -> None:
    shown = hide_read_secrets(error.message), hide_read_secrets(error.hint)
    if shown != (error.message, error.hint):
        error.message, error.hint = shown
        error.args = (error.message,)
        # What it comes from quotes the same, and a traceback would show it.
        error.__cause__, error.__suppress_context__ = None, True
    error.details = tuple(
        msgspec.structs.replace(each, message=hide_read_secrets(each.message), hint=hide_read_secrets(each.hint))
        for each in error.details
    )


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


class RecordingProgress(msgspec.Struct):
    """Forwards messages and records the notes, without the secrets of the configuration."""

    progress: Progress
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

    def stage(self, text: str) -> None:
        """Forward the start of a stage."""
        self.progress.stage(text)


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


class SilentProgress:
    """Drops messages, for a use case whose caller only wants the result."""

    def note(self, text: str) -> None:
        """Drop a note."""

    def stage(self, text: str) -> None:
        """Drop the start of a stage."""


class OnceProgress:
    """Forwards messages, each note once: a configuration that is resolved again gives the same warnings."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._seen: set[str] = set()

    def note(self, text: str) -> None:
        """Forward a note that is new."""
        if self._is_new(text):
            self._progress.note(text)

    def warn(self, text: str) -> None:
        """Forward a warning that is new."""
        if self._is_new(text):
            warn(self._progress, text)

    def inform(self, text: str) -> None:
        """Forward a fact that is new."""
        if self._is_new(text):
            inform(self._progress, text)

    def stage(self, text: str) -> None:
        """Forward the start of a stage."""
        self._progress.stage(text)

    def _is_new(self, text: str) -> bool:
        is_new = text not in self._seen
        self._seen.add(text)
        return is_new


class HeldNotes:
    """Forwards stages at once, and keeps notes until they are released."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._notes: list[Callable[[], None]] | None = []

    def note(self, text: str) -> None:
        """Keep a note, or forward it after the release."""
        self._keep(lambda: self._progress.note(text))

    def warn(self, text: str) -> None:
        """Keep a warning, or forward it after the release."""
        self._keep(lambda: warn(self._progress, text))

    def _keep(self, forward: Callable[[], None]) -> None:
        if self._notes is None:
            forward()
        else:
            self._notes.append(forward)

    def stage(self, text: str) -> None:
        """Forward the start of a stage."""
        self._progress.stage(text)

    def release(self) -> None:
        """Forward the notes so far, and all later ones at once."""
        notes, self._notes = self._notes or (), None
        for forward in notes:
            forward()
