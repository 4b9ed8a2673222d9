"""Who may use a folder, and how much room there is: permissions, full file systems, bounds of caches."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from grp import getgrnam
from pathlib import Path
from pwd import getpwuid
from shlex import quote
from typing import Final

from longshore.errors import FilesError
from longshore.system.files import files
from longshore.system.folder import open_below, remove_file

# Permissions and group of a run's files, as a site configures them.


_GROUP_AND_OTHERS: Final = 0o077
_WRITE_OF_OTHERS: Final = 0o002
_OF_OWNER: Final = 0o700


def bounded_umask(umask: int) -> int:
    """Return a umask from a file of a run within bounds: others never write, and the owner may do everything."""
    return umask & _GROUP_AND_OTHERS | _WRITE_OF_OTHERS


@contextmanager
def apply_umask(umask: int | None) -> Iterator[None]:
    """Apply a site's umask within bounds while the body runs; ``None`` keeps the user's."""
    if umask is None:
        yield
        return
    previous = os.umask(bounded_umask(umask))
    try:
        yield
    finally:
        os.umask(previous)


def set_group(folder: Path, group: str) -> None:
    """Give a new folder, and everything created in it later, to a group (name or number).

    Raises `FilesError` when there is no such group, or the user is not a member.
    """
    try:
        files.chown(folder, -1, int(group) if group.isdigit() else getgrnam(group).gr_gid)
        files.chmod(folder, folder.stat().st_mode | 0o2000)
    except LookupError as error:
        raise FilesError(f"there is no group '{group}' to give the run directory to") from error
    except OSError as error:
        raise FilesError(f"the run directory cannot be given to the group '{group}': {error.strerror}") from error


CLOSED_ERRORS: Final = frozenset({errno.EACCES, errno.EPERM})
"""Errors of a file or folder that this user may not use."""


def closed_hint(path: Path) -> str:
    """Return how to open a path that cannot be read: a command if its user is this one, else who its user is.

    Empty if nothing on the way to it is closed.
    """
    for place in (*reversed(path.parents), path):
        try:
            status = place.stat()
        except OSError:
            return ""
        is_folder = stat.S_ISDIR(status.st_mode)
        needed = (os.X_OK if is_folder else 0) | (os.R_OK if place == path else 0)
        if os.access(place, needed, effective_ids=True):
            continue
        if status.st_uid == os.geteuid():
            return f"It is yours: chmod u+{'rwx' if is_folder else 'rw'} {quote(str(place))}"
        return f"'{place}' is closed to you: ask its owner, the user '{_user_name(status.st_uid)}'."
    return ""


def _user_name(uid: int) -> str:
    try:
        return getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def make_private(path: Path, *, below: Path) -> None:
    """Take all permissions on a file from everybody but its owner."""
    file = open_below(path, os.O_RDONLY, below=below)
    try:
        files.fchmod(file, files.fstat(file).st_mode & _OF_OWNER)
    finally:
        files.close(file)


@contextmanager
def restrict_folder(folder: Path) -> Iterator[None]:
    """Close a folder to all but its owner while the body runs, and for good if the body fails."""
    before = folder.stat().st_mode
    files.chmod(folder, before & ~_GROUP_AND_OTHERS)
    yield
    # A group that was given meanwhile keeps its mark.
    files.chmod(folder, folder.stat().st_mode | before & _GROUP_AND_OTHERS)


# Names the file system of a path when it is full: messages say where to make room.


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


# Bounds of folders whose files can be made again.


_IN_USE_S: Final = 3600.0
"""Age below which a file, which may be a lock that is held, stays."""


@cache
def bound_cache(folder: Path, *, most: int) -> None:
    """Remove the oldest files of a folder beyond `most`, once in the life of a process.

    A file of the last hour stays. Nothing is raised: what cannot be removed stays.
    """
    latest = time.time() - _IN_USE_S
    with suppress(OSError):
        with os.scandir(folder) as entries:
            times = sorted(((entry.stat().st_mtime, entry.path) for entry in entries), reverse=True)
        for at, path in times[most:]:
            if at < latest:
                remove_file(Path(path))
