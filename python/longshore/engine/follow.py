"""Turns what was added to a journal since a mark into events, a piece at a time, however long the journal is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from longshore.contract.context import Mark
from longshore.contract.service import StaleMarkError
from longshore.engine.journal import lives, sealed_lengths
from longshore.errors import RunNotFoundError, RunUnreadableError
from longshore.model.codec import decode_events
from longshore.model.event import Event
from longshore.world.files import open_to_read

_PIECE: Final = 1 << 18


def read_since(folder: Path, mark: Mark = "") -> tuple[Iterator[Event], Mark]:
    """What a journal has gained since a mark, and the next mark.

    Parameters
    ----------
    folder
        The run's journal folder.
    mark
        What the last call returned; empty for all there is.

    Raises
    ------
    StaleMark
        Some of what was read up to the mark was void, as a newer life has said since, or is no longer there.
    RunUnreadableError
        A file is of a newer format, cannot be read, or a line that counts is gone or is no event. The iterator may
        raise it too.
    """
    try:
        # The seals before the sizes: what was measured before a seal was written is there by then.
        found = lives(folder)
        seals = sealed_lengths(found)
        files = [(number, path, path.stat().st_size) for number, path in found]
        ends = [(number, path, _end(path, size, seals.get(number))) for number, path, size in files]
    except OSError as error:
        raise RunUnreadableError(f"'{error.filename or folder}' cannot be read: {error.strerror}") from error
    life, begin = _position(mark)
    if life and all(number != life or end < begin for number, _, end in ends):
        raise StaleMarkError
    pieces = [(path, begin if number == life else 0, end) for number, path, end in ends if number >= life]
    return _events(pieces), f"{ends[-1][0]}:{ends[-1][2]}" if ends else ""


class JournalFollower:
    """The events of a run as they come, for whoever follows it as it goes.

    What a superseded engine wrote behind its seal is void, and passed over if it was not read before it was sealed.

    Parameters
    ----------
    folder
        The run's journal folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mark: Mark = ""

    def read(self) -> list[Event]:
        """Everything since the last call, in order.

        Raises
        ------
        RunNotFoundError
            The run directory was removed meanwhile.
        RunUnreadableError
            What is new cannot be read.
        """
        if self._mark and not lives(self._folder):
            raise RunNotFoundError(
                f"'{self._folder.parent}' is gone: it was moved or removed while it was followed",
                hint="If it was moved, name it by its new path.",
            )
        try:
            events, mark = read_since(self._folder, self._mark)
        except StaleMarkError:
            life, _ = _position(self._mark)
            events, mark = read_since(self._folder, f"{life + 1}:0")
        found = list(events)
        self._mark = mark
        return found


def _position(mark: Mark) -> tuple[int, int]:
    life, _, begin = mark.partition(":")
    return int(life or 0), int(begin or 0)


def _end(path: Path, size: int, sealed: int | None) -> int:
    """Where the lines of a life end that count and are whole."""
    if sealed is not None:
        if size < sealed:
            raise RunUnreadableError(f"'{path}' is torn: it has {size} of the {sealed} bytes that were sealed")
        return sealed
    # The newest life may be writing its last line just now.
    with path.open("rb") as file:
        while size:
            begin = max(0, size - _PIECE)
            file.seek(begin)
            found = file.read(size - begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            size = begin
    return 0


def _events(pieces: list[tuple[Path, int, int]]) -> Iterator[Event]:
    for path, begin, end in pieces:
        if begin < end:
            yield from _of_file(path, begin, end)


def _of_file(path: Path, begin: int, end: int) -> Iterator[Event]:
    try:
        file = open_to_read(path)
    except OSError as error:
        raise RunUnreadableError(f"'{path}' cannot be read: {error.strerror}") from error
    try:
        rest = b""
        while begin < end:
            piece = os.pread(file, min(_PIECE, end - begin), begin)
            if not piece:
                raise RunUnreadableError(f"'{path}' became shorter while it was read")
            begin += len(piece)
            cut = piece.rfind(b"\n") + 1
            if not cut:
                rest += piece
                continue
            yield from decode_events(rest + piece[:cut], path=str(path))
            rest = piece[cut:]
        if rest:
            yield from decode_events(rest, path=str(path))
    except OSError as error:
        raise RunUnreadableError(f"'{path}' cannot be read: {error.strerror}") from error
    finally:
        os.close(file)
