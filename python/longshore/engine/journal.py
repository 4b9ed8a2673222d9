"""The journal of a run: one file of events per life of its engine, and nothing in it is ever changed.

A life's file is made whole with its first event, exclusively, so that of two engines that begin at once one gives way.
That first event seals the life before at the length it had then: what a superseded engine still writes is void.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from longshore.errors import RunUnreadableError, SubmissionRefusedError
from longshore.model.codec import decode_event, encode_line
from longshore.model.event import FORMAT, Event, Life, Seal

_SUFFIX: Final = ".jsonl"


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
        self._next = folder / _file_name(life.life + 1)
        self._path = path = folder / _file_name(life.life)
        _create_exclusively(path, encode_line(life))
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)
        self._number = 0
        self._buffer = bytearray()
        self._durable = True

    def append(self, event: Event, *, now: float) -> Event:
        """Add an event to the group that the next `commit` writes, and return it with its number and time."""
        self._number += 1
        event = msgspec.structs.replace(event, n=self._number, t=now)
        self._buffer += encode_line(event)
        return event

    def flush(self) -> None:
        """Write what was appended, without waiting for the disk.

        Raises
        ------
        OSError
            The disk is full, say. Nothing is lost: what was not written is kept, and the next call goes on from there.
        """
        while self._buffer:
            self._durable = False
            written = os.write(self._file, self._buffer)
            del self._buffer[:written]

    def commit(self) -> None:
        """Write what was appended and wait until it is durable.

        Raises
        ------
        OSError
            As for `flush`; nothing may be done on the strength of the events.
        """
        self.flush()
        if not self._durable:
            os.fdatasync(self._file)
            self._durable = True

    @property
    def number(self) -> int:
        """Number of the newest event of this life."""
        return self._number

    @property
    def superseded(self) -> bool:
        """Whether a newer life has begun, so that this one must stop and touch nothing."""
        return self._next.exists()

    @property
    def gone(self) -> bool:
        """Whether the file is no longer where it was made: what is written there now, others will not find."""
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(self._file))
        except FileNotFoundError:
            return True

    def close(self) -> None:
        """Let the file go."""
        os.close(self._file)


def lives(folder: Path) -> list[tuple[int, Path]]:
    """The files of a journal by number of life, oldest first."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    numbered = ((name.removesuffix(_SUFFIX), folder / name) for name in names if name.endswith(_SUFFIX))
    return sorted((int(number), path) for number, path in numbered if number.isdigit())


def read_events(folder: Path, *, seal: Seal | None = None) -> Iterator[Event]:
    """All events of a run that count, in order.

    Parameters
    ----------
    folder
        The run's journal folder.
    seal
        A seal about to be put on the newest life, which may still be writing.

    Raises
    ------
    RunUnreadableError
        A file is of a newer format, or a line that counts is gone or is no event.
    """
    files = [(number, path, path.read_bytes()) for number, path in lives(folder)]
    seals = _seals(files)
    if seal:
        seals[seal.life] = seal.bytes
    for number, path, text in files:
        end = seals.get(number, len(text))
        if len(text) < end:
            raise RunUnreadableError(f"'{path}' is torn: it has {len(text)} of the {end} bytes that were sealed")
        for line in text[:end].splitlines(keepends=True):
            # The newest life may be writing its last line just now.
            if line.endswith(b"\n"):
                yield _decode(line, path)


def next_life(folder: Path) -> tuple[int, Seal | None]:
    """Number of the life to come, and the seal it puts on the one before."""
    before = lives(folder)
    if not before:
        return 1, None
    number, path = before[-1]
    text = path.read_bytes()
    return number + 1, Seal(life=number, bytes=text.rfind(b"\n") + 1)


def _seals(files: Iterable[tuple[int, Path, bytes]]) -> dict[int, int]:
    seals = {}
    for _, path, text in files:
        first = _decode(text[: text.find(b"\n") + 1], path)
        if not isinstance(first, Life):
            raise RunUnreadableError(f"'{path}' does not begin with the event 'life'")
        if first.v > FORMAT:
            raise RunUnreadableError(
                f"'{path}' has format {first.v}; this Longshore reads up to {FORMAT}",
                hint="Use the version that wrote it, or a newer one.",
            )
        if first.seals:
            seals[first.seals.life] = first.seals.bytes
    return seals


def _decode(line: bytes, path: Path) -> Event:
    try:
        event: Event = decode_event(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RunUnreadableError(f"'{path}' has a line that is no event: {error}") from error
    return event


def _file_name(life: int) -> str:
    return f"{life:04}{_SUFFIX}"


def _create_exclusively(path: Path, text: bytes) -> None:
    # A link, unlike a rename, fails when the name is taken; unlike O_EXCL it never shows an empty file.
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    try:
        with draft.open("wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        raise SubmissionRefusedError(
            f"another engine has just taken this run up: '{path}' is there already",
            hint="There is nothing to do: that engine runs it.",
        ) from None
    finally:
        draft.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
