"""Keeper: the program that starts a run's local jobs, is copied into the run directory, and outlives the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PROGRAM: Final = "guard.py"
"""File that is run: the guard, which starts the keeper; the others lie beside it."""
FILES: Final = (
    "kernel.py",
    "environments.py",
    "records.py",
    "keeper_lanes.py",
    "outputs.py",
    "scratch.py",
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
