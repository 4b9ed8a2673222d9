"""Journal of a run: append-only event files, one per life of its engine, with seals against superseded engines.

A life's file is created exclusively, complete with its first event: if two engines begin at once, one gives way.
An engine checks for a newer life before each act. Whatever the previous engine did was therefore in its journal before
this life's file existed. This life then measures the previous file, and its second event seals it at that length.
What a superseded engine writes after that is void, but nothing that it did is lost. The reason is in decision 0010.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec

from longshore.engine.journal.chain import (
    EndSeal,
    LifeExtent,
    first_event,
    life_path,
    lives,
    measure_lives,
    write_end_seal,
)
from longshore.engine.journal.late import LateJournal
from longshore.engine.journal.read_journal import read_life
from longshore.errors import DECODE_ERRORS, RunUnreadableError, SubmissionRefusedError
from longshore.model.event import (
    Ended,
    Event,
    Failed,
    Finished,
    Life,
    LossAccepted,
    Lost,
    Restarted,
    Seal,
    Sealed,
    Started,
    Steer,
    decode_event,
)
from longshore.model.json_lines import SEED, add_checksum, encode
from longshore.model.report import DamagedError
from longshore.system.atomic import AppendedFile, create_atomically, is_file_at, sync_file
from longshore.system.files import files
from longshore.system.reading import exists_uncached, is_local_file_system, open_stream

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
        return [_decode(line, newest.path) for line in rest.splitlines(keepends=True)]

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
    event = _decode(last, newest.path) if last else None
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
        if any(isinstance(_decode(line, extent.path), _PROGRESS) for line in _lines(extent)):
            break
        number += 1
    return number


def _lines(extent: LifeExtent) -> Iterator[bytes]:
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


def _decode(line: bytes, path: Path) -> Event:
    try:
        event: Event = decode_event(line)
    except DECODE_ERRORS as error:
        raise RunUnreadableError(f"'{path}' has a line that is no event: {error}") from error
    return event
