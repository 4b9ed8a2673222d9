"""The journal of a run: one file of events per life of its engine, and nothing in it is ever changed.

A life's file is made whole with its first event, exclusively, so that of two engines that begin at once one gives way.
An engine looks for a newer life before each act. So whatever the engine before did, it had written down before this
life's file was there; and its file, measured after that, is sealed at that length by this life's second event: what a
superseded engine still writes is void, and what it did is not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from longshore.errors import RunUnreadableError, SubmissionRefusedError
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
from longshore.world.files.atomic import AppendedFile, create_atomically, is_at
from longshore.world.files.presence import is_surely_local, is_there

_SUFFIX: Final = ".jsonl"
_PROGRESS: Final = (Started, Ended, Lost, Failed, Steer, Restarted, Finished)
"""Events without which a life has achieved nothing."""


class Journal:
    """The file of one life, for its engine to write.

    Parameters
    ----------
    folder
        The run's journal folder.
    life
        The first event.

    Raises
    ------
    SubmissionRefusedError
        Another engine began this life first.
    """

    def __init__(self, folder: Path, life: Life) -> None:
        self._folder = folder
        self._next = path_of(folder, life.life + 1)
        self._path = path = path_of(folder, life.life)
        try:
            create_atomically(path, encode_line(life))
        except FileExistsError:
            raise SubmissionRefusedError(
                f"another engine has just taken this run up: '{path}' is there already",
                hint="There is nothing to do: that engine runs it.",
            ) from None
        self._file = AppendedFile(path)
        self._local = is_surely_local(folder)
        self._number = 0

    def seal(self, seen: Seal | None, *, now: float) -> list[Event]:
        """Seal the lives before this one, and return what the newest of them wrote since it was read.

        The seal is void until it is committed; nothing may be done before.

        Parameters
        ----------
        seen
            How much of the newest was read.
        now
            The time of day.
        """
        if seen is None:
            return []
        path = path_of(self._folder, seen.life)
        with path.open("rb") as file:
            file.seek(seen.bytes)
            rest = file.read()
        rest = rest[: rest.rfind(b"\n") + 1]
        seals = [Seal(life=seen.life, bytes=seen.bytes + len(rest)), *_unsealed(self._folder, seen.life)]
        self.append(Sealed(lives=tuple(seals)), now=now)
        return [_decode(line, path) for line in rest.splitlines(keepends=True)]

    def append(self, event: Event, *, now: float) -> Event:
        """Add an event to the group that the next `commit` writes, and return it with its number and time."""
        self._number += 1
        event = msgspec.structs.replace(event, n=self._number, t=now)
        self._file.add(encode_line(event))
        return event

    def flush(self) -> None:
        """Write what was appended, without waiting for the disk.

        Raises
        ------
        OSError
            The disk is full, say. Nothing is lost: what was not written is kept, and the next call goes on from there.
        """
        self._file.flush()

    def commit(self) -> None:
        """Write what was appended and wait until it is durable.

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
            It cannot be told, so that nothing may be done for now.
        """
        if not self._local:
            return is_there(self._next)
        try:
            self._next.stat()
        except FileNotFoundError:
            return False
        return True

    @property
    def gone(self) -> bool:
        """Whether the file is no longer where it was made: what is written there now, others will not find.

        Raises
        ------
        OSError
            It cannot be told.
        """
        try:
            return not is_at(self._file.file, self._path)
        except FileNotFoundError:
            return not is_there(self._path)

    def close(self) -> None:
        """Let the file go."""
        self._file.close()


def path_of(folder: Path, life: int) -> Path:
    """Path of the file of a life."""
    return folder / _file_name(life)


def lives(folder: Path) -> list[tuple[int, Path]]:
    """The files of a journal by number of life, oldest first."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    numbered = ((name.removesuffix(_SUFFIX), folder / name) for name in names if name.endswith(_SUFFIX))
    return sorted((int(number), path) for number, path in numbered if number.isdigit())


def next_life(folder: Path) -> tuple[int, Seal | None]:
    """Number of the life to come, and the seal it puts on the one before."""
    before = lives(folder)
    if not before:
        return 1, None
    number, path = before[-1]
    text = path.read_bytes()
    return number + 1, Seal(life=number, bytes=text.rfind(b"\n") + 1)


def newest_life(folder: Path) -> Life | None:
    """The first event of the newest life."""
    files = lives(folder)
    return first_event(files[-1][1]) if files else None


def _unsealed(folder: Path, before: int) -> Iterator[Seal]:
    """Seals for lives older than one, whose successors died before they could seal them."""
    older = [(number, path) for number, path in lives(folder) if number <= before]
    sealed = sealed_lengths(older)
    for number, path in reversed(older):
        if number < before and number not in sealed:
            yield Seal(life=number, bytes=path.read_bytes().rfind(b"\n") + 1)


def first_event(path: Path) -> Life:
    """The event with which a life's file begins.

    Raises
    ------
    RunUnreadableError
        It is another, none, or of a newer format.
    """
    with path.open("rb") as file:
        return _life(file.readline(), path)


def _life(line: bytes, path: Path) -> Life:
    first = _decode(line, path)
    if not isinstance(first, Life):
        raise RunUnreadableError(f"'{path}' does not begin with the event 'life'")
    if first.v > FORMAT:
        raise RunUnreadableError(
            f"'{path}' has format {first.v}; this Longshore reads up to {FORMAT}",
            hint="Use the version that wrote it, or a newer one.",
        )
    return first


def fruitless_lives(folder: Path) -> int:
    """How many lives have died in a row without any news of a job, or an order taken.

    Raises
    ------
    RunUnreadableError
        A file is of a newer format, or holds a line that is no event.
    """
    number = 0
    for _, path in reversed(lives(folder)):
        with path.open("rb") as file:
            if any(isinstance(_decode(line, path), _PROGRESS) for line in file if line.endswith(b"\n")):
                break
        number += 1
    return number


def sealed_lengths(files: Sequence[tuple[int, Path]], seal: Seal | None = None) -> dict[int, int]:
    """How many bytes count of each life that is sealed.

    Parameters
    ----------
    files
        The files of a journal, oldest first.
    seal
        A seal about to be put on the newest life.

    Raises
    ------
    RunUnreadableError
        A file does not begin as one of a life does, or is of a newer format.
    """
    seals = {} if seal is None else {seal.life: seal.bytes}
    for number, path in reversed(files):
        with path.open("rb") as file:
            line, next_line = file.readline(), file.readline()
        first = _life(line, path)
        end = len(line) + len(next_line)
        second = _decode(next_line, path) if next_line.endswith(b"\n") and end <= seals.get(number, end) else None
        for each in (*((first.seals,) if first.seals else ()), *(second.lives if isinstance(second, Sealed) else ())):
            seals.setdefault(each.life, each.bytes)
    return seals


def _decode(line: bytes, path: Path) -> Event:
    try:
        event: Event = decode_event(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RunUnreadableError(f"'{path}' has a line that is no event: {error}") from error
    return event


def _file_name(life: int) -> str:
    return f"{life:04}{_SUFFIX}"
