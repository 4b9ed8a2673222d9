"""Writes the files of a crate: as a directory, or as one archive."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from longshore.app.output_file import require_parent, write_error
from longshore.errors import FilesError
from longshore.world.files.atomic import atomic_file, create_file, draft_path
from longshore.world.files.folder import make_folders, move, remove_tree

CrateFiles: TypeAlias = Mapping[str, Iterable[bytes]]
"""Content per name of a file."""
_OLDEST: Final = (1980, 1, 1, 0, 0, 0)
"""Time of files in archives, so that equal crates are equal archives."""


def write_crate(path: Path, content: CrateFiles) -> None:
    """Write a crate to an archive if the path ends with ``.zip``, else to a new directory: whole, or not at all.

    Raises
    ------
    FilesError
        The path exists and is no archive, or cannot be written.
    """
    target = Path(os.path.realpath(path))
    is_archive = path.suffix.lower() == ".zip"
    if target.exists() and not (is_archive and target.is_file()):
        raise FilesError(f"'{path}' exists already", hint="Remove it, or name another directory, or an archive (.zip).")
    require_parent(path, target)
    try:
        if is_archive:
            _write_archive(target, content)
        else:
            _write_directory(target, content)
    except OSError as error:
        raise write_error(error, path, target) from error


def _write_archive(target: Path, content: CrateFiles) -> None:
    with atomic_file(target) as file, zipfile.ZipFile(file, "w") as archive:
        for name, chunks in content.items():
            entry = zipfile.ZipInfo(name, _OLDEST)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, b"".join(chunks))


def _write_directory(target: Path, content: CrateFiles) -> None:
    draft = draft_path(target)
    make_folders(draft)
    try:
        for name, chunks in content.items():
            create_file(draft / name, chunks)
        move(draft, target)
    except BaseException:
        remove_tree(draft)
        raise
