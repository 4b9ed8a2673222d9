"""Reads logs of any size and content: whole, from their end, by pattern, or as they grow; bytes in, bytes out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from longshore.errors import RunNotFoundError, RunUnreadableError, UsageError
from longshore.world.files.atomic import open_to_read

_PIECE: Final = 1 << 20
"""Bytes held at once: a log may have no line feed in five gigabytes."""


def open_log(path: Path) -> int:
    """Open a log for reading.

    Raises
    ------
    RunNotFoundError
        It is not there.
    RunUnreadableError
        It cannot be read, or is no file.
    """
    try:
        return open_to_read(path)
    except FileNotFoundError:
        raise RunNotFoundError(
            f"the log '{path}' is not there", hint="The attempt never began to write, or the log was removed."
        ) from None
    except OSError as error:
        raise RunUnreadableError(f"the log '{path}' cannot be read: {error.strerror}") from error


def pieces(file: int, begin: int = 0) -> Iterator[bytes]:
    """What an open log holds from a byte on, a piece at a time."""
    while piece := os.pread(file, _PIECE, begin):
        begin += len(piece)
        yield piece


def begin_of_tail(file: int, lines: int) -> int:
    """The byte at which the last lines of an open log begin, found from its end.

    Parameters
    ----------
    file
        The open log.
    lines
        How many lines; one that has no line feed yet counts.
    """
    end = os.fstat(file).st_size
    if not lines:
        return end
    place = end
    wanted = lines
    # The line feed that ends the last line parts it from nothing.
    if end and os.pread(file, 1, end - 1) == b"\n":
        place = end - 1
    while place > 0:
        begin = max(0, place - _PIECE)
        piece = os.pread(file, place - begin, begin)
        found = piece.count(b"\n")
        if found >= wanted:
            for _ in range(wanted):
                piece = piece[: piece.rfind(b"\n")]
            return begin + len(piece) + 1
        wanted -= found
        place = begin
    return 0


def pattern_of(text: str) -> re.Pattern[bytes]:
    """A pattern as a user gives it, for the bytes of logs.

    Raises
    ------
    UsageError
        It is no regular expression.
    """
    try:
        return re.compile(text.encode("utf-8", "surrogateescape"))
    except re.error as error:
        place = "" if error.pos is None else f" at its sign {error.pos + 1}"
        raise UsageError(
            f"'{text}' is no regular expression: {error.msg}{place}",
            hint="Signs such as ( [ * + ? . mean themselves behind a backslash.",
        ) from error


class Matcher:
    """The lines that match, of text that comes in pieces; what is longer than a piece counts as several lines.

    Parameters
    ----------
    pattern
        What to look for.
    """

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        self._pattern = pattern
        self._rest = b""

    def take(self, piece: bytes) -> Iterator[bytes]:
        """The matching lines that a piece completes, without their line feeds."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) >= _PIECE:
            lines.append(self._rest)
            self._rest = b""
        return (line for line in lines if self._pattern.search(line))

    def end(self) -> Iterator[bytes]:
        """The last line, if it has no line feed and matches."""
        last, self._rest = self._rest, b""
        if last and self._pattern.search(last):
            yield last


def matching(file: int, pattern: re.Pattern[bytes], begin: int = 0) -> Iterator[bytes]:
    """The lines of an open log that match, from a byte on."""
    matcher = Matcher(pattern)
    for piece in pieces(file, begin):
        yield from matcher.take(piece)
    yield from matcher.end()
