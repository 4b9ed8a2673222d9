"""Archives of runs that were read: the records that a look needs are unpacked in the user's state folder, for a time.

Of a log, only the end is, which reports show; all of it is read from the archive.

A folder is named by a digest of the archive's path, inode, size and times, and belongs to this user alone.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from shlex import quote
from typing import Annotated, Final, NamedTuple

import msgspec

from longshore.contract.service import RunPaths
from longshore.errors import DECODE_ERRORS, FilesError, RunNotFoundError, RunUnreadableError
from longshore.rundir.archive_names import archive_suffix
from longshore.rundir.registry import state_folder
from longshore.system.atomic import create_file, draft_path, write_atomically
from longshore.system.files import files
from longshore.system.folder import make_folders, move, open_parent, remove_file, remove_tree
from longshore.system.reading import open_to_read, read_record
from longshore.system.room import describe_failed_write

LOG: Final = logging.getLogger(__name__)
ARCHIVES_FOLDER: Final = "archives"
"""Name of the folder of the user's state that has what was unpacked."""
_RECORD: Final = "archive.json"
"""Name of the record of an unpacked archive."""
ARCHIVE_IN_USE_S: Final = 3600.0
"""Age of the last look at an unpacked archive below which it may still be read."""
_SILENT_S: Final = 2.0
"""Seconds of unpacking after which users are told of it."""
_MOST: Final = 8
"""Unpacked archives that are kept; others are removed when a further one is unpacked."""
LOG_END_B: Final = 1 << 16
"""Bytes at the end of a log that are unpacked: what reports show of it. Whoever reads all of it reads the archive."""
_LOGS: Final = "logs"
_MOST_MEMBERS: Final = 10_000
_MOST_PER_JOB: Final = 1000
"""Files of one job beyond `_MOST_MEMBERS`, outputs in the run directory among them."""
_MOST_FILES: Final = 1000
_MOST_FILES_PER_JOB: Final = 100
"""Files of one job that are unpacked, beyond `_MOST_FILES`: records and logs of its attempts."""
_MOST_RECORD_B: Final = 16 << 20
_MOST_RECORD_RATIO: Final = 100
_MOST_JOB_B: Final = 1 << 20
"""Bytes of one job that are unpacked, beyond `_MOST_RECORD_B` and `_MOST_RECORD_RATIO` times the archive."""
_FOLDERS: Final = frozenset(
    {
        *("batches", "data", "ends", "inputs", "journal", "keeper", "logs", "pilots", "programs"),
        *("stage", "steer", "submissions", "tasks", "wms"),
    }
)
"""Folders of a run that commands look at; others have outputs of jobs, or can be made again."""
_FILES: Final = frozenset(
    {
        *("run.json", "workflow.jsonl", "origins.json", "made-from.json", "site-choice.json", "status.json"),
        *("input-files.json", "reused-jobs.json", "cleaned.json", "final_job.bash"),
        *("engine.log", "notify.json", "notices.jsonl", "notifier.log"),
    }
)


class UnpackedArchive(msgspec.Struct, frozen=True, kw_only=True):
    """What was unpacked: ``archive.json``."""

    v: int = 1
    file: bytes
    """Path of the archive, which may have bytes that are no UTF-8."""
    directory: bytes = b""
    """Name of the run directory in the archive; empty in records of older versions."""


def archive_of(run: RunPaths) -> Path | None:
    """Return the archive that a run was unpacked from; ``None`` for a run of its own."""
    if run.root.parent != state_folder() / ARCHIVES_FOLDER:
        return None
    record = read_record(run.root / _RECORD, UnpackedArchive)
    return Path(os.fsdecode(record.file)) if record else None


class UnpackCommands(NamedTuple):
    """Commands for the shell that make a run of an archive again; `directory` is the one they make, quoted."""

    unpack: str
    adopt: str
    directory: str


def unpack_commands(run: RunPaths) -> UnpackCommands | None:
    """Return the commands that make a run of an archive again, beside it; ``None`` for a run of its own.

    No file is replaced: the directory of the run may still be there.
    """
    archive = archive_of(run)
    record = read_record(run.root / _RECORD, UnpackedArchive)
    if archive is None or record is None:
        return None
    name = os.fsdecode(record.directory) or archive.name.removesuffix(archive_suffix(archive))
    directory = archive.parent / name
    return UnpackCommands(
        unpack=f"tar -xkf {quote(str(archive))} -C {quote(str(archive.parent))}",
        adopt=f"longshore adopt {quote(str(directory))}",
        directory=quote(str(directory)),
    )


def unpack_archive(path: Path) -> RunPaths:
    """Return the run of an archive, unpacked as far as commands that look at a run need it.

    Raises `RunUnreadableError` if the archive is damaged, `RunNotFoundError` if it has no run, `FilesError` if there is
    no room.
    """
    # Imported late, as below: few commands meet an archive, and the library of digests is large.
    from hashlib import sha256

    status = files.stat(path)
    key = (str(path), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    folder = state_folder() / ARCHIVES_FOLDER
    run = RunPaths(folder / sha256(repr(key).encode(errors="surrogateescape")).hexdigest()[:32])
    if archive_of(run) == path:
        with suppress(OSError), open_parent(run.root, None) as (place, name):
            files.utime(name, dir_fd=place)
        return run
    draft = draft_path(run.root)
    try:
        make_folders(folder)
        _remove_oldest(folder)
        files.mkdir(draft, 0o700)
        top = _unpack(path, draft)
        record = UnpackedArchive(file=os.fsencode(path), directory=os.fsencode(top))
        write_atomically(draft / _RECORD, msgspec.json.encode(record), below=draft)
        if archive_of(run) != path:
            # A part of it was removed, or it was never whole.
            remove_tree(run.root)
        try:
            move(draft, run.root)
        except OSError:
            # Another process may have been faster.
            if archive_of(run) != path:
                raise
    except OSError as error:
        raise FilesError(
            f"'{path}' cannot be unpacked: {describe_failed_write(error, folder)}",
            hint="Make room there, or let XDG_STATE_HOME name another folder.",
        ) from error
    finally:
        remove_tree(draft)
    return run


def _unpack(path: Path, target: Path) -> str:
    """Unpack what commands look at; return the name of the run directory in the archive."""
    from longshore.rundir.run_archive import CARD, read_archive

    begun_s = time.monotonic()
    top = ""
    made: set[Path] = set()
    space = os.statvfs(target)
    room_b = space.f_bavail * space.f_frsize
    bounds = _Bounds(path)
    for name, member, content in read_archive(path):
        bounds.count(member.name)
        top = member.name.partition("/")[0]
        first, _, rest = name.partition("/")
        is_wanted = first in _FOLDERS if rest or content is None else first in _FILES or first.endswith("_config.yaml")
        if not name or not is_wanted:
            continue
        place = target / name
        if content is None:
            make_folders(place, below=target)
            continue
        skipped_b = max(0, member.size - LOG_END_B) if first == _LOGS else 0
        bounds.add(name, member.size - skipped_b)
        room_b -= member.size - skipped_b
        if room_b < 0:
            raise FilesError(f"there is no room to unpack '{path}' in '{target.parent}'", hint="Make room there.")
        if place.parent not in made:
            # An archive may lack the entries of folders.
            make_folders(place.parent, below=target)
            made.add(place.parent)
        pieces = _announce(content.pieces(), path, begun_s)
        if name == CARD:
            pieces = iter([bounds.read_card(b"".join(pieces))])
        mode = member.mode & 0o700 | 0o400
        create_file(place, _without_begin(pieces, skipped_b), below=target, mode=mode, sparse=True)
        with open_parent(place, target) as (folder, last):
            files.utime(last, (member.mtime, member.mtime), dir_fd=folder)
    if not (target / "run.json").exists():
        raise RunNotFoundError(f"there is no run in the archive '{path}'", hint="It has no file 'run.json'.")
    return top


class _Bounds:
    """Bounds of what is taken from an archive, by the number of jobs that the run says it has."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._jobs = 0
        self._members = 0
        self._files = 0
        self._bytes = 0
        # A large input of a run cannot be compressed much; records can.
        self._most_b = _MOST_RECORD_B + _MOST_RECORD_RATIO * path.stat().st_size

    def count(self, name: str) -> None:
        """Count a member; raises `RunUnreadableError` if no run of so many jobs has so many."""
        self._members += 1
        if self._members > _MOST_MEMBERS + _MOST_PER_JOB * self._jobs:
            raise self._error(f"its member '{name[:200]}' is one too many: it has {self._jobs:,} jobs")

    def add(self, name: str, size_b: int) -> None:
        """Add the size of a file that is unpacked; raises `RunUnreadableError` if no run has as much."""
        self._files += 1
        if self._files > _MOST_FILES + _MOST_FILES_PER_JOB * self._jobs:
            raise self._error(f"its member '{name[:200]}' is one too many: it has {self._jobs:,} jobs")
        self._bytes += size_b
        if self._bytes > self._most_b + _MOST_JOB_B * self._jobs or (name == "run.json" and size_b > _MOST_RECORD_B):
            raise self._error(
                f"its files up to '{name[:200]}' have {self._bytes:,} bytes, and it has {self._jobs:,} jobs"
            )

    def read_card(self, text: bytes) -> bytes:
        """Take the number of jobs from ``run.json``, and return its text."""
        with suppress(*DECODE_ERRORS):
            # Each job takes some bytes of the archive.
            self._jobs = min(msgspec.json.decode(text, type=_JobCount).expected, self._path.stat().st_size)
        return text

    def _error(self, what: str) -> RunUnreadableError:
        return RunUnreadableError(
            f"the archive '{self._path}' is damaged, or none: {what}", hint="Bring it back from a copy."
        )


class _JobCount(msgspec.Struct):
    expected: Annotated[int, msgspec.Meta(ge=0)] = 0


def _without_begin(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Pass on pieces of a file with zeros in place of its first bytes, which then take no room on the disk."""
    for piece in pieces:
        left_out = min(size, len(piece))
        yield bytes(left_out)
        yield piece[left_out:]
        size -= left_out


def open_archived_log(log: Path) -> int | None:
    """Open a log of an archive as a temporary file without a name, because only its end was unpacked.

    Returns ``None`` for a log that is there. Raises `RunUnreadableError` if the archive is damaged, `OSError` if it has
    no such file.
    """
    folder = state_folder() / ARCHIVES_FOLDER
    if not log.is_relative_to(folder) or files.stat(log).st_size <= LOG_END_B:
        return None
    root = folder / log.relative_to(folder).parts[0]
    archive = archive_of(RunPaths(root))
    if archive is None:
        return None
    from longshore.rundir.run_archive import read_archive

    wanted = log.relative_to(root).as_posix()
    for name, _, content in read_archive(archive):
        if name == wanted and content is not None:
            place = draft_path(log)
            try:
                create_file(place, content.pieces(), below=root, mode=0o600, sparse=True)
                return open_to_read(place)
            finally:
                with suppress(FileNotFoundError):
                    remove_file(place, below=root)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(log))


def _announce(pieces: Iterator[bytes], path: Path, begun_s: float) -> Iterator[bytes]:
    """Pass on pieces of a file, and log once per archive that unpacking takes a while."""
    for piece in pieces:
        if time.monotonic() > begun_s + _SILENT_S:
            _log_unpacking(path)
        yield piece


@cache
def _log_unpacking(path: Path) -> None:
    LOG.info("unpacking the archive '%s' ...", path)


def _remove_oldest(folder: Path) -> None:
    """Remove unpacked archives that were not read for an hour; the newest stay."""
    latest = time.time() - ARCHIVE_IN_USE_S
    with os.scandir(folder) as entries:
        times = sorted(((entry.stat(follow_symlinks=False).st_mtime, entry.path) for entry in entries), reverse=True)
    for at, path in times[_MOST - 1 :]:
        if at < latest:
            remove_tree(Path(path))
