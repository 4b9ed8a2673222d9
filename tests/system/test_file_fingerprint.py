"""Footprints of files: what is the same, what is not, and what cannot be told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from longshore.system.reading import describe_change, fingerprint_file


def test_a_file_that_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("abc", "utf-8")
    before = fingerprint_file(path)
    assert before is not None
    assert (before.path, before.size) == (str(path), 3)
    assert before.sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert describe_change(before, Path("/")) == ""
    os.utime(path, ns=(1, 1))
    assert describe_change(before, Path("/")) == ""


def test_a_name_of_its_own_is_seen_from_another_folder(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("abc", "utf-8")
    before = fingerprint_file(path, "file")
    assert before is not None
    assert before.path == "file"
    assert describe_change(before, tmp_path) == ""
    assert describe_change(before, tmp_path / "elsewhere") == "is not there any more"
    assert describe_change(before, path) == "is not there any more"


def test_only_files_have_a_fingerprint(tmp_path: Path) -> None:
    assert fingerprint_file(tmp_path) is None
    assert fingerprint_file(tmp_path / "nothing") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [("abcd", "has another content now: 4 bytes, and 3 then"), ("xyz", "has another content now, as long as before")],
)
def test_a_file_that_is_another(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "file"
    path.write_text("abc", "utf-8")
    before = fingerprint_file(path)
    assert before is not None
    path.write_text(text, "utf-8")
    os.utime(path, ns=(1, 1))
    assert describe_change(before, Path("/")) == said


def test_a_folder_in_its_place_can_no_longer_be_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 4096)
    before = fingerprint_file(path)
    assert before is not None
    path.unlink()
    path.mkdir()
    assert describe_change(before, Path("/")).startswith(("has another content", "can no longer be read"))


def test_an_inaccessible_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("abc", "utf-8")
    before = fingerprint_file(path, "file")
    assert before is not None
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert describe_change(before, loop).startswith("cannot be looked at: ")
