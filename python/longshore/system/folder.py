"""Folders opened without following links, so that links in a run directory cannot redirect writes, and their sync."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from longshore.system.files import files

# Folders opened without following links, so that links in a run directory cannot redirect writes. Functions take the
# argument `below`, the folder below which no component of a path may be a link, such as the root of a run. Above it
# links are followed, because a user's ``submitPath`` may lie behind one. Without `below`, the folder of the path itself
# is trusted.


_WALK: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
"""Flags to open a folder as a place; `O_PATH` needs no permission to list it."""
_LIST: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
"""Flags to open a folder to list or sync it."""


class LinkFoundError(OSError):
    """A link where nothing below a run directory may be one; `filename` is its path."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            errno.ELOOP, "it is a link, and Longshore follows none below a run directory: remove it", str(path)
        )


@contextmanager
def open_parent(path: Path, below: Path | None) -> Iterator[tuple[int, str]]:
    """Open the folder of a path; yields its descriptor and the last component, for calls with ``dir_fd``.

    Raises `LinkFoundError` for a link between `below` and the last component,
    and `OSError` when a folder is missing or closed to us.
    """
    folder = open_folder(path.parent, below)
    try:
        yield folder, path.name
    except OSError as error:
        name = error.filename
        if isinstance(name, str) and (name == path.name or name.startswith(f".{path.name[:200]}.")):
            # Calls with ``dir_fd`` know no more than the last component.
            error.filename = str(path)
        raise
    finally:
        files.close(folder)


def open_folder(path: Path, below: Path | None, *, make: bool = False, durable: bool = False) -> int:
    """Open a folder as a place for calls with ``dir_fd``; see `open_parent`.

    With `make`, missing folders are created; with `durable`, the names of those below `below` are then on disk.
    """
    if below is None or path == below:
        if make:
            _make_trusted(path)
        return files.open(path, _WALK)
    folder = open_folder(below, None, make=make)
    at = below
    for name in _components(path, below):
        at /= name
        try:
            inner = _enter(folder, name, at, make=make, durable=durable)
        finally:
            files.close(folder)
        folder = inner
    return folder


def make_folders(path: Path, *, below: Path | None = None, durable: bool = False) -> None:
    """Create a folder and all missing ones above it; raises as `open_parent`.

    With `durable`, the names of new folders below `below` are then on disk.
    """
    files.close(open_folder(path, below, make=True, durable=durable))


def remove_file(path: Path, *, below: Path | None = None, missing_ok: bool = True, durable: bool = False) -> bool:
    """Remove a file, or a link itself, and return whether there was one.

    A missing one is no error unless `missing_ok` is false. With `durable`, the removal is on disk before this returns.
    """
    try:
        with open_parent(path, below) as (folder, name):
            files.unlink(name, dir_fd=folder)
            if durable:
                _sync_place(folder)
    except FileNotFoundError:
        if not missing_ok:
            raise
        return False
    return True


def remove_empty_folder(path: Path, *, below: Path | None = None) -> None:
    """Remove an empty folder; raises `OSError` when it has content."""
    with open_parent(path, below) as (folder, name):
        files.rmdir(name, dir_fd=folder)


def remove_tree(path: Path, *, below: Path | None = None) -> None:
    """Remove a folder with its content as far as possible; a link is removed, and never what it points to."""
    with suppress(OSError), open_parent(path, below) as (folder, name):
        _remove_entry(folder, name)


def move(source: Path, target: Path, *, below: Path | None = None) -> None:
    """Rename a file or folder; replaces a file of the new name."""
    with open_parent(source, below) as (folder, name), open_parent(target, below) as (target_folder, new_name):
        files.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=target_folder)


def open_below(path: Path, flags: int, mode: int = 0o666, *, below: Path | None = None) -> int:
    """Open a file itself, never what a link points to; see `open_parent`."""
    with open_parent(path, below) as (folder, name):
        try:
            return files.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)
        except OSError as error:
            raise _explain(error, folder, name, path) from None


def sync_folder(path: Path, *, below: Path | None = None) -> None:
    """Wait until the names in a folder are on disk."""
    place = open_folder(path, below)
    try:
        _sync_place(place)
    finally:
        files.close(place)


def _components(path: Path, below: Path) -> tuple[str, ...]:
    names = path.relative_to(below).parts
    if ".." in names:
        raise OSError(errno.EINVAL, "'..' would lead out of the run directory", str(path))
    return names


def _enter(folder: int, name: str, path: Path, *, make: bool, durable: bool) -> int:
    while True:
        try:
            return files.open(name, _WALK | os.O_NOFOLLOW, dir_fd=folder)
        except FileNotFoundError as error:
            if not make:
                raise FileNotFoundError(error.errno, error.strerror, str(path)) from None
        except OSError as error:
            raise _explain(error, folder, name, path) from None
        try:
            # Another process may create it at the same time.
            with suppress(FileExistsError):
                files.mkdir(name, dir_fd=folder)
            if durable:
                _sync_place(folder)
        except OSError as error:
            raise _explain(error, folder, name, path) from None


def _explain(error: OSError, folder: int, name: str, path: Path) -> OSError:
    """Return the error of a call with the whole path, and told apart when the last component is a link."""
    if error.errno in {errno.ELOOP, errno.ENOTDIR}:
        with suppress(OSError):
            if stat.S_ISLNK(files.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                return LinkFoundError(path)
    return OSError(error.errno, error.strerror, str(path))


def _sync_place(place: int) -> None:
    folder = files.open(".", _LIST, dir_fd=place)
    try:
        files.fsync(folder)
    except OSError as error:
        # Some file systems have no sync of folders: they write names at once, or never promise it.
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        files.close(folder)


def _make_trusted(path: Path) -> None:
    """Create a folder and those above it, where links are followed."""
    try:
        files.mkdir(path)
    except FileNotFoundError:
        if path.parent == path:
            raise
        _make_trusted(path.parent)
        with suppress(FileExistsError):
            files.mkdir(path)
    except OSError:
        # Some file systems report a lack of permission before they look whether it exists.
        if not path.is_dir():
            raise


def _remove_entry(folder: int, name: str) -> None:
    try:
        files.unlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno not in {errno.EISDIR, errno.EPERM}:
            return
        with suppress(OSError):
            inner = files.open(name, _LIST | os.O_NOFOLLOW, dir_fd=folder)
            try:
                for each in files.listdir(inner):
                    _remove_entry(inner, each)
            finally:
                files.close(inner)
            files.rmdir(name, dir_fd=folder)


# Folders and names that survive a loss of power: waits until they are on disk.


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
