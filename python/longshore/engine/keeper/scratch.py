"""Temporary directories (``TMPDIR``) of attempts: made, reused while unused, kept after failures, removed.

Part of the keeper, beside which it is copied, so that it too needs nothing but the standard library.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "scratch":
    from longshore.engine.keeper.kernel import system
else:
    # The copy beside the keeper is not in a package.
    from kernel import system

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_SPARES = 64


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
