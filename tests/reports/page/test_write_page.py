"""A page is written whole or not at all, and every refusal names the file and the way out."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.disk import room_for

from longshore.errors import FilesError
from longshore.reports.page.render import write_page


def test_a_page_replaces_the_one_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_page(path, "one")
    write_page(path, "two")
    assert path.read_text("utf-8") == "two"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    link, path = tmp_path / "latest.html", tmp_path / "report.html"
    link.symlink_to(path)
    write_page(link, "text")
    assert link.is_symlink()
    assert path.read_text("utf-8") == "text"


def test_a_full_disk_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_page(path, "old")
    with room_for(100), pytest.raises(FilesError) as caught:
        write_page(path, "x" * 100_000)
    assert str(path) in caught.value.message
    assert path.read_text("utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "is a directory"),
        ("missing/report.html", "does not exist"),
        ("/dev/null", "is not a regular file"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(FilesError, match=words) as caught:
        write_page(tmp_path / name, "text")
    assert caught.value.hint
