"""Declared outputs of attempts: looked at before the start and at the end.

Part of the keeper, beside which it is copied, so that it too needs nothing but the standard library.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "outputs":
    from longshore.engine.keeper.kernel import append_to_log, system
else:
    # The copy beside the keeper is not in a package.
    from kernel import append_to_log, system

if TYPE_CHECKING:
    from typing import TypeAlias

    from longshore.engine.keeper.protocol import EndNotes, MemberOrder

    Look: TypeAlias = tuple[int, int, int, int, int]


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
