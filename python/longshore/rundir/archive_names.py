"""Names of archives, apart because commands that meet no archive need only these."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SUFFIXES: Final = (".tar.xz", ".tar.gz", ".tar.bz2")
"""Ends of names of archives: only formats whose compression has a checksum and an end mark."""


def archive_suffix(path: str | Path) -> str:
    """Return the end of an archive's name; empty for other names."""
    return next((suffix for suffix in SUFFIXES if str(path).endswith(suffix)), "")


def is_archive(path: Path) -> bool:
    """Whether a path is a file with the name of an archive."""
    return bool(archive_suffix(path)) and path.is_file()
