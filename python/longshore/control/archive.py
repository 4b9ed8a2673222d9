"""Archives of runs (`longshore archive`): one file, written and read back, after which the directory may be removed."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import Final

import msgspec

from longshore.contract.service import RunPaths
from longshore.control.clean import DRAFT, describe_lock_user, require_over
from longshore.errors import FilesError, RunUnreadableError, SubmissionRefusedError, UsageError
from longshore.model.report import Damage, format_size
from longshore.model.wording import count_noun, first_of
from longshore.progress import Progress
from longshore.reports.status import status_run
from longshore.rundir.archive_names import SUFFIXES, archive_suffix
from longshore.rundir.notices import is_notifier_at_work, longest_notices_s
from longshore.rundir.registry import file_stamp, read_entry, write_entry
from longshore.rundir.run_archive import ArchivedFile, digest_of, list_tree, read_archive, write_archive
from longshore.rundir.run_directory import Access, is_own_run, require_access
from longshore.runstate.open_run import OpenRun
from longshore.runstate.verify import verify_run
from longshore.system.atomic import atomic_file, draft_path
from longshore.system.folder import move, remove_file, remove_tree, sync_folder
from longshore.system.output_file import require_parent
from longshore.system.reading import real_path
from longshore.system.room import FULL_ERRORS, describe_failed_write
from longshore.system.sharing import take_lock

# Progress of an archive that takes long: how much of the run was written or read back.


_EVERY_S: Final = 5.0
"""Seconds between two messages."""


def size_of(root: Path, names: Sequence[str]) -> int:
    """Return the size of files of a directory; folders end with a slash, and count nothing."""
    return sum((root / name).lstat().st_size for name in names if not name.endswith("/"))


class ArchiveProgress:
    """Reports a stage, and then every few seconds how many bytes of all are done.

    `clock` is a monotonic one, in seconds.
    """

    def __init__(
        self, progress: Progress, stage: str, total_b: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._progress = progress
        self._stage = stage
        self._total_b = total_b
        self._clock = clock
        self._done_b = 0
        self._next_s = clock() + _EVERY_S
        progress.stage(stage)

    def add(self, size_b: int) -> None:
        """Count bytes that are done."""
        self._done_b += size_b
        if self._clock() >= self._next_s:
            self._next_s = self._clock() + _EVERY_S
            done = f"{format_size(self._done_b)} of {format_size(self._total_b)}"
            self._progress.stage(f"{self._stage}: {done}")


# Writes a run into one file, reads it back, and removes the directory on request.


_MAX_NAMES: Final = 3
_LOOK_S: Final = 0.5
"""Seconds within which a command that only looks at the lock of a run has released it."""


class ArchiveResult(msgspec.Struct, frozen=True, kw_only=True):
    """An archive: its file, its size, number and size of the files in it, and whether the directory was removed.

    `left_out` are links, pipes and sockets, which an archive does not have. `damages` are those of the run, which its
    archive has as well.
    """

    run: str
    path: Path
    size_b: int
    files: int
    content_b: int
    left_out: tuple[str, ...]
    damages: tuple[Damage, ...]
    removed: bool


def archive_run(opened: OpenRun, output: Path | None, *, remove: bool, progress: Progress) -> ArchiveResult:
    """Write a run that is over into one file, and compare that with the run.

    The folder of caches is left out: commands make them again, and any command that looks may write there meanwhile.
    Notices that are still being sent are waited for. With `remove`, the directory is removed then, and the run's id
    leads to the archive. Raises `SubmissionRefusedError` if the run is not over or, with `remove`, belongs to another
    user or is damaged; `UsageError` for an unsuitable `output`; `FilesError` if it exists, cannot be written, or has
    not all of the run to be removed, and if the directory cannot be removed.
    """
    root = opened.run.root
    require_over(opened)
    if remove:
        require_access(opened.run, Access.ACT)
    path = _output_path(opened, output, remove=remove)
    damages = tuple(verify_run(opened, progress).damages)
    if remove and damages:
        raise _damaged(opened, damages)
    with _lock_notices(opened, progress, remove=remove), _lock_engine(opened, remove=remove):
        try:
            left_out = tuple(_list_files(opened.run)[1])
            if remove and left_out:
                names = first_of(left_out, _MAX_NAMES)
                raise FilesError(
                    f"'{root}' has links, pipes or sockets, which an archive does not have: {names}",
                    hint="Remove them, or leave --remove out.",
                )
            written = _write(opened, path, progress)
        except OSError as error:
            raise _write_error(error, path) from error
        if remove:
            _remove(opened, path)
    return ArchiveResult(
        run=opened.card.id,
        path=path,
        size_b=path.stat().st_size,
        files=len(written),
        content_b=sum(file.size_b for file in written.values()),
        left_out=left_out,
        damages=damages,
        removed=remove,
    )


def _damaged(opened: OpenRun, damages: Sequence[Damage]) -> SubmissionRefusedError:
    more = f", and {count_noun(len(damages) - 1, 'more damage')}" if damages[1:] else ""
    return SubmissionRefusedError(
        f"run '{opened.card.id}' is damaged, so its directory is not removed: {damages[0]}{more}",
        hint=f"To see all damage: longshore verify {opened.reference}. Without --remove, it is archived as it is.",
    )


def _write(opened: OpenRun, path: Path, progress: Progress) -> dict[str, ArchivedFile]:
    """Write an archive that has its name only once it was compared with the run; return the files in it."""
    root, suffix = opened.run.root, archive_suffix(path)
    draft = draft_path(path)
    try:
        total_b = size_of(root, _list_files(opened.run)[0])
        writing = ArchiveProgress(progress, f"writing the archive of run '{opened.card.id}'", total_b)
        with atomic_file(draft, durable=True, mode=_mode(opened.run, path.parent)) as stream:
            written = write_archive(root, stream, suffix=suffix, without=opened.run.cache.name, on_read=writing.add)
        reading = ArchiveProgress(progress, "reading it back", total_b)
        _compare(draft, opened.run, written, suffix, reading.add)
        if path.exists():
            raise _taken(path)
        move(draft, path)
        sync_folder(path.parent)
    finally:
        with suppress(OSError):
            remove_file(draft)
    return written


def _list_files(run: RunPaths) -> tuple[list[str], list[str]]:
    """Return what an archive of a run has, and what it cannot have."""
    return list_tree(run.root, without=run.cache.name)


def _lock_notices(opened: OpenRun, progress: Progress, *, remove: bool) -> AbstractContextManager[None]:
    """Wait for the last notices of a run, and keep notifiers away.

    Before the lock of the engine is taken: a notifier takes a run whose engine has a lock for one in progress.
    """
    run = opened.run
    if not is_own_run(run.root) or not (longest_s := longest_notices_s(run)):
        return nullcontext()
    if is_notifier_at_work(run):
        progress.stage(f"waiting until the last notices of run '{opened.card.id}' are sent")
    return _lock(opened, run.notice_lock, longest_s, "its notices are still being sent", remove=remove)


def _lock_engine(opened: OpenRun, *, remove: bool) -> AbstractContextManager[None]:
    """Keep engines away from a run; a run of another user is not locked, because its engines would fail."""
    run = opened.run
    if not remove and not is_own_run(run.root):
        return nullcontext()
    return _lock(opened, run.engine_lock, _LOOK_S, "an engine of it is at work", remove=remove)


def _lock(opened: OpenRun, path: Path, wait_s: float, why: str, *, remove: bool) -> AbstractContextManager[None]:
    """Take a lock of a run; `why` tells what it means that a process has it, except for `clean` and `archive`."""
    try:
        return take_lock(path, below=opened.run.root, create=False, wait_s=wait_s)
    except FileNotFoundError:
        # A run without engine or notifier has no such file.
        return nullcontext()
    except BlockingIOError as error:
        raise SubmissionRefusedError(
            f"run '{opened.card.id}' cannot be archived: {describe_lock_user(path, otherwise=why)}",
            hint=f"Its state: longshore report {opened.reference}",
        ) from error
    except OSError as error:
        if not remove:
            # On a read-only file system, for example; what changes meanwhile is noticed by the comparison.
            return nullcontext()
        raise FilesError(
            f"'{path}' cannot be locked: {error.strerror or error}",
            hint="Without --remove, the archive needs no lock.",
        ) from error


def _output_path(opened: OpenRun, output: Path | None, *, remove: bool) -> Path:
    root = opened.run.root
    path = real_path(output) if output else root.with_name(f"{root.name}{SUFFIXES[0]}")
    if not archive_suffix(path):
        raise UsageError(f"'{path.name}' does not end like an archive", hint=f"Let it end with {', '.join(SUFFIXES)}.")
    if path.is_relative_to(root):
        raise UsageError(f"'{path}' is in the directory of the run", hint="Give a file elsewhere with --output.")
    if remove and str(path) != os.fsencode(path).decode(errors="replace"):
        raise UsageError(
            f"'{path}' is not UTF-8 text, so no id can lead to it",
            hint="Give a file elsewhere with --output, or leave --remove out.",
        )
    try:
        require_parent(output or path, path)
    except OSError as error:
        raise _write_error(error, path) from error
    if os.path.lexists(path):
        raise _taken(path)
    return path


def _write_error(error: OSError, path: Path) -> FilesError:
    """Return why an archive cannot be written: its own file is named by the path that the user knows."""
    at = Path(os.fsdecode(error.filename)) if error.filename else path
    is_output = at in {path, path.parent} or (at.parent == path.parent and DRAFT.fullmatch(at.name) is not None)
    hint = ""
    if is_output:
        error.filename = str(path)
        hint = "Name a file in a folder that you may write to: --output FILE."
        if error.errno in FULL_ERRORS:
            hint = "Make room there, or name a file elsewhere: --output FILE."
    return FilesError(f"no archive is written: {describe_failed_write(error, path.parent)}", hint=hint)


def _taken(path: Path) -> FilesError:
    return FilesError(f"'{path}' exists already", hint="Remove it, or give another file with --output.")


def _mode(run: RunPaths, folder: Path) -> int:
    """Return the mode of an archive in a folder: a user who may not read all of the run may not read the archive."""
    place = folder.stat()
    group = place.st_gid if place.st_mode & stat.S_ISGID else os.getegid()
    common = 0o066
    for name in ("", *_list_files(run)[0]):
        status = (run.root / name).lstat()
        bits = status.st_mode & 0o077
        if status.st_gid != group:
            # A member of either group may be a stranger to the other one.
            both = bits >> 3 & bits
            bits = both << 3 | both
        if stat.S_ISDIR(status.st_mode):
            # What is in a folder can be read only by users who may enter it.
            bits &= ~((~bits & 0o011) << 2)
        common &= bits
    return 0o600 | common


def _compare(
    archive: Path, run: RunPaths, written: dict[str, ArchivedFile], suffix: str, on_read: Callable[[int], None]
) -> None:
    """Compare an archive with what was read of a run, and the run with that."""
    found = {
        name: (member.size, digest_of(content, on_read))
        for name, member, content in read_archive(archive, suffix)
        if content is not None
    }
    if found != {name: (file.size_b, file.digest) for name, file in written.items()}:
        raise RunUnreadableError(f"'{archive}' is not what was written", hint="The disk may be damaged.")
    root = run.root
    names = {name for name in _list_files(run)[0] if not name.endswith("/")}
    for name, file in written.items():
        status = (root / name).lstat()
        if (status.st_size, status.st_mtime_ns) != (file.size_b, file.changed_ns):
            raise FilesError(f"'{root / name}' changed meanwhile", hint="Run the command again.")
    if names != set(written):
        raise FilesError(f"files in '{root}' were made or removed meanwhile", hint="Run the command again.")


def _remove(opened: OpenRun, path: Path) -> None:
    """Remove the directory of a run, and let its id lead to the archive."""
    run = opened.run
    report = status_run(opened)
    entry = read_entry(opened.card.id)
    if entry is not None and entry.path == str(run.root):
        stored = msgspec.structs.replace(report, specifics=(), summary=None)
        leads = msgspec.structs.replace(entry, path=str(path), report=stored, stamp=file_stamp(str(path)))
        if not write_entry(leads):
            raise FilesError(
                f"'{path}' is written, and '{run.root}' stays: the registry cannot be written",
                hint=f"Make room there. Then: longshore adopt {quote(str(run.root))}",
            )
    # Under another name, it is no run any more if this is killed; `clean` removes the rest.
    gone = draft_path(run.root)
    try:
        move(run.root, gone)
    except OSError as error:
        if entry is not None:
            write_entry(entry)
        raise FilesError(
            f"'{path}' is written, and '{run.root}' stays: it cannot be renamed: {error.strerror or error}",
            hint=f"The folder '{run.root.parent}' must be writable.",
        ) from error
    with suppress(OSError):
        sync_folder(run.root.parent)
    remove_tree(gone)
    if os.path.lexists(gone):
        raise FilesError(
            f"'{path}' is written, and the id of the run leads to it, but not all of its directory can be removed: "
            f"{_describe_rest(gone)}",
            hint=f"To remove the rest: chmod -R u+rwX {quote(str(gone))} && rm -r {quote(str(gone))}",
        )


def _describe_rest(folder: Path) -> str:
    """Return which files and empty folders are left in a folder."""
    with suppress(OSError):
        names = [*list_tree(folder)[0], ""]
        rest = [name for name, after in pairwise(names) if not (name.endswith("/") and after.startswith(name))]
        if rest:
            return f"'{folder}' still has {first_of(rest, _MAX_NAMES)}"
    return f"'{folder}' is still there"
