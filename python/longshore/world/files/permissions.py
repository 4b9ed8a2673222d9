"""Permissions and group of a run's files, as a site configures them."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from grp import getgrnam
from pathlib import Path
from pwd import getpwuid
from shlex import quote
from typing import Final

from longshore.errors import FilesError
from longshore.world.files.folder import open_below
from longshore.world.files.system import files

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
