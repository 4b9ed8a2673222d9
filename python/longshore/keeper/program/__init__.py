"""Keeper, which starts jobs on a host and outlives the engine; its files are listed because runs get copies."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PROGRAM: Final = "guard.py"
"""File that is run: the guard, which starts the keeper; the others lie beside it."""
FILES: Final = (
    "kernel.py",
    "attempt_files.py",
    "units.py",
    "spawner.py",
    "watchdog.py",
    "processes.py",
    "orphans.py",
    "cgroups.py",
    "attempts.py",
    "keeper.py",
    PROGRAM,
)
"""Files of the program, the one that is run last."""
FOLDER: Final = Path(__file__).parent
"""Folder of these files."""
