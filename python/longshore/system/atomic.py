"""Atomic file writes, appends and moves: readers see the old content or the new, never a part.

Drafts have unguessable names and are created exclusively, in the folder that the walk of
`longshore.system.folder` reached; the argument `below` is explained there. The keeper, which runs without this
package, writes its own files.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, cast

from longshore.system.files import RawFile, files
from longshore.system.folder import open_below, open_parent, remove_file, sync_folder

_BUFFER: Final = 1 << 18
_COPY: Final = 1 << 20
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT


def draft_path(path: Path) -> Path:
    """Return a hidden, unguessable name beside a path for its unfinished version."""
    return path.with_name(_draft_name(path.name))


@contextmanager
def atomic_file(
    path: Path, *, below: Path | None = None, durable: bool = False, mode: int = 0o666
) -> Iterator[BinaryIO]:
    """Open a draft that replaces the file when the body succeeds, and is removed when it fails.

    With `durable`, the content is on disk before the file gets its name, and the name before this returns. The umask
    takes permissions from `mode`.
    """
    with open_parent(path, below) as (folder, name):
        draft = _draft_name(name)
        try:
            with _open_writer(files.open(draft, _CREATE, mode, dir_fd=folder)) as file:
                yield file
                if durable:
                    _flush_to_disk(file)
            files.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                files.unlink(draft, dir_fd=folder)
            raise
    if durable:
        sync_folder(path.parent, below=below)


def write_atomically(
    path: Path, content: bytes | str, *, below: Path | None = None, durable: bool = False, mode: int = 0o666
) -> None:
    """Replace the content of a file; see `atomic_file`."""
    with atomic_file(path, below=below, durable=durable, mode=mode) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def create_atomically(path: Path, content: bytes, *, below: Path | None = None) -> None:
    """Create a file with its content, durably; raises `FileExistsError` when it exists."""
    with open_parent(path, below) as (folder, name):
        draft = _draft_name(name)
        try:
            with _open_writer(files.open(draft, _CREATE, 0o666, dir_fd=folder)) as file:
                file.write(content)
                _flush_to_disk(file)
            # A link, unlike a rename, fails when the name is taken; unlike O_EXCL it never shows an empty file.
            files.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            with suppress(FileNotFoundError):
                files.unlink(draft, dir_fd=folder)
    sync_folder(path.parent, below=below)


def create_file(
    path: Path,
    chunks: Iterable[bytes],
    *,
    below: Path | None = None,
    mode: int | None = None,
    durable: bool = False,
    sparse: bool = False,
) -> None:
    """Create a file and write it in place, for folders that have no readers yet.

    `mode` sets the permissions, whatever the umask. With `sparse`, a chunk of zeros takes no room. Raises
    `FileExistsError` when the file exists.
    """
    with _open_writer(open_below(path, _CREATE, below=below)) as file:
        if sparse:
            _write_sparse(file, chunks)
        else:
            file.writelines(chunks)
        if mode is not None:
            files.fchmod(file.fileno(), mode)
        if durable:
            _flush_to_disk(file)


def _write_sparse(file: BinaryIO, chunks: Iterable[bytes]) -> None:
    for chunk in chunks:
        if chunk.count(0) == len(chunk):
            file.seek(len(chunk), os.SEEK_CUR)
        else:
            file.write(chunk)
    file.flush()
    files.ftruncate(file.fileno(), file.tell())


def copy_file(source: Path, target: Path, *, below: Path | None = None) -> None:
    """Copy a file with its permissions and times; raises `FileExistsError` when the target exists."""
    with source.open("rb") as original:
        create_file(target, iter(partial(original.read, _COPY), b""), below=below)
        status = os.fstat(original.fileno())
    with open_parent(target, below) as (folder, name):
        files.chmod(name, stat.S_IMODE(status.st_mode), dir_fd=folder)
        files.utime(name, ns=(status.st_atime_ns, status.st_mtime_ns), dir_fd=folder)


def make_executable(path: Path, *, below: Path | None = None) -> None:
    """Allow everybody who may read a file to run it as well."""
    file = open_below(path, os.O_RDONLY, below=below)
    try:
        files.fchmod(file, files.fstat(file).st_mode | 0o111)
    finally:
        files.close(file)


def open_to_append(path: Path, *, below: Path | None = None) -> BinaryIO:
    """Open a file for another process to append to; creates it if missing."""
    return _open_writer(open_below(path, _APPEND, below=below))


def truncate_file(path: Path, size: int, *, below: Path | None = None) -> None:
    """Cut a file to a size."""
    file = open_below(path, os.O_WRONLY, below=below)
    try:
        files.ftruncate(file, size)
    finally:
        files.close(file)


def sync_file(path: Path) -> None:
    """Flush the content of a file to disk, also of a file that another process wrote."""
    file = files.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        files.fdatasync(file)
    finally:
        files.close(file)


def file_system_time(folder: Path, *, below: Path | None = None) -> float:
    """Return the time on the clock that dates a folder's files, which may be a file server's."""
    probe = draft_path(folder / "clock")
    file = open_below(probe, _CREATE, below=below)
    try:
        return files.fstat(file).st_mtime
    finally:
        files.close(file)
        remove_file(probe, below=below)


def is_file_at(file: int, path: Path) -> bool:
    """Whether an open file is still the one at a path.

    Raises `FileNotFoundError` when the path does not exist, and `OSError` when that cannot be determined.
    """
    return os.path.samestat(files.stat(path), files.fstat(file))


class AppendedFile:
    """An append-only file; content that cannot be written is kept, and the next call continues there."""

    def __init__(self, path: Path, *, below: Path | None = None) -> None:
        self.file = open_below(path, _APPEND, below=below)
        self._path = path
        self._below = below
        self._buffer = bytearray()
        self._unsynced = bytearray()
        """Content written since the file was last known to be on disk."""
        self._sync_failed = False

    def add(self, line: bytes) -> None:
        """Add a line to the content that `flush` writes."""
        self._buffer += line

    def flush(self) -> None:
        """Write the added content, without waiting for the disk."""
        while self._buffer:
            written = files.write(self.file, self._buffer)
            self._unsynced += self._buffer[:written]
            del self._buffer[:written]

    def commit(self) -> None:
        """Write the added content and wait until it is on disk."""
        self.flush()
        if not self._unsynced:
            return
        if self._sync_failed:
            self._write_again()
        try:
            files.fdatasync(self.file)
        except OSError:
            self._sync_failed = True
            raise
        self._sync_failed = False
        self._unsynced.clear()

    def _write_again(self) -> None:
        """Write the unsynced content once more, in its place.

        A kernel reports a failed write to the disk once, and takes the pages for written from then on: a later sync
        would succeed without them.
        """
        # Not through `self.file`: with O_APPEND, an offset is ignored.
        file = open_below(self._path, os.O_WRONLY, below=self._below)
        try:
            if not os.path.samestat(files.fstat(file), files.fstat(self.file)):
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(self._path))
            place = files.fstat(self.file).st_size - len(self._unsynced)
            rest = bytes(self._unsynced)
            while rest:
                written = files.pwrite(file, rest, place)
                rest, place = rest[written:], place + written
        finally:
            files.close(file)

    @property
    def size(self) -> int:
        """Size of the file, without content not yet flushed."""
        return files.fstat(self.file).st_size

    def close(self) -> None:
        """Close the file; content not yet flushed is lost."""
        files.close(self.file)


def _open_writer(file: int) -> BinaryIO:
    return cast("BinaryIO", io.BufferedWriter(RawFile(file), _BUFFER))


def _draft_name(name: str) -> str:
    return f".{name[:200]}.{os.urandom(6).hex()}.draft"


def _flush_to_disk(file: BinaryIO) -> None:
    file.flush()
    files.fsync(file.fileno())
