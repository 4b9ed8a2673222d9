"""``longshore clean``: plans which files of runs can go, and removes exactly these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from longshore.app.maintain.lock_user import describe_lock_user
from longshore.app.maintain.over import why_not_over
from longshore.app.maintain.removable_files import (
    RemovableFile,
    RemovableKind,
    Unread,
    list_caches,
    list_drafts,
    list_logs,
    list_run_drafts,
    list_scratch,
    list_staged_drafts,
    list_unpacked_archives,
    list_user_caches,
    list_user_drafts,
)
from longshore.app.runs.open_run import READ_ERRORS, OpenRun, describe_read_error, open_run
from longshore.contract.context import RunPaths
from longshore.engine.staging.staged_ends import remove_draft
from longshore.errors import SubmissionRefusedError
from longshore.world.files.folder import remove_empty_folder, remove_file, remove_tree
from longshore.world.files.locks import Lock, take_lock
from longshore.world.host import user_name
from longshore.world.runs.archived_runs import archive_of
from longshore.world.runs.owner import is_own_run, read_owner
from longshore.world.runs.registry import read_entries
from longshore.world.runs.removed_files import Cleaning, record_cleaning


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
