"""Journal reader: yields the valid events of a run, all or since a mark, as blocks that bound its memory.

Each life seals the one before, see `longshore.engine.journal.journal`: events that an engine wrote behind its seal are
void. The late events of a life (`longshore.engine.journal.late`) are read behind it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec

from longshore.contract.service import Mark, RunPaths, StaleMarkError
from longshore.engine.journal.chain import LATER_UNKNOWN, LifeExtent, first_event, lives, measure_lives
from longshore.engine.journal.event_chunks import EventChunks
from longshore.engine.journal.late import LateLines, late_path, path_of_life, read_late_lines
from longshore.errors import RunUnreadableError
from longshore.model.event import Event, JobMap, Life, Seal, decode_events, translate_events
from longshore.model.json_lines import (
    CHECKSUM_B,
    SEED,
    BadLine,
    check_block,
    checksum_after,
    encode_line,
    find_bad_lines,
    has_checksum,
)
from longshore.model.report import Damage, DamagedError
from longshore.rundir.submissions import newest_changed_submission, read_job_maps
from longshore.system.reading import open_stream, open_to_read

LOG: Final = logging.getLogger("longshore.journal")
_BLOCK_B: Final = 1 << 16
"""Bytes decoded together: what fits into the cache of a processor is decoded in three quarters of the time."""


class Block(msgspec.Struct, frozen=True):
    """Whole lines from the file of one life, at an offset; `checked` if their checksums were there and right."""

    path: Path
    begin: int
    lines: bytes
    checked: bool


def read_events(folder: Path, *, seal: Seal | None = None) -> EventChunks[Event]:
    """Yield all valid events of a run, in order; parameters and errors as for `read_blocks`."""
    return EventChunks(_decode(read_blocks(folder, seal=seal)[0]))


def read_since(folder: Path, mark: Mark = "") -> tuple[Iterator[Event], Mark]:
    """Return the events that a journal gained since a mark, and the next mark; see `read_blocks`.

    The events are `EventChunks`.
    """
    blocks, mark = read_blocks(folder, mark)
    return EventChunks(_decode(blocks)), mark


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
        A file is of a newer format or unreadable. The iterator may raise it too.
    DamagedError
        A life is missing, or a valid line is gone, changed or no event; only the iterator raises it, after all that
        precedes the damage.
    """
    try:
        extents = measure_lives(folder, seal)
    except OSError as error:
        raise RunUnreadableError(f"'{error.filename or folder}' cannot be read: {error.strerror}") from error
    late = {each.life: found for each in extents if (found := read_late_lines(each)) is not None}
    ends = {each.life: each.end + (len(late[each.life].lines) if each.life in late else 0) for each in extents}
    life, begin = _position(mark)
    if life and ends.get(life, -1) < begin:
        raise StaleMarkError
    blocks: Iterator[Block] = chain.from_iterable(
        _read_part(each, late.get(each.life), 0 if each.life > life else begin) for each in extents if each.life >= life
    )
    if maps := read_job_maps(RunPaths(folder.parent)):
        blocks = _translate(blocks, maps)
    return blocks, f"{extents[-1].life}:{ends[extents[-1].life]}" if extents else ""


def checksum_at(folder: Path, mark: Mark) -> int | None:
    """Return the running checksum at a mark; ``None`` if no line with a checksum ends there.

    It vouches for all events before the mark: a life's second event states the checksums of the lives before it.
    Raises `OSError`, and `RunUnreadableError` as `read_blocks`.
    """
    life, begin = _position(mark)
    extent = next((each for each in measure_lives(folder) if each.life == life), None)
    if extent is None or not extent.checked:
        return None
    path, end = extent.path, begin
    if begin > extent.end:
        path, end = late_path(folder, life), begin - extent.end
    with open_stream(path) as file:
        file.seek(max(0, end - CHECKSUM_B))
        return checksum_after(file.read(min(end, CHECKSUM_B)))


def first_life_of_workflow(run: RunPaths) -> int:
    """Return the first life with the job numbers of the newest submission; records of earlier ones have others."""
    changed = newest_changed_submission(run)
    if not changed:
        return 0
    numbered = lives(run.journal)
    following = numbered[-1][0] + 1 if numbered else 0
    return next((life for life, path in numbered if first_event(path).s >= changed), following)


def _translate(blocks: Iterable[Block], maps: Mapping[int, JobMap]) -> Iterator[Block]:
    """Yield blocks with the job numbers of the newest submission; `maps` has a map per earlier one."""
    submissions: dict[Path, int] = {}
    for block in blocks:
        if block.path not in submissions:
            submissions[block.path] = first_event(path_of_life(block.path)).s
        job_map = maps.get(submissions[block.path])
        if job_map is None:
            yield block
        elif lines := b"".join(map(encode_line, translate_events(EventChunks(_decode([block])), job_map))):
            yield Block(block.path, block.begin, lines, checked=False)


def _read_part(extent: LifeExtent, late: LateLines | None, begin: int) -> Iterator[Block]:
    """Yield the lines of a life from an offset on, followed by its late ones; the offset counts both."""
    yield from read_life(extent, min(begin, extent.end))
    if late is None:
        return
    begin = max(0, begin - extent.end)
    if lines := late.lines[begin:]:
        yield Block(late.path, begin, lines, checked=True)
    if late.damage is not None:
        LOG.warning("%s", late.damage)


def _decode(blocks: Iterable[Block]) -> Iterator[list[Event]]:
    path: Path | None = None
    number = 0
    for block in blocks:
        try:
            events = decode_events(block.lines, path=str(block.path))
        except RunUnreadableError:
            yield from _decode_singly(block)
            raise
        if block.checked and events:
            first, last = _number_of(events[0]), _number_of(events[-1])
            if last - first != len(events) - 1 or (block.path == path and first != number):
                raise DamagedError.of(Damage(path=str(block.path), what="its events are not numbered without a gap"))
            path, number = block.path, last + 1
        yield events


def _number_of(event: Event) -> int:
    return 0 if isinstance(event, Life) else event.n


def _decode_singly(block: Block) -> Iterator[list[Event]]:
    """Yield the events before the first line that is none, and raise the error that names it."""
    begin = block.begin
    for line in block.lines.split(b"\n")[:-1]:
        try:
            events = decode_events(line + b"\n", path=str(block.path))
        except RunUnreadableError as error:
            what = f"it is no event: {error.message.partition('no event: ')[2]}"
            number = line_at(block.path, begin)
            damage = Damage(path=str(block.path), line=number, what=what, unknown=LATER_UNKNOWN)
            raise DamagedError.of(damage) from error
        begin += len(line) + 1
        yield events


def _position(mark: Mark) -> tuple[int, int]:
    life, _, begin = mark.partition(":")
    return int(life or 0), int(begin or 0)


def read_life(extent: LifeExtent, begin: int = 0) -> Iterator[Block]:
    """Yield the lines of a life from an offset on, checked, and raise its damage at the end."""
    if begin and begin >= extent.end:
        # Everything was read before.
        if extent.damage is not None:
            raise DamagedError.of(extent.damage)
        return
    from_start = not begin
    crc = SEED if from_start or not extent.checked else _checksum_before(extent.path, begin)
    for lines in _lines(extent.path, begin, extent.end):
        after = check_block(lines, crc) if extent.checked else crc32(lines, crc)
        if after is None or (not extent.checked and has_checksum(lines)):
            bad = next(find_bad_lines(lines, crc, offset=begin)) if extent.checked else BadLine(1, begin, torn=True)
            if bad.offset > begin:
                yield Block(extent.path, begin, lines[: bad.offset - begin], extent.checked)
            raise DamagedError.of(changed_line(extent.path, bad.offset))
        yield Block(extent.path, begin, lines, extent.checked)
        crc = after
        begin += len(lines)
    if extent.damage is not None:
        raise DamagedError.of(extent.damage)
    if extent.crc not in {None, crc} and (from_start or extent.checked):
        raise DamagedError.of(other_file(extent.path))


def changed_line(path: Path, offset: int) -> Damage:
    """Return the damage of a file whose line at an offset does not fit those before it."""
    what = "it is not as it was written, or lines before it are missing"
    return Damage(path=str(path), line=line_at(path, offset), what=what, unknown=LATER_UNKNOWN)


def other_file(path: Path) -> Damage:
    """Return the damage of a life whose lines fit each other, and not the seal on it."""
    what = "it is not the file that was sealed: its checksum differs"
    return Damage(path=str(path), what=what, unknown=LATER_UNKNOWN)


def line_at(path: Path, offset: int) -> int:
    """Return the number of the line at an offset of a file, from 1."""
    with open_stream(path) as file:
        return 1 + file.read(offset).count(b"\n")


def _checksum_before(path: Path, begin: int) -> int:
    """Return the running checksum at an offset by the statement of the line before it."""
    with open_stream(path) as file:
        file.seek(max(0, begin - CHECKSUM_B))
        stated = checksum_after(file.read(min(begin, CHECKSUM_B)))
    if stated is None:
        raise DamagedError.of(changed_line(path, begin))
    return stated


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
