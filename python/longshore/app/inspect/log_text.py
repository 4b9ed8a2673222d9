"""Reads log files of any size and content as bytes: all, tail, matching lines, or new text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from longshore.errors import RunNotFoundError, RunUnreadableError, UsageError
from longshore.model.user_regex import RegexError, compile_regex
from longshore.model.wording import quote_value
from longshore.world.cpu_limit import CpuLimitError
from longshore.world.files.read_file import open_to_read
from longshore.world.regex_search import select_matching
from longshore.world.runs.archived_runs import open_archived_log

_CHUNK_B: Final = 1 << 20
"""Read size in bytes: a log may have no line feed in five gigabytes."""
_MATCH_S: Final = 3.0
"""Processor time in which the lines of a chunk must be matched."""


def open_log(path: Path) -> int:
    """Open a log for reading.

    Raises `RunNotFoundError` if it is missing, `RunUnreadableError` if it cannot be read or is no file.
    """
    try:
        archived = open_archived_log(path)
        return open_to_read(path) if archived is None else archived
    except FileNotFoundError:
        raise RunNotFoundError(
            f"the log '{path}' is not there", hint="The attempt never began to write, or the log was removed."
        ) from None
    except OSError as error:
        raise RunUnreadableError(f"the log '{path}' cannot be read: {error.strerror}") from error


def read_log(path: Path, *, tail: int | None = None, pattern: re.Pattern[bytes] | None = None) -> Iterator[bytes]:
    """Yield the text of a log in chunks, or each line that matches a pattern, without its line feed.

    `tail` is the number of lines at the end to read, by default all. Raises as `open_log`.
    """
    file = open_log(path)
    try:
        begin = 0 if tail is None else tail_offset(file, tail)
        yield from read_chunks(file, begin) if pattern is None else matching_lines(file, pattern, begin)
    finally:
        os.close(file)


def read_chunks(file: int, begin: int = 0) -> Iterator[bytes]:
    """Yield the content of an open log from an offset, in pieces."""
    while piece := os.pread(file, _CHUNK_B, begin):
        begin += len(piece)
        yield piece


def tail_offset(file: int, lines: int) -> int:
    """Return the offset of the last lines of an open log, searched from its end.

    A last line without line feed counts as a line.
    """
    end = os.fstat(file).st_size
    if not lines:
        return end
    place = end
    wanted = lines
    # The line feed that ends the last line separates it from nothing.
    if end and os.pread(file, 1, end - 1) == b"\n":
        place = end - 1
    while place > 0:
        begin = max(0, place - _CHUNK_B)
        piece = os.pread(file, place - begin, begin)
        found = piece.count(b"\n")
        if found >= wanted:
            for _ in range(wanted):
                piece = piece[: piece.rfind(b"\n")]
            return begin + len(piece) + 1
        wanted -= found
        place = begin
    return 0


def compile_pattern(text: str) -> re.Pattern[bytes]:
    """Compile a user's regular expression for bytes; raises `UsageError` if invalid."""
    try:
        return compile_regex(text.encode("utf-8", "surrogateescape"))
    except RegexError as error:
        raise UsageError(
            f"{quote_value(text)} is no regular expression: {error}",
            hint="Signs such as ( [ * + ? . mean themselves behind a backslash.",
        ) from error


class LineMatcher:
    """Finds matching lines in text that arrives in pieces; a line longer than a piece counts as several."""

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        self._pattern = pattern
        self._rest = b""

    def take(self, piece: bytes) -> Iterator[bytes]:
        """Yield the matching lines that a piece completes, without line feeds."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) >= _CHUNK_B:
            lines.append(self._rest)
            self._rest = b""
        return iter(self._matching(lines))

    def end(self) -> Iterator[bytes]:
        """Yield the last line if it matches and has no line feed."""
        last, self._rest = self._rest, b""
        yield from self._matching([last] if last else [])

    def _matching(self, lines: list[bytes]) -> list[bytes]:
        try:
            return select_matching(self._pattern, lines, seconds=_MATCH_S)
        except CpuLimitError:
            raise UsageError(
                f"{quote_value(self._pattern.pattern.decode(errors='replace'))} takes too long on a line of this log",
                hint="Repetitions within repetitions, such as (a+)+, try every division of a line.",
            ) from None


def matching_lines(file: int, pattern: re.Pattern[bytes], begin: int = 0) -> Iterator[bytes]:
    """Yield the matching lines of an open log from an offset."""
    matcher = LineMatcher(pattern)
    for piece in read_chunks(file, begin):
        yield from matcher.take(piece)
    yield from matcher.end()
