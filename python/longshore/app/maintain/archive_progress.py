"""Progress of an archive that takes long: how much of the run was written or read back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from longshore.app.progress import Progress
from longshore.model.text_format import format_size

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
