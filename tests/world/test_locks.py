"""Whether somebody holds a file's lock."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from longshore.world.locks import is_locked


def test_lock_is_seen_as_long_as_somebody_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w") as file:
        assert not is_locked(path)
        fcntl.flock(file, fcntl.LOCK_EX)
        assert is_locked(path)
    assert not is_locked(path)


def test_who_only_looks_is_not_taken_for_a_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    with path.open() as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert not is_locked(path)


def test_file_that_is_not_there_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        is_locked(tmp_path / "none")
