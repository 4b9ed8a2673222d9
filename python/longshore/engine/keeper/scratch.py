"""The temporary directories of attempts: made, given on while they are as good as new, kept, removed.

Part of the keeper, beside which it is copied, so that it too needs nothing but the standard library.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_SPARE_FOLDERS = 64


class Scratch:
    """Where attempts have their temporary directories.

    Parameters
    ----------
    root
        The folder they are in.
    find_program
        Path of a program by its name.
    """

    def __init__(self, root: str, find_program: Callable[[str], str]) -> None:
        self.root = root
        self.find_program = find_program
        self.spare: list[str] = []
        """Directories in which nothing was ever put, to be given to others: making one costs more."""
        self.cleaners: set[int] = set()
        """Processes that remove some."""

    def path(self, job: int, attempt: int) -> str:
        """Where an attempt has its own."""
        return "%s/%d.%d" % (self.root, job, attempt)

    def make(self, tmp: str) -> None:
        """Make a directory, or give it one that is as good as new."""
        try:
            if self.spare:
                os.rename(self.spare.pop(), tmp)
                return
        except OSError:
            # Somebody tidied up; there is always the usual way.
            pass
        os.makedirs(tmp, 0o700)
        # From here on, whatever is put into it or taken out of it changes this.
        os.utime(tmp, ns=(0, 0))

    def keep(self, tmp: str) -> str | None:
        """Put a directory out of the way of those that remove it; ``None`` if it is empty."""
        kept = os.path.join(self.root + "-kept", os.path.basename(tmp))
        try:
            if not os.listdir(tmp):
                return None
            os.makedirs(os.path.dirname(kept), 0o700, exist_ok=True)
            os.rename(tmp, kept)
        except OSError:
            return None
        return kept

    def clean(self, tmp: str) -> None:
        """Remove a directory, in a process of its own when there is something in it."""
        try:
            if len(self.spare) < _SPARE_FOLDERS:
                found = os.lstat(tmp)
                if found.st_mtime_ns == 0 and found.st_mode == stat.S_IFDIR | 0o700:
                    self.spare.append(tmp)
                    return
            os.rmdir(tmp)
        except FileNotFoundError:
            pass
        except OSError:
            self.remove(tmp)

    def remove(self, tmp: str) -> None:
        """Remove a folder and all in it, in a process of its own."""
        # It must not hold the pipes: the engine tells by them whether the keeper lives.
        nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1)]
        try:
            remove = self.find_program("rm")
            self.cleaners.add(os.posix_spawn(remove, ["rm", "-rf", "--", tmp], os.environ, file_actions=nowhere))
        except OSError:
            # No more processes can be made, say; what stays behind does no harm but to the space it takes.
            pass

    def tidy(self) -> None:
        """Remove the spare ones."""
        for folder in self.spare:
            remove_empty(folder)
        self.spare.clear()


def remove_empty(folder: str) -> None:
    """Remove a folder unless there is something in it."""
    try:
        os.rmdir(folder)
    except OSError:
        # It was never made, somebody else was faster, or something in it could not be removed.
        pass
