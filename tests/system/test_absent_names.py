"""A name that no file system takes is that of no file, and no error."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.graphs.payload_files import locate_file
from longshore.system.reading import can_see, can_see_file, can_see_folder


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "file/below", "\ud800", "none"])
def test_a_name_that_cannot_be_is_not_seen(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    assert not can_see(tmp_path / name)
    assert not can_see_file(tmp_path / name)
    assert not can_see_folder(tmp_path / name)
    assert locate_file(name, tmp_path) is None


def test_what_is_there_is_seen(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert can_see(tmp_path / "file")
    assert can_see_file(tmp_path / "file")
    assert can_see_folder(tmp_path)
    assert locate_file("file", tmp_path) == tmp_path / "file"
