"""Reading of files that anything may have replaced or removed: presence, fingerprints, bounded reads, last lines."""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from longshore.errors import DECODE_ERRORS, FilesError
from longshore.model.submission import FileFingerprint
from longshore.system.files import RawFile, files

# Tests for missing files: without errors for odd names, and reliably on network file systems. Such a file system caches
# "not found" for half a minute.


_LOCAL_FILE_SYSTEMS: Final = frozenset(
    {"btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
)
_MOUNT_TABLE: Final = Path("/proc/self/mountinfo")


# Methods of `Path` raise an error for a name that is too long, or in a folder closed to us; these answer no.
can_see, can_see_file, can_see_folder = os.path.exists, os.path.isfile, os.path.isdir


def exists_uncached(path: Path) -> bool:
    """Whether a path exists, asked so that a network file system checks again.

    Opening a directory makes NFS compare it with the server's; if it changed, NFS discards the names it had cached as
    missing. Only then is a missing file believed absent. Raises `OSError` when that cannot be determined, for want of
    credentials or of an answer: that is no proof of absence.
    """
    try:
        folder = files.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        if path.name in files.listdir(folder):
            return True
        files.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    finally:
        files.close(folder)
    return True


def is_local_file_system(folder: Path, *, mounts: Path = _MOUNT_TABLE) -> bool:
    """Whether a folder is certainly on a local file system, which never caches missing names wrongly.

    `mounts` is the kernel's table of mounts; see proc(5).
    """
    try:
        device = folder.stat().st_dev
        lines = mounts.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return False
    device_number = f"{os.major(device)}:{os.minor(device)}"
    types = {line.partition(" - ")[2].partition(" ")[0] for line in lines if line.split(" ", 3)[2:3] == [device_number]}
    return bool(types) and types <= _LOCAL_FILE_SYSTEMS


def real_path(path: str | Path) -> Path:
    """Return a path without links, which need not exist.

    Raises `FilesError` if it is relative and the current directory was removed.
    """
    if not os.path.isabs(path):  # noqa: PTH117 - text is taken too
        current_directory()
    return Path(os.path.realpath(path))


def current_directory() -> Path:
    """Return the current directory; raises `FilesError` if it was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise FilesError(
            "the current directory is gone: it was removed or moved", hint="Go to another one: cd ~"
        ) from None


# Reading of files that anything may have replaced: a pipe, a device or a file of any size never blocks a reader.


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


# Fingerprints of files, and the differences of a file from its earlier fingerprint.


def fingerprint_file(path: Path, name: str = "") -> FileFingerprint | None:
    """Take the fingerprint of a file; ``None`` when it is missing or unreadable.

    `name` replaces the file's absolute path in the fingerprint.
    """
    # Imported late, as everywhere: commands that look hash nothing, and the library of digests is large.
    from hashlib import file_digest

    try:
        status = path.stat()
        with path.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
    return FileFingerprint(
        path=name or str(path.absolute()), size=status.st_size, mtime_ns=status.st_mtime_ns, sha256=digest
    )


def describe_change(before: FileFingerprint, root: Path) -> str:
    """Describe how a file differs from its fingerprint; empty when it is the same. Relative paths start at `root`."""
    path = root / before.path
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return "is not there any more"
    except OSError as error:
        return f"cannot be looked at: {error.strerror}"
    if status.st_size != before.size:
        return f"has another content now: {status.st_size:,} bytes, and {before.size:,} then"
    if status.st_mtime_ns == before.mtime_ns:
        # A change within one tick of the clock that keeps the length cannot be detected.
        return ""
    now = fingerprint_file(path)
    if now is None:
        return "can no longer be read"
    return "" if now.sha256 == before.sha256 else "has another content now, as long as before"


def have_same_content(path: Path, other: Path) -> bool:
    """Return whether two files have the same content; false if one is missing or unreadable."""
    before, now = fingerprint_file(path), fingerprint_file(other)
    return before is not None and now is not None and before.sha256 == now.sha256


# Last lines of a log as clean text, for logs of any length and content.


_MAX_READ_B: Final = 64 * 1024
"""Bytes read from the end of a log; a longer line is cut."""
_MAX_LINE_LENGTH: Final = 500
"""Characters of a line that are shown."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;:]*[mK]")
"""Escape sequences for colours and erasing, meaningless in a file."""
_NULLS: Final = re.compile(r"\x00{3,}")
"""A hole of a sparse file, as a crash or a log rotation leaves it."""


def read_tail(path: Path, lines: int) -> tuple[str, ...] | None:
    r"""Return the last lines of a log without trailing empty ones; ``None`` if it cannot be read.

    Removes colours, keeps only the last version of a line that was rewritten in place (``\r``), and replaces a hole of
    a sparse file by a few words. All other control characters stay, so a caller that prints to a terminal must escape
    them.
    """
    try:
        file = open_to_read(path)
    except OSError:
        return None
    try:
        offset = max(0, os.fstat(file).st_size - _MAX_READ_B)
        text = os.pread(file, _MAX_READ_B, offset).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(file)
    rows = text.rstrip().split("\n")
    if offset and rows[1:]:
        # The first line is probably cut.
        del rows[0]
    return tuple(map(_clean_line, rows[-lines:])) if text.strip() else ()


def _clean_line(line: str) -> str:
    cleaned = _NULLS.sub("<null characters>", _COLOUR.sub("", line)).rstrip().rpartition("\r")[2].expandtabs()
    return cleaned if len(cleaned) <= _MAX_LINE_LENGTH else f"{cleaned[: _MAX_LINE_LENGTH - 1]}…"
