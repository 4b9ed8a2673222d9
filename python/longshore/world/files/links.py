"""Makes links named by run ids, for people who know only the id."""

from __future__ import annotations

import os
from pathlib import Path


def link_by_id(folder: Path, run_id: str, target: Path) -> str:
    """Make ``<folder>/<run id>`` lead to a run directory, and say in a line what became of that.

    A link that leads elsewhere is left alone: it may be all that somebody remembers another run by.
    """
    link = folder / run_id
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # `Path.resolve` would fail on a link that leads to itself.
        if link.is_symlink() and os.path.realpath(link) == os.path.realpath(target):
            return f"Made id softlink: {link}"
        link.symlink_to(target, target_is_directory=True)
    except FileExistsError:
        return f"could not make the id softlink '{link}': something else of that name is there"
    except OSError as error:
        return f"could not make the id softlink '{link}': {error.strerror}"
    return f"Made id softlink: {link}"
