"""Tests for missing files: without errors for odd names, and reliably on network file systems.

Such a file system caches "not found" for half a minute.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from longshore.errors import FilesError
from longshore.world.files.system import files

_LOCAL_FILE_SYSTEMS: Final = frozenset(
    {"btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
)
_MOUNT_TABLE: Final = Path("/proc/self/mountinfo")


def can_see(path: Path) -> bool:
    """Whether a path is seen to exist; false too for a name that is too long, or in a folder closed to us."""
    # `Path.exists` raises an error for these.
    return os.path.exists(path)  # noqa: PTH110


def can_see_file(path: Path) -> bool:
    """Whether a path is seen to be a regular file; see `can_see`."""
    return os.path.isfile(path)  # noqa: PTH113


def can_see_folder(path: Path) -> bool:
    """Whether a path is seen to be a folder; see `can_see`."""
    return os.path.isdir(path)  # noqa: PTH112


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
