"""Links named by run ids, for users who know only a run's id, and second names of files."""

from __future__ import annotations

import os
from pathlib import Path

from longshore.world.files.folder import make_folders, open_parent
from longshore.world.files.system import files


def link_by_id(folder: Path, run_id: str, target: Path) -> str:
    """Link ``<folder>/<run id>`` to a run directory; return a line that reports the result.

    A link to another target stays: it may be the user's only reference to another run.
    """
    link = folder / run_id
    try:
        make_folders(folder)
        # `Path.resolve` would fail on a link that points to itself.
        if link.is_symlink() and os.path.realpath(link) == os.path.realpath(target):
            return f"Made id softlink: {link}"
        files.symlink(target, link, target_is_directory=True)
    except FileExistsError:
        return f"could not make the id softlink '{link}': something else of that name is there"
    except OSError as error:
        return f"could not make the id softlink '{link}': {error.strerror}"
    return f"Made id softlink: {link}"


def link_file(source: Path, target: Path, *, below: Path) -> None:
    """Give a file a second name, a hard link; raises `OSError` if its file system cannot."""
    with open_parent(target, below) as (folder, name):
        files.link(source, name, dst_dir_fd=folder)
