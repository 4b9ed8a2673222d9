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

    from longshore.engine.keeper.protocol import MemberOrder

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
        self.attempts[member["j"], member["a"]] = (paths, [look_at(path) for path in paths], member["log"])

    def end(self, job: int, attempt: int, status: int) -> list[tuple[int, str]]:
        """Return the number and state of each output that is not as it should be, and log them after a success."""
        found: list[tuple[int, str]] = []
        paths, looks, log = self.attempts.pop((job, attempt))
        for number, path in enumerate(paths):
            state = self.check(path, looks[number])
            if state:
                found.append((number, state))
                if status == 0:
                    append_to_log(log, "the output '%s' is %s" % (path, _WORDS[state]))
        return found

    def check(self, path: str, before: Look | None) -> str:
        """Return ``missing``, ``stale`` or ``empty``; an empty text for a good output."""
        after = look_at(path)
        if after is None:
            if self.is_local_disk:
                return "missing"
            # Reading the folder makes a network file system look again.
            try:
                system.listdir(os.path.dirname(path))
            except OSError:
                return "missing"
            after = look_at(path)
            if after is None:
                return "missing"
        if stat.S_ISREG(after[0]):
            if not after[2]:
                return "empty"
            if after == before:
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
