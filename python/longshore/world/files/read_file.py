"""Reading of files that anything may have replaced: a pipe, a device or a file of any size never blocks a reader."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from longshore.model.decode_errors import DECODE_ERRORS
from longshore.world.files.raw_file import RawFile
from longshore.world.files.system import files

MAX_WHOLE_B: Final = 1 << 30
"""Size up to which a file is read as a whole."""
_BUFFER_B: Final = 1 << 18
_Record = TypeVar("_Record")


def read_file(path: str | Path) -> bytes:
    """Read a whole regular file.

    Raises `OSError` when it cannot be read, is a pipe or another special file, or is larger than `MAX_WHOLE_B`.
    """
    return _read_whole(open_to_read(path), path)[0]


def read_record(path: Path, kind: type[_Record]) -> _Record | None:
    """Read a JSON record that can be recreated; ``None`` when it is missing or unreadable."""
    try:
        return msgspec.json.decode(read_file(path), type=kind)
    except (OSError, *DECODE_ERRORS):
        return None


def open_stream(path: str | Path) -> io.BufferedReader:
    """Open a regular file to read it in pieces; raises `OSError` as `open_to_read` does."""
    return io.BufferedReader(RawFile(open_to_read(path)), _BUFFER_B)


def open_to_read(path: str | Path) -> int:
    """Open a regular file for `os.pread`.

    Raises `OSError` when it cannot be read, or is a pipe or another special file.
    """
    return _open_regular(path, 0)


def read_with_status(path: Path, *, max_b: int = MAX_WHOLE_B) -> tuple[bytes, os.stat_result]:
    """Read a regular file like `read_file`, and return the status of the very file that was read; follows no link.

    Raises `OSError` as `read_file` does, for a link, and for a file larger than `max_b`.
    """
    return _read_whole(_open_regular(path, os.O_NOFOLLOW), path, max_b)


def full_stamp(path: Path) -> tuple[int, ...]:
    """Return a stamp of a file that any write changes: its inode, size, and times, of which users can set only one.

    Raises `OSError` if it cannot be inspected.
    """
    about = files.stat(path)
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def folder_status(folder: Path) -> os.stat_result:
    """Return the status of a folder, which need not be readable.

    Raises `OSError` if it is missing or unreachable, or no folder.
    """
    # O_PATH: a folder of another user may be closed to readers.
    file = files.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        return files.fstat(file)
    finally:
        files.close(file)


def _open_regular(path: str | Path, flags: int) -> int:
    # O_NONBLOCK: opening a pipe must not wait for a writer.
    file = files.open(path, os.O_RDONLY | os.O_NONBLOCK | flags)
    kind = stat.S_IFMT(files.fstat(file).st_mode)
    if kind != stat.S_IFREG:
        files.close(file)
        if kind == stat.S_IFDIR:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return file


def _read_whole(file: int, path: str | Path, max_b: int = MAX_WHOLE_B) -> tuple[bytes, os.stat_result]:
    """Read an open file, and close it; return its content and status."""
    with io.BufferedReader(RawFile(file), _BUFFER_B) as stream:
        status = files.fstat(file)
        if status.st_size > max_b:
            raise OSError(errno.EFBIG, "it is too large to be one of our files", str(path))
        return stream.read(), status
