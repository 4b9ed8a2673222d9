"""File locks (flock), released at the latest when the process that holds them ends.

The keeper, which runs without this package, locks its own file; `is_locked` sees that lock too.
"""

from __future__ import annotations

import fcntl
import math
import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from longshore.world.files.atomic import is_file_at
from longshore.world.files.folder import open_below
from longshore.world.files.presence import exists_uncached
from longshore.world.files.system import files

_POLL_S: Final = 0.02


class Lock:
    """A lock that this process holds on an open file."""

    def __init__(self, file: int) -> None:
        self.file = file

    def release(self) -> None:
        """Release the lock and close the file."""
        files.close(self.file)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


def take_lock(
    path: Path, *, below: Path | None = None, wait_s: float = 0.0, create: bool = True, mode: int = 0o600
) -> Lock:
    """Lock a file, waiting up to `wait_s` seconds for another holder.

    A missing file is created with the permissions `mode`, unless `create` is false; `below` is explained in
    `longshore.world.files.folder`. Raises `BlockingIOError` when another holder has the lock, and `OSError` when the
    file cannot be opened, is a link, or its file system has no locks.
    """
    deadline = time.monotonic() + wait_s
    while True:
        file = open_below(path, os.O_RDWR | os.O_CREAT if create else os.O_RDWR, mode, below=below)
        try:
            _take_flock(file, deadline)
            with suppress(FileNotFoundError):
                if is_file_at(file, path):
                    return Lock(file)
        except BaseException:
            files.close(file)
            raise
        # The holder removed the file, or replaced it.
        files.close(file)


def lock_folder(folder: Path) -> Lock:
    """Lock a folder, waiting without limit; has no effect where the file system has no locks."""
    file = files.open(folder, os.O_RDONLY)
    with suppress(OSError):
        files.flock(file, fcntl.LOCK_EX)
    return Lock(file)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of a file, on this host or on one whose locks are visible here.

    Raises `OSError` when the file cannot be read or its file system has no locks.
    """
    try:
        file = files.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return exists_uncached(path) and is_locked(path)
    try:
        # A shared lock, so that two concurrent callers do not take each other for the holder.
        files.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        files.close(file)
    return False


def _take_flock(file: int, deadline: float) -> None:
    if math.isinf(deadline):
        files.flock(file, fcntl.LOCK_EX)
        return
    while True:
        try:
            files.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_POLL_S)
        else:
            return
