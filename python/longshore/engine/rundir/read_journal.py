"""Journal reader: yields the valid events of a run, all or since a mark, as blocks that bound its memory.

Each life seals the one before, see `longshore.engine.rundir.journal`: events that an engine wrote behind its seal are
void.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from longshore.contract.context import Mark
from longshore.contract.service import StaleMarkError
from longshore.engine.rundir.journal import lives, sealed_lengths
from longshore.errors import RunUnreadableError
from longshore.model.lines.codec import decode_events
from longshore.model.run.event import Event, Seal
from longshore.world.files.read_file import open_stream, open_to_read

_BLOCK_B: Final = 1 << 18


class Block(NamedTuple):
    """Whole lines from the file of one life."""

    path: Path
    lines: bytes


def read_events(folder: Path, *, seal: Seal | None = None) -> Iterator[Event]:
    """Yield all valid events of a run, in order; parameters and errors as for `read_blocks`."""
    return _decode(read_blocks(folder, seal=seal)[0])


def read_since(folder: Path, mark: Mark = "") -> tuple[Iterator[Event], Mark]:
    """Return the events that a journal gained since a mark, and the next mark; see `read_blocks`."""
    blocks, mark = read_blocks(folder, mark)
    return _decode(blocks), mark


def read_blocks(folder: Path, mark: Mark = "", *, seal: Seal | None = None) -> tuple[Iterator[Block], Mark]:
    """Return the lines that a journal gained since a mark, and the next mark.

    Parameters
    ----------
    folder
        The run's journal folder.
    mark
        Mark that the last call returned; empty to read from the start.
    seal
        A seal about to be put on the newest life, which may still be writing.

    Raises
    ------
    StaleMarkError
        Some lines before the mark are gone, or a newer life has declared them void since.
    RunUnreadableError
        A file is of a newer format or unreadable, or a valid line is gone or is not an event. The iterator may
        raise it too.
    """
    try:
        # Seals before sizes: what was measured before a seal was written exists by then.
        found = lives(folder)
        seals = sealed_lengths(found, seal)
        files = [(number, path, path.stat().st_size) for number, path in found]
        ends = [(number, path, _end(path, size, seals.get(number))) for number, path, size in files]
    except OSError as error:
        raise RunUnreadableError(f"'{error.filename or folder}' cannot be read: {error.strerror}") from error
    life, begin = _position(mark)
    if life and all(number != life or end < begin for number, _, end in ends):
        raise StaleMarkError
    blocks = (
        Block(path, lines)
        for number, path, end in ends
        if number >= life
        for lines in _lines(path, begin if number == life else 0, end)
    )
    return blocks, f"{ends[-1][0]}:{ends[-1][2]}" if ends else ""


def _decode(blocks: Iterable[Block]) -> Iterator[Event]:
    for path, lines in blocks:
        yield from decode_events(lines, path=str(path))


def _position(mark: Mark) -> tuple[int, int]:
    life, _, begin = mark.partition(":")
    return int(life or 0), int(begin or 0)


def _end(path: Path, size: int, sealed: int | None) -> int:
    """Return where the valid, whole lines of a life end."""
    if sealed is not None:
        if size < sealed:
            raise RunUnreadableError(f"'{path}' is torn: it has {size} of the {sealed} bytes that were sealed")
        return sealed
    # The newest life may be writing its last line just now.
    with open_stream(path) as file:
        while size:
            begin = max(0, size - _BLOCK_B)
            file.seek(begin)
            found = file.read(size - begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            size = begin
    return 0


def _lines(path: Path, begin: int, end: int) -> Iterator[bytes]:
    """Yield the lines between two offsets of a file, some at a time."""
    if begin >= end:
        return
    try:
        file = open_to_read(path)
    except OSError as error:
        raise RunUnreadableError(f"'{path}' cannot be read: {error.strerror}") from error
    try:
        rest = b""
        while begin < end:
            piece = os.pread(file, min(_BLOCK_B, end - begin), begin)
            if not piece:
                raise RunUnreadableError(f"'{path}' became shorter while it was read")
            begin += len(piece)
            cut = piece.rfind(b"\n") + 1
            if cut:
                yield rest + piece[:cut]
                rest = piece[cut:]
            else:
                rest += piece
        if rest:
            yield rest
    except OSError as error:
        raise RunUnreadableError(f"'{path}' cannot be read: {error.strerror}") from error
    finally:
        os.close(file)
