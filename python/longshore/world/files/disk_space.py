"""Names the file system of a path when it is full: messages say where to make room."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

FULL_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors of a write for which there is no room, or no quota left."""
_LEAST_FREE_B: Final = 1 << 20
"""Free bytes below which an engine cannot be expected to begin."""


def describe_full_disk(path: Path) -> str:
    """Return that the file system of a path is full, with its mount point; empty if it is not, or is unknown.

    A quota does not show here: only a write finds that it is used up.
    """
    try:
        space = os.statvfs(path)
    except OSError:
        return ""
    if space.f_blocks and space.f_bavail * space.f_frsize < _LEAST_FREE_B:
        return f"the file system '{mount_point(path)}' is full"
    if space.f_files and not space.f_favail:
        return f"the file system '{mount_point(path)}' has no room for another file"
    return ""


def describe_failed_write(error: OSError, path: Path) -> str:
    """Return why a file below a path cannot be written; a full file system or quota is named."""
    name = error.filename if isinstance(error.filename, str) else str(path)
    if error.errno == errno.EDQUOT:
        return f"'{name}': your quota of the file system '{mount_point(path)}' is used up"
    if error.errno == errno.ENOSPC:
        return f"'{name}': the file system '{mount_point(path)}' is full"
    return f"'{name}': {error.strerror or error}"


def mount_point(path: Path) -> Path:
    """Return the folder at which the file system of a path is mounted; the path itself if that cannot be found."""
    try:
        folder = Path(os.path.realpath(path))
        device = folder.stat().st_dev
        while folder.parent != folder and folder.parent.stat().st_dev == device:
            folder = folder.parent
    except OSError:
        return path
    return folder
