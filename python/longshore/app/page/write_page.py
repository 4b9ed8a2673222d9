"""Writes the page of a run to a file: whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from longshore.errors import FilesError
from longshore.world.files.atomic import write_atomically
from longshore.world.files.disk_space import FULL_ERRORS, describe_failed_write


def write_page(path: Path, text: str) -> None:
    """Write a page; a file that is there is replaced, and stays as it is if that fails.

    Raises
    ------
    FilesError
        The file cannot be written: its folder is missing, its file system is full, or something else is in the way.
    """
    # A link stays, and the file it leads to is replaced.
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise FilesError(f"'{path}' is a directory", hint=f"Name a file, such as '{path / 'report.html'}'.")
    if target.exists() and not target.is_file():
        raise FilesError(f"'{path}' is not a regular file", hint="To write to the standard output: --html -")
    if not target.parent.is_dir():
        raise FilesError(f"the directory '{path.parent}' does not exist", hint=f"Make it: mkdir -p '{path.parent}'")
    try:
        write_atomically(target, text)
    except OSError as error:
        error.filename = str(path)
        hint = "Make room there, or name a file elsewhere." if error.errno in FULL_ERRORS else ""
        raise FilesError(f"cannot write {describe_failed_write(error, target.parent)}", hint=hint) from error
