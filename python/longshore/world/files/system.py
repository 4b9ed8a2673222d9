"""The door for files: all writes, renames, removals, syncs and locks of the package go through `files`.

Its attributes are the functions of `os` and `fcntl` themselves, so that a call costs no more. A simulation or a test
replaces them. The keeper, which runs without this package, has a door of its own. The reason is in decision 0058.
"""

from __future__ import annotations

import fcntl
import os


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
