"""Run directories: made whole or not at all, written, read, and whose they are; also mirrors that others' runs have."""

from __future__ import annotations

import os
import pwd
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import Final, TypeVar
from zlib import crc32

import msgspec

from longshore.contract.executor import WaitReasons
from longshore.contract.service import RenderedFile, RunPaths
from longshore.errors import DECODE_ERRORS, FilesError, RunNotFoundError, RunUnreadableError, SubmissionRefusedError
from longshore.model.json_lines import SEED, add_checksum, encode_document, is_intact
from longshore.model.report import Snapshot
from longshore.model.submission import Fingerprint, RunIdentity, SubmissionStart
from longshore.rundir.archived_runs import archive_of, unpack_commands
from longshore.rundir.registry import state_folder
from longshore.system.atomic import create_file, draft_path, write_atomically
from longshore.system.files import files
from longshore.system.folder import make_folders, remove_file, remove_tree, sync_names, sync_tree
from longshore.system.reading import folder_status, read_file, read_record
from longshore.system.room import CLOSED_ERRORS, FULL_ERRORS, closed_hint, mount_point

# Mirrors: run directories that Longshore keeps of directories other tools made, in the user's state folder. A mirror
# has the records of the other tool's run in Longshore's own form. The directory itself is only read. The reason is in
# decision 0145.


_FILE: Final = "mirror.json"
_FOLDER: Final = "mirrors"


class Mirror(msgspec.Struct, frozen=True, kw_only=True):
    """What a run directory mirrors: ``mirror.json``."""

    v: int
    """Version of the mirror; another one is written anew."""
    directory: str
    stamp: str
    """Tells whether the mirrored files are still the same."""


def mirror_of(directory: Path) -> RunPaths:
    """Return the paths of a directory's mirror, which need not exist."""
    # Imported late: few commands meet a mirror, and the library of digests is large.
    import hashlib

    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:32]
    return RunPaths(state_folder() / _FOLDER / digest)


def make_mirror_folders(run: RunPaths) -> None:
    """Make the folders of a mirror."""
    make_folders(run.root)
    for folder in (run.wms, run.journal):
        make_folders(folder, below=run.root)


def read_mirror(run: RunPaths) -> Mirror | None:
    """Read what a run mirrors; ``None`` for a run of Longshore's, and for a directory that only looks like a mirror."""
    if run.root.parent != state_folder() / _FOLDER:
        return None
    return read_record(run.root / _FILE, Mirror)


def write_mirror(run: RunPaths, mirror: Mirror) -> None:
    """Write what a run mirrors, once its other files are complete."""
    write_atomically(run.root / _FILE, msgspec.json.encode(mirror) + b"\n", below=run.root)


def shown_directory(run: RunPaths) -> Path:
    """Return the directory of a run as users know it: that of another tool, or the archive, if it has one."""
    mirror = read_mirror(run)
    if mirror is not None:
        return Path(mirror.directory)
    return archive_of(run) or run.root


# Owner of a run: the user of its directory; decides who may give it orders or start its jobs (decision 0064).


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
    from longshore.rundir.registry import was_trusted

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
    from longshore.rundir.registry import is_trusted

    return is_trusted(run, owner.uid, owner.device, owner.inode)


def _is_member(uid: int, gid: int) -> bool:
    """Whether a user belongs to a group, by the user database; false for a user who is not in it."""
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return False
    return gid in os.getgrouplist(user.pw_name, user.pw_gid)


# Record of what ``longshore clean`` removed from a run, so that a missing log is explained: ``cleaned.json``.


class Cleaning(msgspec.Struct, frozen=True, kw_only=True):
    """One removal of files: its time in seconds since the epoch, its user, and the number of files per kind."""

    at: float
    user: str
    files: Mapping[str, int]


class CleaningRecord(msgspec.Struct, frozen=True, kw_only=True):
    """All removals from a run, oldest first."""

    v: int = 1
    cleanings: tuple[Cleaning, ...] = ()


def read_cleanings(run: RunPaths) -> tuple[Cleaning, ...]:
    """Return the removals from a run; none if there is no record, or it cannot be read."""
    record = read_record(run.cleaned, CleaningRecord)
    return record.cleanings if record else ()


def record_cleaning(run: RunPaths, cleaning: Cleaning) -> None:
    """Record a removal durably before it begins, so that missing files are explained after a crash.

    Raises `OSError` if the record cannot be written.
    """
    record = CleaningRecord(cleanings=(*read_cleanings(run), cleaning))
    write_atomically(run.cleaned, msgspec.json.encode(record) + b"\n", below=run.root, durable=True)


# Creation, writing and reading of run directories; an incomplete one never gets the final name.


RUN_FORMAT: Final = 2
"""Version of the run directory's layout."""
_CHECKSUM_B: Final = 4
"""Bytes in front of a cache file that are its checksum."""
MANIFESTS_SINCE: Final = 2
"""First version of the layout in which submissions have manifests, and ``run.json`` has a checksum."""
MADE_FROM_FORMAT: Final = 1
"""Version of ``made-from.json``."""

_MAX_SHOWN_PATH: Final = 240
"""Characters of a path in a message."""

_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)

_Record = TypeVar("_Record")


def create_run_folder(target: Path) -> None:
    """Create a run's folder early, for files that take long to make and must survive a failure.

    Raises `FilesError` when the name is taken, or the folder cannot be created.
    """
    _require_absent(target)
    kept = _first_missing(target.parent)
    try:
        make_folders(target.parent)
        files.mkdir(target)
        sync_names(target, kept)
    except OSError as error:
        _remove_empty_folders(kept or target, target)
        raise _write_error(target, error) from error


@contextmanager
def add_to_run_folder(target: Path, names: Collection[str], *, exists: bool) -> Iterator[None]:
    """Write files into the folder of a run not yet prepared; removes them if the body fails.

    `exists` says that the folder exists (see `create_run_folder`); otherwise it is created. Raises `FilesError` when a
    file exists already or cannot be written.
    """
    missing = _first_missing(target.parent)
    if not exists:
        create_run_folder(target)
    try:
        yield
    except BaseException as error:
        for name in names:
            with suppress(OSError):
                remove_file(target / name, below=target)
        if not exists:
            _remove_empty_folders(missing or target, target)
        if isinstance(error, OSError):
            raise _write_error(target, error) from error
        raise


@contextmanager
def create_run_directory(target: Path, *, kept: Collection[str] = ()) -> Iterator[RunPaths]:
    """Create a run directory: the body fills a draft, which is renamed on success and removed on failure.

    `kept` names files that are already in a folder of that name (see `create_run_folder`); they always stay. Raises
    `FilesError` when the name is taken, the directory cannot be written, or the disk is full.
    """
    if not kept:
        _require_absent(target)
    missing = _first_missing(target.parent)
    draft = draft_path(target)
    try:
        make_folders(target.parent)
        files.mkdir(draft)
    except OSError as error:
        _remove_empty_folders(missing, target.parent)
        raise _write_error(target, error) from error
    try:
        yield RunPaths(draft)
        if kept:
            _move_files(kept, target, draft)
            files.rmdir(target)
        sync_tree(draft)
        _require_absent(target)
        _publish(draft, target, missing)
    except BaseException as error:
        moved = [name for name in kept if (draft / name).exists()]
        with suppress(OSError):
            if moved:
                make_folders(target)
            _move_files(moved, draft, target)
        if not any((draft / name).exists() for name in moved):
            remove_tree(draft)
        _remove_empty_folders(missing, target.parent)
        if isinstance(error, OSError):
            raise _write_error(target, error) from error
        raise


def _publish(draft: Path, target: Path, missing: Path | None) -> None:
    """Give a draft its name, durably; `missing` is the uppermost folder that was created above it."""
    files.rename(draft, target)
    try:
        sync_names(target, missing)
    except BaseException:
        files.rename(target, draft)
        raise


def sync_run_name(run: RunPaths) -> None:
    """Wait until the names of a run's directory and of its owner's folders above it are on disk."""
    owner, first = run.root.stat().st_uid, run.root
    for folder in run.root.parents:
        if folder.stat().st_uid != owner:
            break
        first = folder
    sync_names(run.root, first)


def remove_run_directory(run: RunPaths, *, kept: Collection[str] = ()) -> None:
    """Remove a run directory that was prepared but never submitted, except the files in `kept`."""
    if not kept:
        remove_tree(run.root)
        return
    # The card goes first: without it this is no run, even if the rest cannot be removed.
    for path in sorted(run.root.iterdir(), key=lambda path: path != run.card):
        if path.name in kept:
            continue
        remove_tree(path, below=run.root)


def write_rendered(run: RunPaths, files: Iterable[RenderedFile]) -> list[RenderedFile]:
    """Write a service's rendered files into a draft, chunk by chunk, and return them."""
    written = []
    for rendered in files:
        path = run.root / rendered.path
        make_folders(path.parent, below=run.root)
        chunks = (chunk.encode() for chunk in rendered.chunks())
        create_file(path, chunks, below=run.root, mode=rendered.mode)
        written.append(rendered)
    return written


def write_card(run: RunPaths, card: RunIdentity, *, durable: bool = True) -> None:
    """Write ``run.json`` atomically; not `durable` in a draft, which becomes so as a whole."""
    # A run of an older format keeps it.
    text = msgspec.json.format(msgspec.json.encode(card), indent=2) + b"\n"
    if card.format >= MANIFESTS_SINCE:
        text = encode_document(card, indent=2)
    write_atomically(run.card, text, below=run.root, durable=durable, mode=_present_mode(run.card))


def read_card(run: RunPaths) -> RunIdentity:
    """Read ``run.json``.

    Raises `RunNotFoundError` when the directory holds no run, and `RunUnreadableError` when the file is unreadable or
    of a newer format.
    """
    try:
        text = read_file(run.card)
    except (FileNotFoundError, NotADirectoryError):
        raise RunNotFoundError(
            f"'{run.root}' is not a run directory: there is no '{run.card.name}' in it",
            hint="Give the directory that 'Submit dir:' named, or the id that 'Run Id:' named.",
        ) from None
    except OSError as error:
        hint = closed_hint(run.card) if error.errno in CLOSED_ERRORS else ""
        raise RunUnreadableError(f"'{run.card}' cannot be read: {error.strerror}", hint=hint) from error
    _check_format(_decode(text, _RunFormat, run.card).format, RUN_FORMAT, run.root)
    card = _decode(text, RunIdentity, run.card)
    if not _PLAIN_ID.fullmatch(card.id):
        # An id names files in the user's state folder.
        raise RunUnreadableError(f"'{run.card}' has '{_shorten(card.id)}' as id, which is none")
    return card


def write_made_from(run: RunPaths, fingerprint: Fingerprint) -> None:
    """Write ``made-from.json`` atomically."""
    text = msgspec.json.format(msgspec.json.encode(fingerprint), indent=1) + b"\n"
    write_atomically(run.made_from, text, below=run.root)


def read_made_from(run: RunPaths) -> Fingerprint | None:
    """Read ``made-from.json``; ``None`` when it is missing.

    Raises `RunUnreadableError` when it is unreadable or of a newer format.
    """
    try:
        text = read_file(run.made_from)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunUnreadableError(f"'{run.made_from}' cannot be read: {error.strerror}") from error
    _check_format(_decode(text, _MadeFromFormat, run.made_from).v, MADE_FROM_FORMAT, run.made_from)
    return _decode(text, Fingerprint, run.made_from)


def write_submitting(run: RunPaths, started: SubmissionStart) -> None:
    """Write ``submitting.json`` before a run is submitted."""
    write_atomically(run.submitting, msgspec.json.encode(started) + b"\n", below=run.root, durable=True)


def read_submitting(run: RunPaths) -> SubmissionStart | None:
    """Read ``submitting.json``; ``None`` when no submission has begun, or the submission is complete."""
    try:
        return msgspec.json.decode(read_file(run.submitting), type=SubmissionStart)
    except FileNotFoundError:
        return None
    except (OSError, *DECODE_ERRORS):
        # A submission has begun, by an unknown process.
        return SubmissionStart(at=0.0, user="", host="")


def write_snapshot(run: RunPaths, snapshot: Snapshot) -> None:
    """Write ``status.json`` atomically, with a checksum."""
    write_atomically(run.status, add_checksum(msgspec.json.encode(snapshot), SEED)[0], below=run.root)


def read_snapshot(run: RunPaths) -> Snapshot | None:
    """Read ``status.json``; ``None`` when it is missing, unreadable or not as it was written."""
    try:
        text = read_file(run.status)
        return msgspec.json.decode(text, type=Snapshot) if is_intact(text) else None
    except (OSError, *DECODE_ERRORS):
        return None


def write_waiting(run: RunPaths, waiting: WaitReasons) -> None:
    """Write why jobs wait at the workload manager, atomically; the file is a cache that users may delete."""
    write_cached(run, "waiting.json", msgspec.json.encode(waiting))


def read_waiting(run: RunPaths) -> WaitReasons:
    """Read why jobs wait at the workload manager; empty when the file is missing or unreadable."""
    try:
        return msgspec.json.decode(read_cached(run, "waiting.json"), type=WaitReasons)
    except DECODE_ERRORS:
        return WaitReasons()


def write_cached(run: RunPaths, name: str, text: bytes) -> None:
    """Write a cache file atomically; users may delete it. Nothing is written into a run of another user."""
    if not is_own_run(run.root):
        return
    make_folders(run.cache, below=run.root)
    # Reports repeat what is in the card.
    stored = _cache_checksum(run, text) + text
    write_atomically(run.cache / name, stored, below=run.root, mode=_present_mode(run.card))


def read_cached(run: RunPaths, name: str) -> bytes:
    """Read a cache file; empty when it is missing, unreadable, not as it was written, or of another run."""
    try:
        stored = memoryview(read_file(run.cache / name))
        text = stored[_CHECKSUM_B:]
        return bytes(text) if stored[:_CHECKSUM_B] == _cache_checksum(run, text) else b""
    except OSError:
        return b""


def _cache_checksum(run: RunPaths, text: bytes | memoryview) -> bytes:
    """Return the checksum of a cache file and of the run that it is of: a changed byte decodes to another number."""
    try:
        token = read_card(run).run_token
    except (RunNotFoundError, RunUnreadableError):
        # Whoever relies on the card reports the error.
        token = ""
    return crc32(text, crc32(token.encode())).to_bytes(_CHECKSUM_B)


def _present_mode(path: Path) -> int:
    """Return the permissions of a file that is replaced: one closed because of secrets stays so."""
    try:
        return stat.S_IMODE(path.lstat().st_mode) & 0o666
    except FileNotFoundError:
        return 0o666


class _RunFormat(msgspec.Struct):
    format: int


class _MadeFromFormat(msgspec.Struct):
    v: int


def _check_format(version: int, newest: int, path: Path) -> None:
    """Raise `RunUnreadableError` for a format that is newer than this version of Longshore."""
    if version > newest:
        raise RunUnreadableError(
            f"'{path}' has format {version}; this Longshore reads up to {newest}",
            hint="Use the version that wrote it, or a newer one.",
        )


def _decode(text: bytes, kind: type[_Record], path: Path) -> _Record:
    try:
        return msgspec.json.decode(text, type=kind)
    except DECODE_ERRORS as error:
        raise RunUnreadableError(f"'{path}' cannot be read: {error}") from error


def _require_absent(target: Path) -> None:
    if os.path.lexists(target):
        raise FilesError(
            f"cannot create directory '{target}': directory already exists",
            hint="A run never overwrites another: change 'submitPath', or remove the old one if it is not needed.",
        )


def _write_error(target: Path, error: OSError) -> FilesError:
    shown, failed_path = _shorten(str(target)), str(error.filename or target)
    # The message names the directory, because users do not know its draft.
    detail = (
        "" if failed_path == str(target) or f"/.{target.name[:200]}." in failed_path else f"'{_shorten(failed_path)}': "
    )
    hint = "Choose another place with 'submitPath'."
    if error.errno in FULL_ERRORS:
        place = f"Make room on the file system '{mount_point(_existing(target))}'"
        hint = f"{place}, or choose another place with 'submitPath'. '{shown}' was not made."
    # A file, for example, may be where a folder is to be created.
    why = "Not a directory" if detail and isinstance(error, FileExistsError) else error.strerror or error
    return FilesError(f"cannot write the run directory '{shown}': {detail}{why}", hint=hint)


def _existing(folder: Path) -> Path:
    """Return the nearest folder above a path that exists."""
    missing = _first_missing(folder)
    return missing.parent if missing else folder


def _shorten(path: str) -> str:
    """Shorten a path for a message."""
    return path if len(path) <= _MAX_SHOWN_PATH else f"{path[: _MAX_SHOWN_PATH // 2]}...{path[-_MAX_SHOWN_PATH // 2 :]}"


def _first_missing(folder: Path) -> Path | None:
    missing = None
    # `os.path.exists`, unlike `Path.exists`, is false for a name that is too long or in a folder closed to us.
    while not os.path.exists(folder) and folder != folder.parent:  # noqa: PTH110
        missing, folder = folder, folder.parent
    return missing


def _move_files(names: Iterable[str], source: Path, target: Path) -> None:
    for name in names:
        files.rename(source / name, target / name)


def _remove_empty_folders(first: Path | None, last: Path) -> None:
    """Remove the folders created above a run directory that are still empty."""
    if first is None:
        return
    for folder in (last, *last.parents):
        # Folders that are not empty stay, and so do those above them. A folder that was never created, for want of
        # space or because of its name, is skipped: those above it may exist.
        with suppress(OSError):
            files.rmdir(folder)
        if folder == first:
            return
