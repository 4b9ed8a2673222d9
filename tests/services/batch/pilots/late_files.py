"""Files as a network file system shows them: what was appended is seen only after a while, and so is a new file.

For an engine in the process of a test; `tests.faults.mount` does the same for other processes.
"""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

import pytest

from longshore.services.batch.pilots import pilot_link


class LateFiles:
    """Shows the growth of a file some seconds after the first look that could have seen it."""

    close = staticmethod(os.close)

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self.sizes: dict[tuple[int, int], list[tuple[float, int]]] = {}
        """Per file, the time of the first look at each size; the first of them is shown once it is old enough."""

    def shown(self, file: int) -> int | None:
        """Return how many bytes of an open file are shown; ``None`` if the file is not there yet."""
        status, now = os.fstat(file), time.monotonic()
        sizes = self.sizes.setdefault((status.st_dev, status.st_ino), [(now, status.st_size)])
        if sizes[-1][1] != status.st_size:
            sizes.append((now, status.st_size))
        while len(sizes) > 1 and now - sizes[1][0] >= self.delay_s:
            del sizes[0]
        return sizes[0][1] if now - sizes[0][0] >= self.delay_s else None

    def open(self, path: str, flags: int) -> int:
        """Open a file that is shown."""
        file = os.open(path, flags)
        if self.shown(file) is None:
            os.close(file)
            raise FileNotFoundError(2, "No such file or directory", path)
        return file

    def pread(self, file: int, count: int, offset: int) -> bytes:
        """Read what is shown of a file."""
        return os.pread(file, max(0, min(count, (self.shown(file) or 0) - offset)), offset)


def show_late(patch: pytest.MonkeyPatch, delay_s: float) -> None:
    """Let the engine of this process see the files of mailboxes late."""
    late = LateFiles(delay_s)
    door = SimpleNamespace(pread=late.pread, close=os.close, pwrite=os.pwrite, fsync=os.fsync)
    patch.setattr(pilot_link, "files", door)
    patch.setattr(pilot_link, "open_to_read", lambda path: late.open(str(path), os.O_RDONLY))
