"""Format of a run's journal: append-only event files, one per life of its engine, chained by checksums and seals.

Lives are numbered from 1 without gaps. A life's file is created exclusively, complete with its first event: if two
engines begin at once, one gives way. An engine checks for a newer life before each act. Whatever the previous engine
did was therefore in its journal before this life's file existed. This life then measures the previous file, and its
second event seals it at that length, with its checksum. What a superseded engine writes after that is void, but nothing
that it did is lost. The last life is sealed by ``end.json`` once the run is over. So a life that is missing, shorter or
another one is damage; only lines at the end of the last life may be missing without a trace, as after a crash.
Decisions 0010 and 0060 have the reasons.

"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Final, TypeVar
from zlib import crc32

import msgspec

from longshore.contract.service import Mark, RunPaths, StaleMarkError
from longshore.errors import DECODE_ERRORS, RunUnreadableError, SubmissionRefusedError
from longshore.model.event import (
    ACCEPT_LOSS,
    FORMAT,
    MOST_LIVES,
    PLAIN_FORMAT,
    AttemptFacts,
    Ended,
    Event,
    Failed,
    Finished,
    JobMap,
    Life,
    LossAccepted,
    Lost,
    Restarted,
    Seal,
    Sealed,
    Started,
    Steer,
    decode_event,
    decode_events,
    translate_events,
)
from longshore.model.json_lines import (
    CHECKSUM_B,
    SEED,
    BadLine,
    add_checksum,
    check_block,
    checksum_after,
    encode,
    encode_line,
    find_bad_lines,
    has_checksum,
    is_intact,
)
from longshore.model.report import Damage, DamagedError
from longshore.model.states import JobState
from longshore.rundir.submissions import newest_changed_submission, read_job_maps
from longshore.system.atomic import AppendedFile, create_atomically, is_file_at, sync_file, write_atomically
from longshore.system.files import files
from longshore.system.folder import move
from longshore.system.reading import exists_uncached, is_local_file_system, open_stream, open_to_read, read_file

# Chain: how much of each life counts, by the seals of later lives and by the seal of the run's end.


_SUFFIX: Final = ".jsonl"
END_SEAL: Final = "end.json"
"""Name of the file that seals the last life of a run that is over."""
_TAIL_B: Final = 1 << 18
LATER_UNKNOWN: Final = "what happened later is not known"


class EndSeal(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """End of a run: its last life counts up to `bytes`, whose CRC-32 is `crc`, and its last event is `n`."""

    life: Annotated[int, msgspec.Meta(ge=1, le=MOST_LIVES)]
    bytes: int
    crc: int
    n: int
    t: float
    state: JobState


class LifeExtent(msgspec.Struct, frozen=True):
    """How much of a life's file counts.

    Attributes
    ----------
    life, path
        The life and its file.
    end
        Bytes that count.
    crc
        CRC-32 of these bytes, if a seal states it.
    checked
        Whether its lines carry checksums.
    sealed
        Whether nothing can be added any more.
    damage
        What is wrong with the file as a whole; what counts of it is then read, and nothing after it.
    """

    life: int
    path: Path
    end: int
    crc: int | None = None
    checked: bool = True
    sealed: bool = True
    damage: Damage | None = None


class _Head(msgspec.Struct, frozen=True):
    """First two lines of a life's file: whether lines carry checksums, and the seals on the lives before."""

    checked: bool
    seals: tuple[Seal, ...]
    damage: Damage | None = None
    life: Life | None = None


def life_path(folder: Path, life: int) -> Path:
    """Return the path of a life's file."""
    return folder / f"{life:04}{_SUFFIX}"


def lives(folder: Path) -> list[tuple[int, Path]]:
    """Return the files of a journal by number of life, oldest first."""
    try:
        names = files.listdir(folder)
    except FileNotFoundError:
        return []
    numbered = ((name.removesuffix(_SUFFIX), folder / name) for name in names if name.endswith(_SUFFIX))
    return sorted((int(number), path) for number, path in numbered if number.isascii() and number.isdigit())


def write_end_seal(folder: Path, seal: EndSeal) -> None:
    """Seal the last life of a run that is over, durably; a later life seals it in its turn."""
    line, _ = add_checksum(msgspec.json.encode(seal), SEED)
    write_atomically(folder / END_SEAL, line, below=folder.parent, durable=True)


def read_end_seal(folder: Path) -> EndSeal | None:
    """Return the seal of a run's end; ``None`` before the end.

    Raises
    ------
    DamagedError
        It is not as it was written.
    """
    path = folder / END_SEAL
    try:
        line = read_file(path)
    except FileNotFoundError:
        return None
    try:
        if check_block(line, SEED) is not None:
            return msgspec.json.decode(line, type=EndSeal)
        why = "it is not as it was written"
    except DECODE_ERRORS as error:
        why = f"it cannot be read: {error}"
    raise DamagedError.of(Damage(path=str(path), what=why, unknown="whether the last life is complete is not known"))


def set_damaged_end_aside(folder: Path) -> None:
    """Rename a damaged seal of a run's end, so that it no longer counts."""
    try:
        read_end_seal(folder)
    except DamagedError:
        move(folder / END_SEAL, folder / f"{END_SEAL}.damaged", below=folder.parent)


def measure_lives(folder: Path, seal: Seal | None = None) -> list[LifeExtent]:
    """Return how much of each life counts, oldest first; `seal` is one about to be put on the newest life.

    Raises
    ------
    RunUnreadableError
        A file is of a newer format, or cannot be read.
    """
    end_damage = None
    try:
        # Before the lives are listed: the one that it names is there by then.
        end = read_end_seal(folder)
    except DamagedError as error:
        end, end_damage = None, error.damage
    found = lives(folder)
    if found and found[-1][0] > MOST_LIVES:
        what = f"no run has as many as {MOST_LIVES:,} lives of its engine"
        raise DamagedError.of(Damage(path=str(found[-1][1]), what=what, unknown=LATER_UNKNOWN))
    newest = max(found[-1][0] if found else 0, end.life if end else 0)
    seals = {} if seal is None else {seal.life: seal}
    heads: dict[int, _Head] = {}
    # A newer life's seals were measured later, or are void themselves.
    for number, path in reversed(found):
        heads[number] = head = _read_head(number, path, seals.get(number))
        for each in head.seals:
            seals.setdefault(each.life, each)
    for number, damage in _find_foreign(folder, heads):
        heads[number] = _Head(checked=True, seals=(), damage=damage)
    if end is not None:
        seals.setdefault(end.life, Seal(life=end.life, bytes=end.bytes, crc=end.crc))
    # Seals before sizes: what was measured before a seal was written exists by then.
    sizes = {number: path.stat().st_size for number, path in found}
    extents = [
        _extent(life_path(folder, number), number, heads[number], sizes[number], seals.get(number))
        if number in heads
        else _missing(folder, number)
        for number in _numbers(heads, newest, seals)
    ]
    if end_damage and extents and not extents[-1].damage:
        extents[-1] = msgspec.structs.replace(extents[-1], damage=end_damage)
    return extents


def first_event(path: Path) -> Life:
    """Read the first event of a life's file.

    Raises
    ------
    RunUnreadableError
        The first event is not a `Life`, is missing or damaged, or has a newer format.
    """
    with open_stream(path) as file:
        return _read_life(file.readline(), path)


def decode_if_event(line: bytes) -> Event | None:
    """Decode a line; ``None`` if it is no event."""
    try:
        event: Event = decode_event(line)
    except DECODE_ERRORS:
        return None
    return event


def _numbers(heads: Mapping[int, _Head], newest: int, seals: Mapping[int, Seal]) -> Iterator[int]:
    """Yield the numbers of all lives, and the first of each gap that no later life declares lost."""
    before = 0
    for number in sorted({*heads, newest} - {0}):
        lost = (each for each in range(before + 1, number) if each not in seals or seals[each].bytes)
        yield from islice(lost, 1)
        yield number
        before = number


def _missing(folder: Path, number: int) -> LifeExtent:
    path = life_path(folder, number)
    damage = Damage(path=str(path), what="it is missing", unknown=f"what happened in life {number} is not known")
    return LifeExtent(number, path, 0, damage=damage)


def _extent(path: Path, number: int, head: _Head, size: int, seal: Seal | None) -> LifeExtent:
    if head.damage is not None:
        return LifeExtent(number, path, 0, damage=head.damage)
    if seal is None:
        return LifeExtent(number, path, _last_line_end(path, size), checked=head.checked, sealed=False)
    if size < seal.bytes:
        what = f"it is torn: it has {size} of the {seal.bytes} bytes that were sealed"
        damage = Damage(path=str(path), what=what, unknown=LATER_UNKNOWN)
        return LifeExtent(number, path, _last_line_end(path, size), checked=head.checked, damage=damage)
    return LifeExtent(number, path, seal.bytes, seal.crc, head.checked)


def _last_line_end(path: Path, size: int) -> int:
    """Return where the whole lines of a file end; its writer may be writing the last one just now."""
    with open_stream(path) as file:
        while size:
            begin = max(0, size - _TAIL_B)
            file.seek(begin)
            found = file.read(size - begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            size = begin
    return 0


def _read_head(number: int, path: Path, seal: Seal | None) -> _Head:
    if seal is not None and not seal.bytes:
        # Its loss was accepted: nothing of it counts.
        return _Head(checked=True, seals=())
    with open_stream(path) as file:
        line, next_line = file.readline(), file.readline()
    try:
        life = _read_life(line, path)
    except DamagedError as error:
        return _Head(checked=True, seals=(), damage=error.damage)
    if life.life != number:
        other = Damage(path=str(path), line=1, what=f"it is of life {life.life}, not {number}", unknown=LATER_UNKNOWN)
        return _Head(checked=True, seals=(), damage=other)
    checked = life.v > PLAIN_FORMAT or has_checksum(line)
    end = len(line) + len(next_line)
    second = None
    is_valid = next_line.endswith(b"\n") and end <= (seal.bytes if seal else end)
    if is_valid and (not checked or check_block(line + next_line, SEED) is not None):
        second = decode_if_event(next_line)
    seals = (*((life.seals,) if life.seals else ()), *(second.lives if isinstance(second, Sealed) else ()))
    return _Head(checked, seals, life=life)


def _find_foreign(folder: Path, heads: Mapping[int, _Head]) -> Iterator[tuple[int, Damage]]:
    """Yield the lives whose engine read another manifest than that of their submission, which is intact.

    Their files are of another run. What precedes an accepted loss was accepted with it.
    """
    intact: dict[int, str] = {}
    for number in sorted(heads, reverse=True):
        life = heads[number].life
        if life is None or not life.manifest:
            if life is not None and life.by == ACCEPT_LOSS:
                return
            continue
        if life.s not in intact:
            intact[life.s] = _digest_of_manifest(folder.parent / "submissions" / f"{life.s:04}.json")
        if intact[life.s] not in {"", life.manifest}:
            what = f"it is of another run: its engine read another manifest than 'submissions/{life.s:04}.json'"
            path = life_path(folder, number)
            yield number, Damage(path=str(path), line=1, what=what, unknown="what happened in this life is not known")


def _digest_of_manifest(path: Path) -> str:
    """Return the SHA-256 of a manifest; empty if it is missing or damaged, which its readers tell."""
    # Imported late: journals of older formats name no manifest.
    from hashlib import sha256

    try:
        text = read_file(path)
    except OSError:
        return ""
    return sha256(text).hexdigest() if is_intact(text) else ""


def _read_life(line: bytes, path: Path) -> Life:
    """Decode the first event of a life, and check it.

    Raises `DamagedError` if it is not as it was written, `RunUnreadableError` for a newer format.
    """
    what = "it is not as it was written"
    if not has_checksum(line) or check_block(line, SEED) is not None:
        try:
            first = decode_event(line)
        except DECODE_ERRORS as error:
            what = f"it is no event: {error}"
        else:
            if isinstance(first, Life) and first.v > FORMAT:
                raise RunUnreadableError(
                    f"'{path}' has format {first.v}; this Longshore reads up to {FORMAT}",
                    hint="Use the version that wrote it, or a newer one.",
                )
            if isinstance(first, Life) and (first.v == PLAIN_FORMAT or has_checksum(line)):
                return first
            what = "it has no checksum" if isinstance(first, Life) else "the file does not begin with the event 'life'"
    raise DamagedError.of(Damage(path=str(path), line=1, what=what, unknown="what happened in this life is not known"))


# Events in lists: a reader of a whole run takes a third less time for lists than for single events.


_Event = TypeVar("_Event")


class EventChunks(Iterator[_Event]):
    """Iterator of events, in order.

    `chunks` has the same events in lists, which a reader takes instead, not besides.
    """

    def __init__(self, chunks: Iterator[list[_Event]]) -> None:
        self.chunks = chunks
        self._events = chain.from_iterable(chunks)

    def __iter__(self) -> Iterator[_Event]:  # noqa: PYI034 - a loop then calls no function of Python per event
        """Return an iterator of the rest of the events."""
        return self._events

    def __next__(self) -> _Event:
        return next(self._events)


# Late events: facts that arrive after the end of a run, in a file of their own beside the sealed life.
# ``0001.late.jsonl`` goes on where ``0001.jsonl`` ends: with the next number, and with its running checksum. Nothing
# depends on these events, so a damaged line hides only itself and those behind it: readers warn, and go on.


_LATE_SUFFIX: Final = ".late.jsonl"
_LAST_B: Final = 1 << 12
"""Bytes at the end of a life that hold its last event, if that is the end of the run."""
_UNKNOWN: Final = "what some attempts used is not known"


class LateLines(msgspec.Struct, frozen=True):
    """Late lines of a life that count, and the damage behind them."""

    path: Path
    lines: bytes
    damage: Damage | None = None


class LateJournal:
    """Late events of one life, for its engine to write; they continue its last number and its running checksum."""

    def __init__(self, folder: Path, life: int, *, number: int, crc: int) -> None:
        self._file = AppendedFile(late_path(folder, life), below=folder.parent)
        self._number = number
        self._crc = crc

    def write(self, events: Iterable[AttemptFacts], *, now: float) -> None:
        """Write events durably; raises `OSError` if they may be lost."""
        for event in events:
            self._number += 1
            line, self._crc = add_checksum(encode(msgspec.structs.replace(event, n=self._number, t=now)), self._crc)
            self._file.add(line)
        self._file.commit()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def late_path(folder: Path, life: int) -> Path:
    """Return the path of a life's late events."""
    return folder / f"{life:04}{_LATE_SUFFIX}"


def path_of_life(path: Path) -> Path:
    """Return the path of the life that a file of events belongs to."""
    name = path.name
    return life_path(path.parent, int(name.removesuffix(_LATE_SUFFIX))) if name.endswith(_LATE_SUFFIX) else path


def _is_whole(extent: LifeExtent) -> bool:
    """Whether the counted part of a life reaches the end of the run: only late lines follow it."""
    if not extent.end:
        return False
    with open_stream(extent.path) as file:
        file.seek(max(0, extent.end - _LAST_B))
        last = file.read(extent.end - file.tell()).splitlines(keepends=True)[-1:]
    return any(isinstance(decode_if_event(line), Finished) for line in last)


def read_late_lines(extent: LifeExtent) -> LateLines | None:
    """Return the late lines of a life; ``None`` without any."""
    if not extent.sealed or not extent.checked or extent.damage is not None or extent.crc is None:
        return None
    path = late_path(extent.path.parent, extent.life)
    try:
        text = read_file(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        unread = f"it cannot be read: {error.strerror}"
        return LateLines(path, b"", Damage(path=str(path), what=unread, unknown=_UNKNOWN))
    # Its writer may be writing the last line just now.
    lines = text[: text.rfind(b"\n") + 1]
    if check_block(lines, extent.crc) is not None:
        return LateLines(path, lines)
    if not _is_whole(extent):
        # They continue lines whose loss was accepted, and are lost with them.
        return None
    bad = next(find_bad_lines(lines, extent.crc))
    what = "it is not as it was written, or lines before it are missing"
    return LateLines(path, lines[: bad.offset], Damage(path=str(path), line=bad.line, what=what, unknown=_UNKNOWN))


# Reader: yields the valid events of a run, all or since a mark, as blocks that bound its memory. Late events of a life
# come behind it.


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


# Writer: the journal of one life, for its engine; and what the next life has to know of those before.


_PROGRESS: Final = (Started, Ended, Lost, Failed, Steer, Restarted, LossAccepted, Finished)
"""Events that show progress, or that a user changed something: a life without any has achieved nothing."""


class Journal:
    """Journal file of one life, for its engine to write; `life` is the first event.

    Raises
    ------
    SubmissionRefusedError
        Another engine began this life first.
    """

    def __init__(self, folder: Path, life: Life) -> None:
        self._folder = folder
        self._life = life.life
        self._next = life_path(folder, life.life + 1)
        self._path = path = life_path(folder, life.life)
        line, self._crc = add_checksum(encode(life), SEED)
        try:
            create_atomically(path, line, below=folder.parent)
        except FileExistsError:
            raise SubmissionRefusedError(
                f"another engine has just taken this run up: '{path}' is there already",
                hint="There is nothing to do: that engine runs it.",
            ) from None
        self._file = AppendedFile(path, below=folder.parent)
        self._local = is_local_file_system(folder)
        self._number = 0
        self._is_over = False
        self._is_sealed = False

    def seal(self, seen: Seal | None, *, now: float) -> list[Event]:
        """Seal the lives before this one; return the events of the newest that came after `seen`, the part read.

        The seal is void until it is committed; nothing may be done before. `now` is the time of day. What is sealed is
        made durable first: an engine that was killed may have left events that only the system's cache has.
        """
        if seen is None:
            return []
        extents = [each for each in measure_lives(self._folder) if each.life <= seen.life]
        newest = extents[-1]
        older = [each for each in extents[:-1] if not each.sealed]
        for extent in (newest, *older):
            sync_file(extent.path)
        self.append(Sealed(lives=tuple(seal_of(each) for each in (newest, *reversed(older)))), now=now)
        with open_stream(newest.path) as file:
            file.seek(seen.bytes)
            rest = file.read(newest.end - seen.bytes)
        return [_decode_line(line, newest.path) for line in rest.splitlines(keepends=True)]

    def append(self, event: Event, *, now: float) -> Event:
        """Add an event to the group that the next `commit` writes; return it with its number and time.

        Raises
        ------
        ValueError
            The end of the run is sealed: nothing may be written behind it.
        """
        if self._is_over:
            raise ValueError(f"'{self._path}' is sealed, and takes no event: {type(event).__name__}")
        self._number += 1
        event = msgspec.structs.replace(event, n=self._number, t=now)
        line, self._crc = add_checksum(encode(event), self._crc)
        self._file.add(line)
        return event

    def flush(self) -> None:
        """Write the appended events, without waiting for the disk.

        Raises
        ------
        OSError
            For example, the disk is full. Events not yet written are kept, and the next call continues with them.
        """
        self._file.flush()

    def commit(self) -> None:
        """Write the appended events and wait until they are durable.

        Raises
        ------
        OSError
            As for `flush`; nothing may be done on the strength of the events.
        """
        self._file.commit()

    def seal_end(self, end: Finished) -> None:
        """Seal this life as the last one of a run that is over; its events are durable.

        Raises
        ------
        OSError
            The seal cannot be written; the run is over all the same.
        """
        self._is_over = True
        size = self._file.size
        seal = EndSeal(life=self._life, bytes=size, crc=self._crc, n=self._number, t=end.t, state=end.state)
        write_end_seal(self._folder, seal)
        self._is_sealed = True

    def begin_late(self) -> LateJournal | None:
        """Return the journal of what arrives after the end; ``None`` if the end is not sealed."""
        if not self._is_sealed:
            return None
        return LateJournal(self._folder, self._life, number=self._number, crc=self._crc)

    @property
    def number(self) -> int:
        """Number of the newest event of this life."""
        return self._number

    @property
    def superseded(self) -> bool:
        """Whether a newer life has begun, so that this one must stop and touch nothing.

        Raises
        ------
        OSError
            The folder cannot be read, so that nothing may be done for now.
        """
        if not self._local:
            return exists_uncached(self._next)
        try:
            files.stat(self._next)
        except FileNotFoundError:
            return False
        return True

    @property
    def gone(self) -> bool:
        """Return whether the file was moved or deleted: readers would not find new lines.

        Raises
        ------
        OSError
            The path cannot be checked.
        """
        try:
            return not is_file_at(self._file.file, self._path)
        except FileNotFoundError:
            return not exists_uncached(self._path)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def next_life(folder: Path) -> tuple[int, Seal | None]:
    """Return the number of the next life, and the seal that it puts on the life before.

    Raises
    ------
    RunUnreadableError
        A file is of a newer format, or a life is damaged.
    """
    extents = measure_lives(folder)
    for each in extents:
        if each.damage is not None:
            raise DamagedError.of(each.damage)
    if not extents:
        return 1, None
    newest = extents[-1]
    return newest.life + 1, seal_of(newest)


def newest_life(folder: Path) -> Life | None:
    """Return the first event of the newest life; ``None`` without a life."""
    files = lives(folder)
    return first_event(files[-1][1]) if files else None


def seal_of(extent: LifeExtent) -> Seal:
    """Return the seal on all that counts of a life."""
    crc = extent.crc
    if crc is None:
        with open_stream(extent.path) as file:
            crc = crc32(file.read(extent.end))
    return Seal(life=extent.life, bytes=extent.end, crc=crc)


def seal_finished(folder: Path) -> None:
    """Seal the end of a run that is over, where its engine died before it did.

    Raises
    ------
    DamagedError
        The journal or its seal is not as it was written.
    OSError
        The seal cannot be written.
    """
    extents = measure_lives(folder)
    if not extents or not extents[-1].checked or extents[-1].sealed:
        return
    newest, last = extents[-1], b""
    for block in read_life(newest):
        last = block.lines[block.lines.rfind(b"\n", 0, -1) + 1 :]
    event = _decode_line(last, newest.path) if last else None
    if isinstance(event, Finished):
        crc = seal_of(newest).crc or SEED
        seal = EndSeal(life=newest.life, bytes=newest.end, crc=crc, n=event.n, t=event.t, state=event.state)
        write_end_seal(folder, seal)


def count_fruitless_lives(folder: Path) -> int:
    """Count the newest lives in a row that died without any news of a job or any intervention carried out.

    Raises
    ------
    RunUnreadableError
        A file is of a newer format, or has a line that counts and is not an event.
    """
    number = 0
    for extent in reversed(measure_lives(folder)):
        if any(isinstance(_decode_line(line, extent.path), _PROGRESS) for line in _counted_lines(extent)):
            break
        number += 1
    return number


def _counted_lines(extent: LifeExtent) -> Iterator[bytes]:
    """Yield the lines of a life that count: those behind an accepted loss may be anything."""
    left = extent.end
    if not left:
        return
    with open_stream(extent.path) as file:
        for line in file:
            left -= len(line)
            if left < 0:
                return
            yield line


def _decode_line(line: bytes, path: Path) -> Event:
    try:
        event: Event = decode_event(line)
    except DECODE_ERRORS as error:
        raise RunUnreadableError(f"'{path}' has a line that is no event: {error}") from error
    return event
