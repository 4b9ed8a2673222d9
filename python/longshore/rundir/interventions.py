"""Interventions: files by which the user's processes ask a run's engine to act, taken in order of names."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import msgspec

from longshore.contract.service import RunPaths
from longshore.errors import DECODE_ERRORS, SubmissionRefusedError
from longshore.rundir.run_directory import accepts_order_of, is_own_run, read_owner, user_name_of
from longshore.system.atomic import write_atomically
from longshore.system.files import files
from longshore.system.folder import make_folders, move, remove_file
from longshore.system.processes import processes
from longshore.system.reading import read_with_status
from longshore.system.room import CLOSED_ERRORS, FULL_ERRORS, describe_failed_write

_SUFFIX: Final = ".json"
_REFUSED: Final = ".refused"
_NO_FILE_OF_OURS: Final = (errno.ELOOP, errno.EINVAL, errno.EISDIR)
"""Errors of a link, and of a special file or folder."""
InterventionKind = Literal["cancel", "pause", "unpause", "throttle", "hold", "release", "set", "restart"]
"""Kind of intervention."""


class InterventionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Intervention by a user; an empty selection means the whole run."""

    who: str
    """Login name as the writer states it; readers take the owner of the file."""
    act: InterventionKind
    jobs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    set: Mapping[str, str] = msgspec.field(default_factory=dict)
    from_labels: tuple[str, ...] = ()
    """For a restart: labels whose jobs run again even if they succeeded."""


def write_intervention(run: RunPaths, record: InterventionRecord) -> Path:
    """Write an intervention for the engine, atomically, and return its path, which exists until the engine takes it.

    Raises
    ------
    SubmissionRefusedError
        The run directory belongs to another user, or its disk is full.
    """
    try:
        make_folders(run.steer, below=run.root, durable=True)
        path = run.steer / f"{_next_number(run):020}-{processes.getpid()}{_SUFFIX}"
        write_atomically(path, msgspec.json.encode(record), below=run.root, durable=True)
        if not is_own_run(run.root):
            # The engine of the owner has to read it, whatever this user's umask is; it may have taken it this moment.
            with suppress(FileNotFoundError):
                files.chmod(path, 0o644)
    except OSError as error:
        # Without the name of its draft, which says nothing to the user.
        what = describe_failed_write(OSError(error.errno, error.strerror), run.root)
        hint = ""
        if error.errno in FULL_ERRORS:
            hint = "Make room there, and give the order again."
        elif error.errno in CLOSED_ERRORS:
            hint = "Only users with write access to a run can steer it."
        raise SubmissionRefusedError(f"no intervention can be written to {what}", hint=hint) from error
    return path


def _next_number(run: RunPaths) -> int:
    """Return a number above those of all pending interventions, even if the clock was set back in between."""
    newest = max((name.partition("-")[0] for name in files.listdir(run.steer)), default="")
    return max(time.time_ns(), int(newest) + 1 if newest.isdecimal() else 0)


def discard_interventions(run: RunPaths) -> None:
    """Remove all pending interventions."""
    for path, _ in read_interventions(run):
        remove_file(path, below=run.root)


def is_refused(path: Path) -> bool:
    """Whether the engine set an intervention aside instead of carrying it out."""
    return path.with_suffix(_REFUSED).exists()


def read_interventions(
    run: RunPaths, on_refused: Callable[[str], None] = lambda _: None
) -> list[tuple[Path, InterventionRecord]]:
    """Return the pending interventions, oldest first; set an unreadable one aside instead of carrying it out.

    The user of an intervention is the owner of its file, whatever the file says. `on_refused` is called with a line
    about each intervention of a user whose orders the run does not take; it is set aside as well.
    """
    try:
        names = sorted(name for name in files.listdir(run.steer) if name.endswith(_SUFFIX))
        owner = read_owner(run.root) if names else None
    except OSError:
        # The folder is missing, or unreadable for now: its interventions are taken once it can be read.
        return []
    pending = []
    for name in names:
        path = run.steer / name
        try:
            text, status = read_with_status(path)
        except OSError as error:
            # Else, another engine has taken over the run and this intervention, or the file is unreadable for now.
            if error.errno in _NO_FILE_OF_OURS:
                _set_aside(run, path, _REFUSED)
                on_refused(f"the order '{name}' is refused: it is no regular file")
            continue
        user = user_name_of(status.st_uid)
        if status.st_nlink > 1 or (owner is not None and not accepts_order_of(owner, status.st_uid)):
            # A second name could be that of a file which another user wrote for another purpose.
            _set_aside(run, path, _REFUSED)
            on_refused(f"the order '{name}' of the user '{user}' is refused: the run takes none of this user")
            continue
        try:
            record = msgspec.json.decode(text, type=InterventionRecord)
        except DECODE_ERRORS:
            _set_aside(run, path, ".unreadable")
            continue
        pending.append((path, msgspec.structs.replace(record, who=user)))
    return pending


def _set_aside(run: RunPaths, path: Path, suffix: str) -> None:
    with suppress(OSError):
        move(path, path.with_suffix(suffix), below=run.root)
