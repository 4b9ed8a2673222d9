"""Chain of a journal's lives: how much of each counts, by the seals of later lives and by the seal of the run's end.

Lives are numbered from 1 without gaps. Each seals those before it with their lengths and checksums. The last one is
sealed by ``end.json`` once the run is over. So a life that is missing, shorter or another one is damage; only lines at
the end of the last life may be missing without a trace, as after a crash. The reason is in decision 0060.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

import msgspec

from longshore.errors import DECODE_ERRORS, RunUnreadableError
from longshore.model.event import ACCEPT_LOSS, FORMAT, MOST_LIVES, PLAIN_FORMAT, Event, Life, Seal, Sealed, decode_event
from longshore.model.json_lines import SEED, add_checksum, check_block, has_checksum, is_intact
from longshore.model.report import Damage, DamagedError
from longshore.model.states import JobState
from longshore.system.atomic import write_atomically
from longshore.system.files import files
from longshore.system.folder import move
from longshore.system.reading import open_stream, read_file

_SUFFIX: Final = ".jsonl"
END_SEAL: Final = "end.json"
"""Name of the file that seals the last life of a run that is over."""
_BLOCK_B: Final = 1 << 18
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
            begin = max(0, size - _BLOCK_B)
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
