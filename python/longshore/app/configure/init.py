"""Example files for a new payload (`longshore init`); existing files are never overwritten."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from longshore.errors import FilesError
from longshore.system.atomic import create_file, make_executable
from longshore.system.folder import make_folders
from longshore.world.plugins import shipped_path

STARTER_FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "pipeline": ("pipeline.yaml",),
    "script": ("script.yaml", "script.sh"),
    "lsst": ("lsst.yaml",),
    "site": ("site.yaml",),
}
"""Files per kind of example."""

_NEXT_COMMANDS: Final[Mapping[str, str]] = {
    "pipeline": "longshore submit {path} --wait",
    "script": "longshore submitcmd {path} --wait",
    "lsst": "longshore config lint {path}",
    "site": "longshore config lint {path}",
}
"""Next command to run, per kind of example."""


def write_starter_files(kind: str, folder: Path) -> tuple[list[Path], str]:
    """Write the example files of a kind into a folder, which is created if missing; return the next command, too.

    Raises `FilesError` if a file exists (nothing is written then) or cannot be written.
    """
    targets = [folder / name for name in STARTER_FILES[kind]]
    for target in targets:
        if target.exists() or target.is_symlink():
            raise FilesError(
                f"'{target}' exists already", hint="Name another directory: longshore init --kind KIND DIR"
            )
    try:
        make_folders(folder)
        for target in targets:
            # Exclusive creation: a file that appears at this moment is not overwritten either.
            create_file(target, [shipped_path("etc", "starters", target.name).read_bytes()])
            if target.suffix == ".sh":
                make_executable(target)
    except OSError as error:
        raise FilesError(f"'{error.filename or folder}' cannot be written: {error.strerror}") from error
    return targets, _NEXT_COMMANDS[kind].format(path=targets[0])
