"""What is kept of how far a run was read is there whole or not at all, and one writes it at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.disk import room_for

from longshore.services.htcondor.events.cache import (
    Told,
    forget_told,
    held_off,
    is_all_told,
    is_told,
    read_told,
    write_told,
)
from longshore.world.files.locks import is_locked


def test_what_is_kept_is_read_again_until_it_is_forgotten(tmp_path: Path) -> None:
    assert not is_told(tmp_path)
    assert not is_all_told(tmp_path, 0)
    write_told(tmp_path, Told(lives=2, sizes=[5, 7], finished=True))
    assert [is_all_told(tmp_path, lives) for lives in (1, 2, 3)] == [False, True, False]
    (tmp_path / "0001.jsonl").write_text("12345", "utf-8")
    assert is_told(tmp_path)
    assert read_told(tmp_path).sizes == [5, 7]
    forget_told(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        read_told(tmp_path)


def test_what_does_not_fit_leaves_what_was_there(tmp_path: Path) -> None:
    write_told(tmp_path, Told(lives=1))
    with room_for(0), pytest.raises(OSError, match="File too large"):
        write_told(tmp_path, Told(lives=2))
    assert read_told(tmp_path).lives == 1
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_others_are_held_off(tmp_path: Path) -> None:
    with held_off(tmp_path) as may_write:
        assert may_write
        assert is_locked(tmp_path / "lock")
        with held_off(tmp_path, wait_s=0.1) as may_write_too:
            assert not may_write_too
    assert not is_locked(tmp_path / "lock")
    (tmp_path / "file").touch()
    with held_off(tmp_path / "file") as may_write:
        assert not may_write
