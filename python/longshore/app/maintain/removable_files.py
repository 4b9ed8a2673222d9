"""Files of runs and of the user's state that can go: caches, logs of what succeeded, and temporary files.

Nothing is removed here, and no link is followed.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from longshore.app.runs.event_source import event_blocks
from longshore.app.runs.open_run import OpenRun, map_index_errors
from longshore.engine.keeper_io.scratch_folders import left_folders
from longshore.engine.rundir.job_table import JobTable
from longshore.engine.rundir.replay import replay
from longshore.engine.staging.staged_ends import StagedEnds
from longshore.engine.state.job_codes import JobCode
from longshore.errors import RunUnreadableError
from longshore.model.lines.event_codec import decode_events
from longshore.world.files.presence import can_see_folder
from longshore.world.runs.archived_runs import ARCHIVE_IN_USE_S, ARCHIVES_FOLDER
from longshore.world.runs.registry import state_folder

DRAFT: Final = re.compile(r"\..{1,200}\.[0-9a-f]{12}\.draft", re.DOTALL)
"""Names of unfinished versions of files and run directories."""
_IN_USE_S: Final = 3600.0
"""Age below which a file may still be written, or be a lock that is held."""
_WRITTEN_S: Final = 86_400.0
"""Age below which an unfinished run directory may still be filled."""
_USER_CACHES: Final = ("probes", "graphs")
_WITH_OWN_RULES: Final = frozenset({*_USER_CACHES, ARCHIVES_FOLDER})
"""Folders of the state that are listed by rules of their own."""


class RemovableKind(StrEnum):
    """What kind of file can go."""

    CACHES = "caches"
    LOGS = "logs"
    TEMPORARY = "temporary"


class RemovableFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that can go, or a folder with all its content; `root` is the folder below which no link is followed.

    A folder that `is_of_attempt` may still be in use by an attempt that was lost.
    """

    kind: RemovableKind
    path: Path
    root: Path
    size_b: int
    is_folder: bool = False
    is_of_attempt: bool = False


Unread: TypeAlias = dict[Path, str]
"""Folders that could not be read, each with the reason: whatever is in them stays."""


def list_caches(opened: OpenRun, unread: Unread) -> Iterator[RemovableFile]:
    """List the files of a run's ``cache`` folder."""
    root = opened.run.root
    for entry in _walk(opened.run.cache, unread):
        yield _removable(RemovableKind.CACHES, entry, root)


def list_logs(opened: OpenRun, unread: Unread) -> Iterator[RemovableFile]:
    """List the logs of the attempts with which jobs succeeded; those of failed attempts stay.

    Raises `RunUnreadableError` if the journal is damaged: what succeeded is then not certain.
    """
    if opened.survey.damages:
        raise RunUnreadableError(
            f"the journal of run '{opened.card.id}' is damaged, so it is not certain which jobs succeeded",
            hint=f"To see the damage: longshore verify {opened.reference}",
        )
    table = JobTable(opened.run, "names", "parents")
    with map_index_errors(opened.run):
        state = replay(table, decode_events(b"".join(event_blocks(opened)), path="the journal"))
    root = opened.run.root
    for job, code in enumerate(state.code):
        attempt = state.attempts[job]
        if code != JobCode.SUCCEEDED or not attempt:
            continue
        path = root / opened.log_of(job, table.names[job], table.label(job), attempt)
        if ".." in path.parts or not path.is_relative_to(opened.run.logs):
            continue
        try:
            status = path.lstat()
        except OSError as error:
            _note_unread(path.parent, error, unread)
            continue
        if stat.S_ISREG(status.st_mode) and not _has_link(path.parent, root):
            yield RemovableFile(kind=RemovableKind.LOGS, path=path, root=root, size_b=status.st_size)


def list_drafts(opened: OpenRun, unread: Unread, *, now: float) -> Iterator[RemovableFile]:
    """List unfinished versions of files that processes left in a run when they were killed."""
    root = opened.run.root
    for entry in _walk(root, unread):
        if DRAFT.fullmatch(entry.name) and not Path(entry.path).is_relative_to(opened.run.cache):
            found = _removable(RemovableKind.TEMPORARY, entry, root)
            if entry.stat(follow_symlinks=False).st_mtime < now - _IN_USE_S:
                yield found


def list_scratch(opened: OpenRun) -> Iterator[RemovableFile]:
    """List the folders of temporary directories that killed keepers of a run that is over left on this host."""
    for folder in left_folders(opened.run):
        size = sum(inner.stat(follow_symlinks=False).st_size for inner in _walk(folder))
        kind = RemovableKind.TEMPORARY
        yield RemovableFile(kind=kind, path=folder, root=folder.parent, size_b=size, is_folder=True)


def list_staged_drafts(opened: OpenRun) -> Iterator[RemovableFile]:
    """List temporary directories that lost attempts left beside the targets of their outputs.

    An engine removes them at the end of a run, unless it was killed before.
    """
    with map_index_errors(opened.run):
        table = JobTable(opened.run)
    is_staged = [settings.rules.staging is not None for settings in table.header.settings]
    if not any(is_staged):
        return
    jobs = [job for job, profile in enumerate(table.profile_of) if is_staged[profile]]
    for path in StagedEnds(opened.run, table).find_drafts(jobs):
        size = sum(inner.stat(follow_symlinks=False).st_size for inner in _walk(path))
        yield RemovableFile(
            kind=RemovableKind.TEMPORARY, path=path, root=path.parent, size_b=size, is_folder=True, is_of_attempt=True
        )


def list_user_caches(unread: Unread, *, now: float) -> Iterator[RemovableFile]:
    """List answers of workload managers and resource graphs that are cached for all runs of this user."""
    state = state_folder()
    for name in _USER_CACHES:
        for entry in _walk(state / name, unread):
            if entry.stat(follow_symlinks=False).st_mtime < now - _IN_USE_S:
                yield _removable(RemovableKind.CACHES, entry, state)


def list_unpacked_archives(unread: Unread, *, now: float) -> Iterator[RemovableFile]:
    """List what was unpacked of archives that no command has read for some time."""
    for entry in _entries(state_folder() / ARCHIVES_FOLDER, unread):
        if entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_mtime < now - ARCHIVE_IN_USE_S:
            path = Path(entry.path)
            size = sum(inner.stat(follow_symlinks=False).st_size for inner in _walk(path))
            kind = RemovableKind.CACHES
            yield RemovableFile(kind=kind, path=path, root=state_folder(), size_b=size, is_folder=True)


def list_user_drafts(unread: Unread, *, now: float) -> Iterator[RemovableFile]:
    """List unfinished versions of files in the folder of Longshore's state."""
    state = state_folder()
    for entry in _walk(state, unread):
        if not DRAFT.fullmatch(entry.name) or Path(entry.path).relative_to(state).parts[0] in _WITH_OWN_RULES:
            continue
        if entry.stat(follow_symlinks=False).st_mtime < now - _IN_USE_S:
            yield _removable(RemovableKind.TEMPORARY, entry, state)


def list_run_drafts(folder: Path, unread: Unread, *, now: float) -> Iterator[RemovableFile]:
    """List unfinished run directories and archives in a folder: own ones in which nothing was written for a day."""
    for entry in _entries(folder, unread):
        is_folder = entry.is_dir(follow_symlinks=False)
        if not DRAFT.fullmatch(entry.name) or not (is_folder or entry.is_file(follow_symlinks=False)):
            continue
        status = entry.stat(follow_symlinks=False)
        newest, size = status.st_mtime, 0 if is_folder else status.st_size
        for inner in _walk(Path(entry.path)) if is_folder else ():
            inner_status = inner.stat(follow_symlinks=False)
            newest, size = max(newest, inner_status.st_mtime), size + inner_status.st_size
        if status.st_uid == os.geteuid() and newest < now - _WRITTEN_S:
            path, kind = Path(entry.path), RemovableKind.TEMPORARY
            yield RemovableFile(kind=kind, path=path, root=path.parent, size_b=size, is_folder=is_folder)


def _removable(kind: RemovableKind, entry: os.DirEntry[str], root: Path) -> RemovableFile:
    size = entry.stat(follow_symlinks=False).st_size
    return RemovableFile(kind=kind, path=Path(entry.path), root=root, size_b=size)


def _has_link(folder: Path, root: Path) -> bool:
    return any(path.is_symlink() for path in (folder, *folder.parents) if path != root and path.is_relative_to(root))


def _walk(folder: Path, unread: Unread | None = None) -> Iterator[os.DirEntry[str]]:
    """Yield every regular file below a folder, in the order of names; a link is neither followed nor yielded."""
    if os.path.islink(folder):  # noqa: PTH114 - unlike `Path`, it gives an answer in a closed folder
        return
    for entry in _entries(folder, unread):
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), unread)
        elif entry.is_file(follow_symlinks=False):
            yield entry


def _entries(folder: Path, unread: Unread | None = None) -> list[os.DirEntry[str]]:
    """Return the entries of a folder, sorted by name, each with its status.

    Files that are removed meanwhile are left out. A folder that cannot be read is added to `unread`.
    """
    try:
        with os.scandir(folder) as entries:
            return sorted(filter(_has_status, entries), key=lambda entry: entry.name)
    except OSError as error:
        _note_unread(folder, error, unread)
        return []


def _note_unread(folder: Path, error: OSError, unread: Unread | None) -> None:
    """Note that a folder cannot be read; one that is not there has nothing to remove, nor has a file or link."""
    if unread is not None and error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
        unread[_closed_folder(folder)] = error.strerror or str(error)


def _closed_folder(folder: Path) -> Path:
    """Return the uppermost folder on the way to one that cannot be looked into; the folder itself if there is none."""
    for place in reversed(folder.parents):
        if can_see_folder(place) and not os.access(place, os.X_OK, effective_ids=True):
            return place
    return folder


def _has_status(entry: os.DirEntry[str]) -> bool:
    """Read the status of an entry, which keeps it; return false if there is no such file any more."""
    try:
        entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return True
