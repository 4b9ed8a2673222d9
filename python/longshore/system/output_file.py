"""Writes a file that a user names, whole or not at all; apart because only commands that export do so."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from pathlib import Path
from shlex import quote

from longshore.errors import FilesError
from longshore.system.atomic import atomic_file
from longshore.system.files import files
from longshore.system.reading import real_path
from longshore.system.room import CLOSED_ERRORS, FULL_ERRORS, describe_failed_write


def write_file(path: Path, chunks: Iterable[bytes], *, example: str, to_stdout: str) -> None:
    """Write a file; one that is there is replaced with its permissions, and stays as it is if that fails.

    Parameters
    ----------
    chunks
        Content of the file.
    example
        Name of a file in that place, for hints.
    to_stdout
        How a user writes to the standard output instead, for hints.

    Raises
    ------
    FilesError
        The file cannot be written: its folder is missing, its file system is full, or something else is in the way.
    """
    # A link stays, and the file it leads to is replaced.
    target = real_path(path)
    try:
        if target.is_dir():
            raise FilesError(f"'{path}' is a directory", hint=f"Name a file, such as '{path / example}'.")
        if target.exists() and not target.is_file():
            raise FilesError(f"'{path}' is not a regular file", hint=f"To write to the standard output: {to_stdout}")
        require_parent(path, target)
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        with atomic_file(target) as file:
            if mode is not None:
                files.fchmod(file.fileno(), mode)
            file.writelines(chunks)
    except OSError as error:
        raise write_error(error, path, target) from error


def require_parent(path: Path, target: Path) -> None:
    """Refuse a path whose directory does not exist; `target` is the path without links."""
    if not target.parent.is_dir():
        # That of a link is where it leads to.
        folder = target.parent if path.is_symlink() else path.parent
        raise FilesError(f"the directory '{folder}' does not exist", hint=f"Make it: mkdir -p {quote(str(folder))}")


def write_error(error: OSError, path: Path, target: Path) -> FilesError:
    """Return the error for a path that could not be written; `target` is the path without links."""
    error.filename = str(path)
    hint = ""
    if error.errno in FULL_ERRORS:
        hint = "Make room there, or name a file elsewhere."
    elif error.errno in CLOSED_ERRORS:
        hint = "Name a file in a folder that you may write to."
    return FilesError(f"cannot write {describe_failed_write(error, target.parent)}", hint=hint)
