"""All writes, renames, syncs and locks of files go through `files`, so that a simulation can replace it."""

from __future__ import annotations

import fcntl
import io
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

# The door for files: all writes, renames, removals, syncs and locks of the package go through `files`. Its attributes
# are the functions of `os` and `fcntl` themselves, so that a call costs no more. A simulation or a test replaces them.
# The keeper, which runs without this package, has a door of its own. The reason is in decision 0058.


def _syncfs(file: int) -> None:
    """Write all data of the file system of an open file to disk (syncfs(2), which `os` lacks)."""
    # Imported here: it is needed for large run directories only.
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if library.syncfs(file):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class FileSystem:
    """Calls on files and folders, with the names and arguments of `os` and `fcntl`."""

    def __init__(self) -> None:
        self.open = os.open
        self.close = os.close
        self.read = os.read
        self.write = os.write
        self.lseek = os.lseek
        self.pread = os.pread
        self.pwrite = os.pwrite
        self.stat = os.stat
        self.fstat = os.fstat
        self.chmod = os.chmod
        self.fchmod = os.fchmod
        self.chown = os.chown
        self.utime = os.utime
        self.truncate = os.truncate
        self.ftruncate = os.ftruncate
        self.fsync = os.fsync
        self.fdatasync = os.fdatasync
        self.syncfs = _syncfs
        self.rename = os.rename
        self.replace = os.replace
        self.link = os.link
        self.symlink = os.symlink
        self.readlink = os.readlink
        self.unlink = os.unlink
        self.mkdir = os.mkdir
        self.rmdir = os.rmdir
        self.listdir = os.listdir
        self.flock = fcntl.flock
        self.fcntl = fcntl.fcntl


files = FileSystem()
"""The calls that this process uses."""


# An open file whose bytes go through the door, for the buffers of `io`.


_PIECE_B: Final = 1 << 16


class RawFile(io.RawIOBase):
    """An open file that is read and written through the door, and closed with this object."""

    def __init__(self, file: int) -> None:
        self._file = file

    def readable(self) -> bool:
        """Return that it can be read, if it was opened so."""
        return True

    def writable(self) -> bool:
        """Return that it can be written, if it was opened so."""
        return True

    def seekable(self) -> bool:
        """Return that it has positions."""
        return True

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._file

    def readinto(self, target: WriteableBuffer, /) -> int:
        """Read into a buffer; return the number of bytes."""
        piece = files.read(self._file, len(memoryview(target)))
        memoryview(target)[: len(piece)] = piece
        return len(piece)

    def readall(self) -> bytes:
        """Read the rest."""
        # One byte more than is left, so that a short answer tells the end.
        wanted = files.fstat(self._file).st_size - self.tell() + 1
        pieces = []
        while piece := files.read(self._file, max(wanted, _PIECE_B)):
            pieces.append(piece)
            wanted = 0
        return b"".join(pieces)

    def write(self, content: ReadableBuffer, /) -> int:
        """Write bytes; return how many were taken."""
        return files.write(self._file, content)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set the position and return it."""
        return files.lseek(self._file, offset, whence)

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            try:
                super().close()
            finally:
                files.close(self._file)
