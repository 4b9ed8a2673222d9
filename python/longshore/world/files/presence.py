"""Says whether a file is really absent: a network file system may remember for half a minute that there was none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_LOCAL: Final = frozenset({"btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"})
_MOUNTS: Final = Path("/proc/self/mountinfo")


def is_there(path: Path) -> bool:
    """Whether there is something of that name, asked so that a network file system looks anew.

    Opening a directory makes NFS compare it with the server's; what it remembered of names that were not there is void
    when it changed. Only then is a file that cannot be found believed absent.

    Raises
    ------
    OSError
        It cannot be told: no credentials, say, or no answer. That is no proof of absence.
    """
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        if path.name in os.listdir(folder):
            return True
        os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    finally:
        os.close(folder)
    return True


def is_surely_local(folder: Path, *, mounts: Path = _MOUNTS) -> bool:
    """Whether a folder lies on a file system of this host alone, which never remembers wrongly what is not there.

    Parameters
    ----------
    folder
        The folder.
    mounts
        What the kernel says of all mounts; see proc(5).
    """
    try:
        device = folder.stat().st_dev
        lines = mounts.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return False
    number = f"{os.major(device)}:{os.minor(device)}"
    kinds = {line.partition(" - ")[2].partition(" ")[0] for line in lines if line.split(" ", 3)[2:3] == [number]}
    return bool(kinds) and kinds <= _LOCAL
