"""A file that a user names keeps its permissions, and a new one has those of the umask."""

from __future__ import annotations

from pathlib import Path

from longshore.system.output_file import write_file


def write(path: Path) -> int:
    write_file(path, [b"one", b"two"], example="x", to_stdout="-")
    assert path.read_bytes() == b"onetwo"
    return path.stat().st_mode & 0o777


def test_a_closed_file_stays_closed(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.touch()
    path.chmod(0o600)
    assert write(path) == 0o600
    path.chmod(0o664)
    assert write(path) == 0o664


def test_a_new_file_is_as_the_umask_says(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.touch()
    assert write(tmp_path / "new") == other.stat().st_mode & 0o777
