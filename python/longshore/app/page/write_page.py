"""Writes the page of a run to a file: whole, or not at all."""

from __future__ import annotations

from pathlib import Path

from longshore.app.output_file import write_file


def write_page(path: Path, text: str) -> None:
    """Write a page; a file that is there is replaced, and stays as it is if that fails.

    Raises
    ------
    FilesError
        The file cannot be written: its folder is missing, its file system is full, or something else is in the way.
    """
    write_file(path, (text.encode(),), example="report.html", to_stdout="--html -")
