"""Owner of a run: the user of its directory; decides who may give it orders or start its jobs (decision 0064)."""

from __future__ import annotations

import os
import pwd
import stat
from enum import StrEnum
from pathlib import Path
from shlex import quote

import msgspec

from longshore.contract.context import RunPaths
from longshore.errors import RunUnreadableError, SubmissionRefusedError
from longshore.world.files.read_file import folder_status
from longshore.world.runs.archived_runs import unpack_commands
from longshore.world.runs.mirrors import read_mirror, shown_directory


class Access(StrEnum):
    """What a command does with a run, beyond looking at it, which everybody may."""

    ORDER = "order"
    """Leave an intervention for the engine, which runs as somebody else."""
    ACT = "act on"
    """Start an engine or jobs of the run as this user."""


class RunOwner(msgspec.Struct, frozen=True, kw_only=True):
    """Owner of a run directory, from the inode: a file in the directory cannot state another one."""

    uid: int
    gid: int
    device: int
    inode: int
    is_shared: bool
    """Whether the group may write to the directory, and other users may not."""

    @property
    def name(self) -> str:
        """Login name, or the number of a user without a name."""
        return user_name_of(self.uid)


def read_owner(root: Path) -> RunOwner:
    """Read the owner of a run directory.

    Raises `OSError` if the directory is missing or unreachable.
    """
    status = folder_status(root)
    return RunOwner(
        uid=status.st_uid,
        gid=status.st_gid,
        device=status.st_dev,
        inode=status.st_ino,
        is_shared=status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) == stat.S_IWGRP,
    )


def is_own_run(root: Path) -> bool:
    """Whether a run belongs to this user; false if that cannot be read."""
    try:
        return read_owner(root).uid == os.geteuid()
    except OSError:
        return False


def may_access(run: RunPaths, access: Access) -> bool:
    """Whether this user may give orders to a run or start its jobs; see `require_access`."""
    try:
        return _is_allowed(run, read_owner(shown_directory(run)), access)
    except OSError:
        return False


def require_access(run: RunPaths, access: Access) -> None:
    """Refuse a run of another user, unless this user trusts it; members of its group may give orders to a shared run.

    A mirror belongs to the user of the mirrored directory, which cannot be trusted: no manifest has digests of it.
    Raises `SubmissionRefusedError` with the owner and the way out, `RunUnreadableError` if the owner is unknown.
    """
    root = shown_directory(run)
    if (commands := unpack_commands(run)) is not None:
        raise SubmissionRefusedError(
            f"'{root}' is the archive of a run, which can only be looked at",
            hint=f"Unpack it first: {commands.unpack} && {commands.adopt}",
        )
    try:
        owner = read_owner(root)
    except OSError as error:
        raise RunUnreadableError(f"'{root}' cannot be read: {error.strerror}") from error
    if _is_allowed(run, owner, access):
        return
    uid = os.geteuid()
    as_owner = f"To act as its owner: runuser -u {owner.name} -- longshore ..."
    if root != run.root:
        hint = as_owner if uid == 0 else f"Only '{owner.name}' can act on it: Longshore has no record of its files."
    else:
        hint = f"To see what it would run, and to trust it: longshore adopt --trust {quote(str(run.root))}"
        hint += f". {as_owner}" if uid == 0 else ""
    message = f"'{root}' belongs to the user '{owner.name}', and you are '{user_name_of(uid)}'"
    from longshore.world.runs.trust import was_trusted

    if was_trusted(run):
        message += "; you trusted it, and it changed since"
    raise SubmissionRefusedError(message, hint=hint)


def accepts_order_of(owner: RunOwner, uid: int) -> bool:
    """Whether the engine of a run takes an order from a user.

    It takes those of the run's owner, of its own user, of root, and of the members of the group of a shared run.
    """
    if uid in {owner.uid, os.geteuid(), 0}:
        return True
    return owner.is_shared and _is_member(uid, owner.gid)


def user_name_of(uid: int) -> str:
    """Return the login name of a user, or the number of one without a name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _is_allowed(run: RunPaths, owner: RunOwner, access: Access) -> bool:
    if owner.uid == os.geteuid():
        return True
    if access is Access.ORDER and owner.is_shared and owner.gid in {os.getegid(), *os.getgroups()}:
        return True
    if read_mirror(run) is not None:
        return False
    # Only runs of other users need it.
    from longshore.world.runs.trust import is_trusted

    return is_trusted(run, owner.uid, owner.device, owner.inode)


def _is_member(uid: int, gid: int) -> bool:
    """Whether a user belongs to a group, by the user database; false for a user who is not in it."""
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return False
    return gid in os.getgrouplist(user.pw_name, user.pw_gid)
