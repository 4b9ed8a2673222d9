"""Pilot program, between the engine's orders and a keeper on a node; its files are listed because nodes get copies."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from longshore.keeper import program as keeper

PROGRAM: Final = "pilot.py"
"""File that is run; the others lie beside it."""
STARTER: Final = "node_starter.py"
"""File that is run where an allocation has several nodes, which are started one by one."""
FILES: Final = (
    "pilot_system.py",
    "pilot_mailbox.py",
    "pilot_keeper.py",
    "waiting_attempts.py",
    STARTER,
    PROGRAM,
)
"""Files of the program, the one that is run last; the keeper's lie beside them."""
FOLDER: Final = Path(__file__).parent
"""Folder of these files."""


def program_files() -> dict[str, bytes]:
    """Return the names and contents of all files that a node needs, those of the keeper included."""
    own = {name: (FOLDER / name).read_bytes() for name in FILES}
    return {**{name: (keeper.FOLDER / name).read_bytes() for name in keeper.FILES}, **own}
