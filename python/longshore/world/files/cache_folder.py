"""Bounds of folders whose files can be made again."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from longshore.world.files.folder import remove_file

_IN_USE_S: Final = 3600.0
"""Age below which a file, which may be a lock that is held, stays."""


@cache
def bound_cache(folder: Path, *, most: int) -> None:
    """Remove the oldest files of a folder beyond `most`, once in the life of a process.

    A file of the last hour stays. Nothing is raised: what cannot be removed stays.
    """
    latest = time.time() - _IN_USE_S
    with suppress(OSError):
        with os.scandir(folder) as entries:
            times = sorted(((entry.stat().st_mtime, entry.path) for entry in entries), reverse=True)
        for at, path in times[most:]:
            if at < latest:
                remove_file(Path(path))
