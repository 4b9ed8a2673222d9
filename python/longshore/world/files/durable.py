"""Folders and names that survive a loss of power: waits until they are on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from longshore.world.files.folder import sync_folder
from longshore.world.files.system import files

_MAX_SINGLE: Final = 64
"""Most files of a tree that are synced one by one.

For many files, one sync of the whole file system takes a fraction of that time. For a few it may take longer, because
it also waits for what other programs have written.
"""
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def sync_tree(root: Path) -> None:
    """Wait until a folder with all that is in it is on disk, except its own name."""
    paths = []
    for path in _entries(root):
        paths.append(path)
        if len(paths) > _MAX_SINGLE:
            _sync_file_system(root)
            return
    try:
        for path in paths:
            _sync(path)
    except PermissionError:
        # A file that its owner may not read.
        _sync_file_system(root)


def sync_names(path: Path, first: Path | None = None) -> None:
    """Wait until the name of a folder is on disk, and those of the folders above it down from `first`.

    `first` is the uppermost folder that was created for it; ``None`` if only `path` is new.
    """
    try:
        for folder in (path, *path.parents):
            sync_folder(folder.parent)
            if folder == (first or path):
                return
    except PermissionError:
        # A folder that may be entered, but not listed.
        _sync_file_system(path)


def _entries(root: Path) -> Iterator[Path]:
    """Yield all files below a folder, each before its folder, and the folder itself last."""
    for folder, _, names in os.walk(root, topdown=False):
        yield from (Path(folder, name) for name in names if not os.path.islink(f"{folder}/{name}"))  # noqa: PTH114
        yield Path(folder)


def _sync(path: Path) -> None:
    file = files.open(path, _READ)
    try:
        files.fsync(file)
    finally:
        files.close(file)


def _sync_file_system(folder: Path) -> None:
    file = files.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        files.syncfs(file)
    finally:
        files.close(file)
