"""Says whether somebody holds a file's lock, without getting into the way of whoever wants it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def is_locked(path: Path) -> bool:
    """Whether a process of this host, or one whose locks are seen here, holds the lock.

    Raises
    ------
    OSError
        It cannot be told, or (as `FileNotFoundError`) there is no such file.
    """
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # A shared one, so that two who look at once do not take each other for the holder.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False
