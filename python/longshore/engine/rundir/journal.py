"""Journal of a run: append-only event files, one per life of its engine, with seals against superseded engines.

A life's file is created exclusively, complete with its first event: if two engines begin at once, one gives way.
An engine checks for a newer life before each act. Whatever the previous engine did was therefore in its journal before
this life's file existed. This life then measures the previous file, and its second event seals it at that length.
What a superseded engine writes after that is void, but nothing that it did is lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from longshore.errors import RunUnreadableError, SubmissionRefusedError
from longshore.model.decode_errors import DECODE_ERRORS
from longshore.model.lines.codec import decode_event, encode_line
from longshore.model.run.event import (
    FORMAT,
    Ended,
    Event,
    Failed,
    Finished,
    Life,
    Lost,
    Restarted,
    Seal,
    Sealed,
    Started,
    Steer,
)
from longshore.world.files.atomic import AppendedFile, create_atomically, is_file_at
from longshore.world.files.presence import exists_uncached, is_local_file_system
from longshore.world.files.read_file import open_stream

_SUFFIX: Final = ".jsonl"
_PROGRESS: Final = (Started, Ended, Lost, Failed, Steer, Restarted, Finished)
"""Events that show progress: a life without any has achieved nothing."""


class Journal:
    """Journal file of one life, for its engine to write; `life` is the first event.

    Raises
    ------
    SubmissionRefusedError
        Another engine began this life first.
    """

    def __init__(self, folder: Path, life: Life) -> None:
        self._folder = folder
        self._next = life_path(folder, life.life + 1)
        self._path = path = life_path(folder, life.life)
        try:
            create_atomically(path, encode_line(life))
        except FileExistsError:
            raise SubmissionRefusedError(
                f"another engine has just taken this run up: '{path}' is there already",
                hint="There is nothing to do: that engine runs it.",
            ) from None
        self._file = AppendedFile(path)
        self._local = is_local_file_system(folder)
        self._number = 0

    def seal(self, seen: Seal | None, *, now: float) -> list[Event]:
        """Seal the lives before this one; return the events of the newest that came after `seen`, the part read.

        The seal is void until it is committed; nothing may be done before. `now` is the time of day.
        """
        if seen is None:
            return []
        path = life_path(self._folder, seen.life)
        with open_stream(path) as file:
            file.seek(seen.bytes)
            rest = file.read()
        rest = rest[: rest.rfind(b"\n") + 1]
        seals = [Seal(life=seen.life, bytes=seen.bytes + len(rest)), *_unsealed(self._folder, seen.life)]
        self.append(Sealed(lives=tuple(seals)), now=now)
        return [_decode(line, path) for line in rest.splitlines(keepends=True)]

    def append(self, event: Event, *, now: float) -> Event:
        """Add an event to the group that the next `commit` writes; return it with its number and time."""
        self._number += 1
        event = msgspec.structs.replace(event, n=self._number, t=now)
        self._file.add(encode_line(event))
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
            self._next.stat()
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


def life_path(folder: Path, life: int) -> Path:
    """Return the path of a life's file."""
    return folder / _file_name(life)


def lives(folder: Path) -> list[tuple[int, Path]]:
    """Return the files of a journal by number of life, oldest first."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    numbered = ((name.removesuffix(_SUFFIX), folder / name) for name in names if name.endswith(_SUFFIX))
    return sorted((int(number), path) for number, path in numbered if number.isdigit())


def next_life(folder: Path) -> tuple[int, Seal | None]:
    """Return the number of the next life, and the seal that it puts on the life before."""
    before = lives(folder)
    if not before:
        return 1, None
    number, path = before[-1]
    return number + 1, Seal(life=number, bytes=_whole_lines(path))


def newest_life(folder: Path) -> Life | None:
    """Return the first event of the newest life; ``None`` without a life."""
    files = lives(folder)
    return first_event(files[-1][1]) if files else None


def _unsealed(folder: Path, before: int) -> Iterator[Seal]:
    """Yield seals for lives older than `before` whose successors died before they could seal them."""
    older = [(number, path) for number, path in lives(folder) if number <= before]
    sealed = sealed_lengths(older)
    for number, path in reversed(older):
        if number < before and number not in sealed:
            yield Seal(life=number, bytes=_whole_lines(path))


def _whole_lines(path: Path) -> int:
    """Return the bytes of a file up to the end of its last whole line."""
    with open_stream(path) as file:
        return file.read().rfind(b"\n") + 1


def first_event(path: Path) -> Life:
    """Read the first event of a life's file.

    Raises
    ------
    RunUnreadableError
        The first event is not a `Life`, is missing, or has a newer format.
    """
    with open_stream(path) as file:
        return _decode_life(file.readline(), path)


def _decode_life(line: bytes, path: Path) -> Life:
    first = _decode(line, path)
    if not isinstance(first, Life):
        raise RunUnreadableError(f"'{path}' does not begin with the event 'life'")
    if first.v > FORMAT:
        raise RunUnreadableError(
            f"'{path}' has format {first.v}; this Longshore reads up to {FORMAT}",
            hint="Use the version that wrote it, or a newer one.",
        )
    return first


def count_fruitless_lives(folder: Path) -> int:
    """Count the newest lives in a row that died without any news of a job or any intervention carried out.

    Raises
    ------
    RunUnreadableError
        A file is of a newer format, or has a line that is not an event.
    """
    number = 0
    for _, path in reversed(lives(folder)):
        with open_stream(path) as file:
            if any(isinstance(_decode(line, path), _PROGRESS) for line in file if line.endswith(b"\n")):
                break
        number += 1
    return number


def sealed_lengths(files: Sequence[tuple[int, Path]], seal: Seal | None = None) -> dict[int, int]:
    """Return the valid bytes of each sealed life, by its number.

    Files come oldest first; `seal` is one about to be put on the newest life.

    Raises
    ------
    RunUnreadableError
        A file does not begin with the first event of a life, or is of a newer format.
    """
    seals = {} if seal is None else {seal.life: seal.bytes}
    for number, path in reversed(files):
        with open_stream(path) as file:
            line, next_line = file.readline(), file.readline()
        first = _decode_life(line, path)
        end = len(line) + len(next_line)
        second = _decode(next_line, path) if next_line.endswith(b"\n") and end <= seals.get(number, end) else None
        for each in (*((first.seals,) if first.seals else ()), *(second.lives if isinstance(second, Sealed) else ())):
            seals.setdefault(each.life, each.bytes)
    return seals


def _decode(line: bytes, path: Path) -> Event:
    try:
        event: Event = decode_event(line)
    except DECODE_ERRORS as error:
        raise RunUnreadableError(f"'{path}' has a line that is no event: {error}") from error
    return event


def _file_name(life: int) -> str:
    return f"{life:04}{_SUFFIX}"
