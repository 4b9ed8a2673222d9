"""What attempts leave in files: declared outputs, looked at before and after, and temporary directories (``TMPDIR``).

A directory is reused while nothing used it, kept after failures if that is wanted, and removed otherwise.

Part of the keeper, beside which it is copied, so that it too needs nothing but the standard library.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "attempt_files":
    from longshore.keeper.program.kernel import append_to_log, system
else:
    # The copy beside the keeper is not in a package.
    from kernel import append_to_log, system

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from longshore.keeper.protocol import EndNotes, MemberOrder

    Look: TypeAlias = tuple[int, int, int, int, int]

_MAX_SPARES = 64


class Outputs:
    """Outputs of the attempts that are started or run.

    An output that has the same inode, size and times before and after an attempt was not written by it. Both looks are
    taken on this host, and no clock is compared. `is_local_disk` is true on a file system that never caches the absence
    of a file.
    """

    def __init__(self, *, is_local_disk: bool = True) -> None:
        self.is_local_disk = is_local_disk
        self.attempts: dict[tuple[int, int], tuple[list[str] | tuple[str, ...], list[Look | None], str]] = {}
        """Per attempt, the paths, the looks before its start, and its log."""

    def begin(self, member: MemberOrder) -> None:
        """Look at the outputs of an attempt before it starts."""
        paths = member["out"]
        looks: list[Look | None] = [None] * len(paths) if is_continued(member) else [look_at(path) for path in paths]
        self.attempts[member["j"], member["a"]] = (paths, looks, member["log"])

    def end(self, job: int, attempt: int, status: int) -> EndNotes:
        """Return the notes for an attempt's end record, and log the faults of outputs after a success."""
        found: list[tuple[int, str]] = []
        stamps: list[tuple[int, int]] = []
        paths, looks, log = self.attempts.pop((job, attempt))
        for number, path in enumerate(paths):
            look = self.look_after(path)
            state = find_fault(look, looks[number])
            if look is not None:
                stamps.append((look[2], look[3]))
            if state:
                found.append((number, state))
                if status == 0:
                    append_to_log(log, "the output '%s' is %s" % (path, _WORDS[state]))
        notes: EndNotes = {}
        if found:
            notes["out"] = found
        if len(stamps) == len(paths):
            notes["st"] = stamps
        return notes

    def look_after(self, path: str) -> Look | None:
        """Look at an output at the end of its attempt."""
        look = look_at(path)
        if look is not None or self.is_local_disk:
            return look
        # Reading the folder makes a network file system look again.
        try:
            system.listdir(os.path.dirname(path))
        except OSError:
            return None
        return look_at(path)


def is_continued(member: MemberOrder) -> bool:
    """Whether an attempt skips tasks that an earlier one did: what these wrote is as it was, and not stale."""
    record = member["v"].get(_TASKS_DONE)
    if not record:
        return False
    try:
        return system.stat(record).st_size > 0
    except (OSError, ValueError):
        return False


_TASKS_DONE = "LONGSHORE_JOB_TASKS_DONE"
"""As in `longshore.jobs.scripts`."""


def find_fault(look: Look | None, before: Look | None) -> str:
    """Return ``missing``, ``stale`` or ``empty``; an empty text for a good output."""
    if look is None:
        return "missing"
    if stat.S_ISREG(look[0]):
        if not look[2]:
            return "empty"
        if look == before:
            return "stale"
    return ""


_WORDS = {"missing": "missing", "empty": "empty", "stale": "as it was before the attempt"}


def look_at(path: str) -> Look | None:
    """Return kind, inode, size and times of a file; ``None`` if it is not there."""
    try:
        found = system.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class Scratch:
    """Temporary directories of attempts.

    Parameters
    ----------
    root
        Folder of the directories.
    find_program
        Path of a program by its name.
    """

    def __init__(self, root: str, find_program: Callable[[str], str]) -> None:
        self.root = root
        self.find_program = find_program
        self.spares: list[str] = []
        """Directories that were never used, for reuse: making one costs more."""
        self.removers: set[int] = set()
        """Processes that remove directories."""

    def path(self, job: int, attempt: int) -> str:
        """Return the path of an attempt's directory."""
        return "%s/%d.%d" % (self.root, job, attempt)

    def make(self, tmp: str) -> None:
        """Make a directory, or rename a spare one to it."""
        try:
            if self.spares:
                system.rename(self.spares.pop(), tmp)
                return
        except OSError:
            # Another program removed it; the usual way remains.
            pass
        system.makedirs(tmp, 0o700)
        # From here on, any file put into it or taken out of it changes this time.
        system.utime(tmp, ns=(0, 0))

    def retain(self, tmp: str) -> str | None:
        """Move a directory out of the removed folder, and return its path; ``None`` if it is empty or immovable."""
        target = os.path.join(self.root + "-kept", os.path.basename(tmp))
        try:
            if not system.listdir(tmp):
                return None
            system.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
            system.rename(tmp, target)
        except OSError:
            return None
        return target

    def clean(self, tmp: str) -> None:
        """Remove a directory, or keep an unused one as spare; a separate process removes one with contents."""
        try:
            if len(self.spares) < _MAX_SPARES:
                status = system.lstat(tmp)
                if status.st_mtime_ns == 0 and status.st_mode == stat.S_IFDIR | 0o700:
                    self.spares.append(tmp)
                    return
            system.rmdir(tmp)
        except FileNotFoundError:
            pass
        except OSError:
            self.remove(tmp)

    def remove(self, tmp: str) -> None:
        """Remove a folder and its contents, in a process of its own."""
        # The process must not hold the pipes: the engine sees by them whether the keeper lives.
        null_files = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1)]
        try:
            program = self.find_program("rm")
            self.removers.add(
                system.posix_spawn(program, ["rm", "-rf", "--", tmp], os.environ, file_actions=null_files)
            )
        except OSError:
            # For example, no more processes can be made; a leftover folder only takes space.
            pass

    def remove_spares(self) -> None:
        """Remove the spare directories."""
        for folder in self.spares:
            remove_empty(folder)
        self.spares.clear()


def remove_empty(folder: str) -> None:
    """Remove a folder unless it has contents."""
    try:
        system.rmdir(folder)
    except OSError:
        # It was never made, another program removed it, or a file in it could not be removed.
        pass
