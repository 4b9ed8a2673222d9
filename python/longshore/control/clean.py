"""Which files of runs and of the user's state can go, and their removal (`longshore clean`).

A plan names the files, and exactly these are removed.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from longshore.contract.service import RunPaths
from longshore.engine.staging import StagedEnds, remove_draft
from longshore.errors import RunUnreadableError, SubmissionRefusedError
from longshore.keeper.scratch_folders import left_folders
from longshore.model.event import decode_events
from longshore.model.states import JobState
from longshore.reports.status import status_run
from longshore.rundir.archived_runs import ARCHIVE_IN_USE_S, ARCHIVES_FOLDER, archive_of
from longshore.rundir.job_table import JobTable
from longshore.rundir.registry import read_entries, state_folder
from longshore.rundir.run_directory import Cleaning, is_own_run, read_mirror, read_owner, record_cleaning
from longshore.runstate.events import event_blocks
from longshore.runstate.open_run import READ_ERRORS, OpenRun, describe_read_error, map_index_errors, open_run
from longshore.runstate.replay import replay
from longshore.runstate.run_state import JobCode
from longshore.system.folder import remove_empty_folder, remove_file, remove_tree
from longshore.system.host import process_command, user_name
from longshore.system.processes import processes
from longshore.system.reading import can_see_folder
from longshore.system.sharing import Lock, take_lock

# Which command has a lock of a run, by the kernel's table of locks: messages need it, and nothing is written for it. A
# record in the file of the lock would change the bytes of archives.


_COMMANDS: Final = ("clean", "archive")
"""Commands that take the lock of an engine; any other holder is one."""


def describe_lock_user(path: Path, *, otherwise: str) -> str:
    """Return which command has the lock of a file on this host; `otherwise` if none of `clean` and `archive` has it."""
    with suppress(OSError):
        for pid in find_lock_users(path.stat(), processes.read_proc("locks").decode("utf-8", "replace")):
            words = process_command(pid)[1:]
            name = next((word for word in words if word in _COMMANDS), "")
            if name and any("longshore" in word for word in words):
                return f"another 'longshore {name}' is at work on it (process {pid})"
    return otherwise


def find_lock_users(status: os.stat_result, table: str) -> list[int]:
    """Return the processes that have a lock (flock) of a file; `table` is ``/proc/locks``, see proc_locks(5)."""
    device = status.st_dev
    file = f"{os.major(device):02x}:{os.minor(device):02x}:{status.st_ino}"
    rows = (line.split() for line in table.splitlines())
    # A process that waits for a lock has an arrow instead of the kind. Those of other hosts have no number.
    return [int(row[4]) for row in rows if row[1:2] == ["FLOCK"] and row[5:6] == [file] and row[4].isdigit()]


# Whether a run is over, so that its files can be removed or archived.


_ARCHIVE: Final = "it is an archive"
_ENDED: Final = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.DELETED})


def why_not_over(opened: OpenRun) -> tuple[str, float]:
    """Return why a run may still change, or is none of its own, empty if neither; and when it ended."""
    if archive_of(opened.run) is not None:
        return _ARCHIVE, 0.0
    if read_mirror(opened.run) is not None:
        return "another tool made its directory", 0.0
    if not opened.card.submissions:
        return "it was not submitted yet", 0.0
    report = status_run(opened)
    if report.state not in _ENDED or report.finished_at is None:
        if opened.survey.damages:
            damage = "its journal is damaged, so its end is not known"
            return f"{damage} (to see the damage: longshore verify {opened.reference})", 0.0
        return "it is not over", 0.0
    if opened.is_alive() is not False:
        live = "it is in progress, or the workload manager does not answer"
        return describe_lock_user(opened.run.engine_lock, otherwise=live), 0.0
    return "", report.finished_at


def require_over(opened: OpenRun) -> None:
    """Raise `SubmissionRefusedError` for a run that is not over, or none of its own."""
    reason, _ = why_not_over(opened)
    if reason:
        hint = f"Its state, and how to continue or end it: longshore report {opened.reference}"
        if reason == _ARCHIVE:
            hint = "Copy it as it is, or move it and let its id lead to the new place: longshore adopt NEW_PLACE"
        raise SubmissionRefusedError(f"run '{opened.card.id}' cannot be archived: {reason}", hint=hint)


# Files of runs and of the user's state that can go: caches, logs of what succeeded, and temporary files. Nothing is
# removed here, and no link is followed.


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


# ``longshore clean``: plans which files of runs can go, and removes exactly these.


class CleanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to clean: runs by reference, or all own runs and the user's state; kinds; and how long ago they ended."""

    references: Sequence[str] = ()
    kinds: Collection[RemovableKind] = tuple(RemovableKind)
    older_than_s: float = 0.0


class CleanGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Files that can go from one run, or from the user's state if `opened` is ``None``."""

    opened: OpenRun | None
    files: tuple[RemovableFile, ...]


class CleanPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Files that can go, in groups; `skipped` has runs that are not cleaned, by id, each with the reason.

    `unread` has folders that were not looked into, each with the reason: what is in them stays.
    """

    groups: tuple[CleanGroup, ...]
    skipped: tuple[tuple[str, str], ...]
    unread: Mapping[Path, str] = msgspec.field(default_factory=dict)

    @property
    def files(self) -> tuple[RemovableFile, ...]:
        """All files that can go."""
        return tuple(file for group in self.groups for file in group.files)


class CleanResult(msgspec.Struct, frozen=True, kw_only=True):
    """Files that were removed, and those that were not, each with the reason."""

    removed: tuple[RemovableFile, ...]
    failed: tuple[tuple[RemovableFile, str], ...]


def plan_clean(request: CleanRequest, *, now: float) -> CleanPlan:
    """Find what can go, and change nothing.

    Raises `SubmissionRefusedError` if a named run belongs to another user, `RunNotFoundError` if it does not exist.
    """
    groups, skipped = [], []
    unread: Unread = {}
    for chosen in _chosen_runs(request):
        if isinstance(chosen, _UnopenedRun):
            skipped.append((chosen.run, chosen.reason))
            continue
        try:
            reason = _why_not(chosen, request.older_than_s, now)
            files = () if reason else tuple(_files_of(chosen, request.kinds, unread, now))
        except READ_ERRORS as error:
            reason, files = describe_read_error(error), ()
        if reason:
            skipped.append((chosen.card.id, reason))
        elif files:
            groups.append(CleanGroup(opened=chosen, files=files))
    if not request.references:
        files = tuple(_user_files(request.kinds, unread, now))
        groups += [CleanGroup(opened=None, files=files)] if files else []
    return CleanPlan(groups=tuple(groups), skipped=tuple(skipped), unread=unread)


def clean(plan: CleanPlan, *, now: float) -> CleanResult:
    """Remove the files of a plan and no others, and folders of caches that are empty then.

    A run that an engine has taken up since is left as it is.
    """
    removed: list[RemovableFile] = []
    failed: list[tuple[RemovableFile, str]] = []
    for group in plan.groups:
        try:
            lock = _lock(group, now)
        except OSError as error:
            why = _why_not_locked(group, error)
            failed += ((file, why) for file in group.files)
            continue
        try:
            for file in group.files:
                if why := _remove(file):
                    failed.append((file, why))
                else:
                    removed.append(file)
        finally:
            if lock is not None:
                lock.release()
    return CleanResult(removed=tuple(removed), failed=tuple(failed))


class _UnopenedRun(msgspec.Struct, frozen=True, kw_only=True):
    """Registered run that cannot be opened, by its id, with the reason."""

    run: str
    reason: str


def _chosen_runs(request: CleanRequest) -> Iterator[OpenRun | _UnopenedRun]:
    named = [open_run(reference, acts=True) for reference in request.references]
    for opened in {each.run.root: each for each in named}.values():
        if archive_of(opened.run) is None and not is_own_run(opened.directory):
            raise SubmissionRefusedError(
                f"'{opened.directory}' belongs to the user '{read_owner(opened.directory).name}'",
                hint="Only its owner can clean it.",
            )
        yield opened
    if request.references:
        return
    for entry in list(read_entries()):
        # An archive is no folder, and not a run of this user either.
        if not is_own_run(Path(entry.path)):
            continue
        try:
            opened = open_run(entry.path)
        except READ_ERRORS as error:
            yield _UnopenedRun(run=entry.id, reason=describe_read_error(error))
            continue
        if opened.card.id == entry.id:
            yield opened


def _why_not(opened: OpenRun, older_than_s: float, now: float) -> str:
    """Return why a run is not cleaned; empty if it can be."""
    reason, ended_at = why_not_over(opened)
    if reason:
        return reason
    if ended_at > now - older_than_s:
        return "it ended too recently for --older-than"
    return ""


def _files_of(opened: OpenRun, kinds: Collection[RemovableKind], unread: Unread, now: float) -> Iterator[RemovableFile]:
    if RemovableKind.CACHES in kinds:
        yield from list_caches(opened, unread)
    if RemovableKind.LOGS in kinds:
        yield from list_logs(opened, unread)
    if RemovableKind.TEMPORARY in kinds:
        yield from list_drafts(opened, unread, now=now)
        yield from list_scratch(opened)
        yield from list_staged_drafts(opened)


def _user_files(kinds: Collection[RemovableKind], unread: Unread, now: float) -> Iterator[RemovableFile]:
    if RemovableKind.CACHES in kinds:
        yield from list_user_caches(unread, now=now)
        yield from list_unpacked_archives(unread, now=now)
    if RemovableKind.TEMPORARY in kinds:
        yield from list_user_drafts(unread, now=now)
        for folder in dict.fromkeys(_folders_of_runs()):
            yield from list_run_drafts(folder, unread, now=now)


def _folders_of_runs() -> Iterator[Path]:
    """Yield the folders of registered runs, and those that archived runs had before."""
    for entry in read_entries():
        yield Path(entry.path).parent
        if entry.report is not None:
            yield Path(entry.report.path).parent


def _lock(group: CleanGroup, now: float) -> Lock | None:
    """Keep engines away from a run, and record what will be removed from it."""
    if group.opened is None:
        return None
    run: RunPaths = group.opened.run
    lock = None
    with suppress(FileNotFoundError):
        # A run without engine has no such file.
        lock = take_lock(run.engine_lock, below=run.root, create=False)
    try:
        record_cleaning(run, Cleaning(at=now, user=user_name(), files=count_kinds(group.files)))
    except BaseException:
        if lock is not None:
            lock.release()
        raise
    return lock


def _why_not_locked(group: CleanGroup, error: OSError) -> str:
    """Return why nothing is removed from a run."""
    if isinstance(error, BlockingIOError) and group.opened is not None:
        return describe_lock_user(group.opened.run.engine_lock, otherwise="an engine of the run is at work")
    return describe_read_error(error)


def count_kinds(files: Iterable[RemovableFile]) -> dict[str, int]:
    """Return the number of files per kind."""
    return dict(Counter(file.kind.value for file in files))


def _remove(file: RemovableFile) -> str:
    """Remove a file, or a folder with its content; return why it is still there."""
    try:
        if file.is_of_attempt:
            remove_draft(file.path)
            return "it cannot be renamed; make its folder writable" if file.path.exists() else ""
        if file.is_folder:
            remove_tree(file.path, below=file.root)
            return "not all of it can be removed; make its folders writable" if file.path.exists() else ""
        remove_file(file.path, below=file.root)
    except OSError as error:
        return error.strerror or str(error)
    if file.kind is RemovableKind.CACHES:
        folder = file.path.parent
        with suppress(OSError):
            # As far as they are empty, below the folder of the cache itself.
            while folder.parent != file.root:
                remove_empty_folder(folder, below=file.root)
                folder = folder.parent
    return ""
