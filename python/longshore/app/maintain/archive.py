"""``longshore archive``: writes a run into one file, reads it back, and removes the directory on request."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from longshore.app.maintain.over import require_over
from longshore.app.progress import Progress
from longshore.app.report.brief_report import status_run
from longshore.app.runs.open_run import OpenRun
from longshore.errors import FilesError, RunUnreadableError, UsageError
from longshore.world.files.atomic import atomic_file, draft_path
from longshore.world.files.disk_space import describe_failed_write
from longshore.world.files.folder import move, remove_file, remove_tree, sync_folder
from longshore.world.files.locks import take_lock
from longshore.world.files.run_archive import (
    SUFFIXES,
    ArchivedFile,
    archive_suffix,
    digest_of,
    list_tree,
    read_archive,
    write_archive,
)
from longshore.world.runs.owner import Access, require_access
from longshore.world.runs.registry import file_stamp, read_entry, write_entry

_MAX_NAMES: Final = 3


@dataclass(frozen=True, kw_only=True)
class ArchiveResult:
    """An archive: its file, its size, number and size of the files in it, and whether the directory was removed.

    `left_out` are links, pipes and sockets, which an archive does not have.
    """

    run: str
    path: Path
    size_b: int
    files: int
    content_b: int
    left_out: tuple[str, ...]
    removed: bool


def archive_run(opened: OpenRun, output: Path | None, *, remove: bool, progress: Progress) -> ArchiveResult:
    """Write a run that is over into one file, and compare that with the run.

    With `remove`, the directory is removed then, and the run's id leads to the archive. Raises
    `SubmissionRefusedError` if the run is not over or, with `remove`, belongs to another user; `UsageError` for an
    unsuitable `output`; `FilesError` if it exists, cannot be written, or has not all of the run to be removed.
    """
    root = opened.run.root
    require_over(opened)
    if remove:
        require_access(opened.run, Access.ACT)
    path = _output_path(opened, output)
    left_out = tuple(list_tree(root)[1])
    if remove and left_out:
        more = f" and {len(left_out) - _MAX_NAMES} more" if left_out[_MAX_NAMES:] else ""
        raise FilesError(
            f"'{root}' has links, pipes or sockets, which an archive does not have: {', '.join(left_out[:_MAX_NAMES])}"
            f"{more}",
            hint="Remove them, or leave --remove out.",
        )
    lock = None
    with suppress(FileNotFoundError):
        lock = take_lock(opened.run.engine_lock, below=root, create=False)
    draft = draft_path(path)
    try:
        progress.stage(f"writing the archive of run '{opened.card.id}'")
        suffix = archive_suffix(path)
        with atomic_file(draft, durable=True, mode=_mode(root)) as stream:
            written = write_archive(root, stream, suffix=suffix)
        progress.stage("reading it back")
        _compare(draft, root, written, suffix)
        if path.exists():
            raise _taken(path)
        move(draft, path)
        sync_folder(path.parent)
        if remove:
            _remove(opened, path)
    except OSError as error:
        raise FilesError(f"no archive is written: {describe_failed_write(error, path.parent)}") from error
    finally:
        with suppress(OSError):
            remove_file(draft)
        if lock is not None:
            lock.release()
    return ArchiveResult(
        run=opened.card.id,
        path=path,
        size_b=path.stat().st_size,
        files=len(written),
        content_b=sum(file.size_b for file in written.values()),
        left_out=left_out,
        removed=remove,
    )


def _output_path(opened: OpenRun, output: Path | None) -> Path:
    root = opened.run.root
    path = Path(os.path.realpath(output)) if output else root.with_name(f"{root.name}{SUFFIXES[0]}")
    if not archive_suffix(path):
        raise UsageError(f"'{path.name}' does not end like an archive", hint=f"Let it end with {', '.join(SUFFIXES)}.")
    if path.is_relative_to(root):
        raise UsageError(f"'{path}' is in the directory of the run", hint="Give a file elsewhere with --output.")
    if path.exists():
        raise _taken(path)
    return path


def _taken(path: Path) -> FilesError:
    return FilesError(f"'{path}' exists already", hint="Remove it, or give another file with --output.")


def _mode(root: Path) -> int:
    """Return the mode of an archive: it is closed to others if a file of the run is."""
    for name in list_tree(root)[0]:
        if not name.endswith("/") and not (root / name).lstat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            return 0o600
    return 0o666


def _compare(archive: Path, root: Path, written: dict[str, ArchivedFile], suffix: str) -> None:
    """Compare an archive with what was read of a run, and the run with that."""
    found = {
        name: (member.size, digest_of(content))
        for name, member, content in read_archive(archive, suffix)
        if content is not None
    }
    if found != {name: (file.size_b, file.digest) for name, file in written.items()}:
        raise RunUnreadableError(f"'{archive}' is not what was written", hint="The disk may be damaged.")
    names = {name for name in list_tree(root)[0] if not name.endswith("/")}
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
        write_entry(msgspec.structs.replace(entry, path=str(path), report=stored, stamp=file_stamp(str(path))))
    # Under another name, it is no run any more if this is killed; `clean` removes the rest.
    gone = draft_path(run.root)
    move(run.root, gone)
    sync_folder(run.root.parent)
    remove_tree(gone)
