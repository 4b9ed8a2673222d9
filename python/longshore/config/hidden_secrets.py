"""Masks the secrets of a configuration in messages of a use case; apart, because looks at runs need no more of it.

A message may quote any value: one that a command refers to, what a program answers, a line of a file. So no message
looks for secrets itself. A use case that reads a configuration runs in `hidden_secrets`, which masks its errors, and
`RecordingProgress` masks its notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeAlias

import msgspec

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
