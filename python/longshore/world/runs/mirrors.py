"""Mirrors: run directories that Longshore keeps of directories other tools made, in the user's state folder.

A mirror has the records of the other tool's run in Longshore's own form. The directory itself is only read.
The reason is in decision 0145.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.context import RunPaths
from longshore.world.files.atomic import write_atomically
from longshore.world.files.folder import make_folders
from longshore.world.files.read_file import read_record
from longshore.world.runs.archived_runs import archive_of
from longshore.world.runs.registry import state_folder

_FILE: Final = "mirror.json"
_FOLDER: Final = "mirrors"


class Mirror(msgspec.Struct, frozen=True, kw_only=True):
    """What a run directory mirrors: ``mirror.json``."""

    v: int
    """Version of the mirror; another one is written anew."""
    directory: str
    stamp: str
    """Tells whether the mirrored files are still the same."""


def mirror_of(directory: Path) -> RunPaths:
    """Return the paths of a directory's mirror, which need not exist."""
    # Imported late: few commands meet a mirror, and the library of digests is large.
    import hashlib

    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:32]
    return RunPaths(state_folder() / _FOLDER / digest)


def make_mirror_folders(run: RunPaths) -> None:
    """Make the folders of a mirror."""
    make_folders(run.root)
    for folder in (run.wms, run.journal):
        make_folders(folder, below=run.root)


def read_mirror(run: RunPaths) -> Mirror | None:
    """Read what a run mirrors; ``None`` for a run of Longshore's, and for a directory that only looks like a mirror."""
    if run.root.parent != state_folder() / _FOLDER:
        return None
    return read_record(run.root / _FILE, Mirror)


def write_mirror(run: RunPaths, mirror: Mirror) -> None:
    """Write what a run mirrors, once its other files are complete."""
    write_atomically(run.root / _FILE, msgspec.json.encode(mirror) + b"\n", below=run.root)


def shown_directory(run: RunPaths) -> Path:
    """Return the directory of a run as users know it: that of another tool, or the archive, if it has one."""
    mirror = read_mirror(run)
    if mirror is not None:
        return Path(mirror.directory)
    return archive_of(run) or run.root
