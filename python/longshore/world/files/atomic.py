"""Atomic file writes, appends and moves: readers see the old content or the new, never a part.

The keeper, which runs without this package, writes its own files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

_BUFFER: Final = 1 << 18


def draft_path(path: Path) -> Path:
    """Return a hidden, unguessable name beside a path for its unfinished version."""
    return path.with_name(f".{path.name[:200]}.{os.urandom(6).hex()}.draft")


@contextmanager
def atomic_file(path: Path, *, durable: bool = False) -> Iterator[BinaryIO]:
    """Open a draft that replaces the file when the body succeeds, and is removed when it fails.

    With `durable`, the content is on disk before the file gets its name.
    """
    draft = draft_path(path)
    try:
        with draft.open("xb", _BUFFER) as file:
            yield file
            if durable:
                _flush_to_disk(file)
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def write_atomically(path: Path, content: bytes | str, *, durable: bool = False) -> None:
    """Replace the content of a file; see `atomic_file`."""
    with atomic_file(path, durable=durable) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def create_atomically(path: Path, content: bytes) -> None:
    """Create a file with its content, durably; raises `FileExistsError` when it exists."""
    draft = draft_path(path)
    try:
        create_file(draft, [content], durable=True)
        # A link, unlike a rename, fails when the name is taken; unlike O_EXCL it never shows an empty file.
        os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def create_file(path: Path, chunks: Iterable[bytes], *, durable: bool = False) -> None:
    """Create a file and write it in place, for folders that have no readers yet.

    Raises `FileExistsError` when the file exists.
    """
    with path.open("xb", _BUFFER) as file:
        file.writelines(chunks)
        if durable:
            _flush_to_disk(file)


def move(source: Path, target: Path) -> None:
    """Rename a file or folder; replaces a file of the new name."""
    source.replace(target)


def open_to_append(path: Path) -> BinaryIO:
    """Open a file for another process to append to; creates it if missing."""
    return path.open("ab")


def file_system_time(folder: Path) -> float:
    """Return the time on the clock that dates a folder's files, which may be a file server's."""
    probe = draft_path(folder / "clock")
    create_file(probe, ())
    try:
        return probe.stat().st_mtime
    finally:
        probe.unlink()


def is_file_at(file: int, path: Path) -> bool:
    """Whether an open file is still the one at a path.

    Raises `FileNotFoundError` when the path does not exist, and `OSError` when that cannot be determined.
    """
    return os.path.samestat(path.stat(), os.fstat(file))


class AppendedFile:
    """An append-only file; content that cannot be written is kept, and the next call continues there."""

    def __init__(self, path: Path) -> None:
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        self._buffer = bytearray()
        self._durable = True

    def add(self, line: bytes) -> None:
        """Add a line to the content that `flush` writes."""
        self._buffer += line

    def flush(self) -> None:
        """Write the added content, without waiting for the disk."""
        while self._buffer:
            self._durable = False
            written = os.write(self.file, self._buffer)
            del self._buffer[:written]

    def commit(self) -> None:
        """Write the added content and wait until it is on disk."""
        self.flush()
        if not self._durable:
            os.fdatasync(self.file)
            self._durable = True

    @property
    def size(self) -> int:
        """Size of the file, without content not yet flushed."""
        return os.fstat(self.file).st_size

    def close(self) -> None:
        """Close the file; content not yet flushed is lost."""
        os.close(self.file)


def _flush_to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
