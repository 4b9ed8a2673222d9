"""The amounts that `clean` prints: a folder that goes with its content is no file."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.cli.space import describe_amount
from longshore.control.clean import RemovableFile, RemovableKind


@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        ([], "0 files of 0 B"),
        ([False], "1 file of 100 B"),
        ([True], "1 folder of 100 B"),
        ([False, True, False, True], "2 files and 2 folders of 400 B"),
    ],
)
def test_files_and_folders_are_counted_apart(folders: list[bool], expected: str) -> None:
    removable = [
        RemovableFile(
            kind=RemovableKind.CACHES, path=Path(f"/x/{number}"), root=Path("/x"), size_b=100, is_folder=is_folder
        )
        for number, is_folder in enumerate(folders)
    ]
    assert describe_amount(removable) == expected
