"""The keeper of a run's local jobs: a program that the engine copies into the run directory, and that outlives it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PROGRAM: Final = "keeper.py"
"""The file that is run; the others lie beside it."""
FILES: Final = (
    "kernel.py",
    "environments.py",
    "records.py",
    "rows.py",
    "scratch.py",
    "spawner.py",
    "watchdog.py",
    "processes.py",
    "cgroups.py",
    "attempts.py",
    PROGRAM,
)
"""The files that the program consists of, that which is run last."""
FOLDER: Final = Path(__file__).parent
"""Where they are."""
