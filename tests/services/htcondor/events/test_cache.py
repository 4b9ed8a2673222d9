"""The cache of read state: complete or absent, with one writer at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.disk import room_for

from longshore.services.htcondor.events.event_source import (
    ReadState,
    clear_cache,
    has_state,
    is_complete,
    lock_cache,
    read_state,
    write_state,
)
from longshore.system.sharing import is_locked


def test_state_is_read_back_until_it_is_cleared(tmp_path: Path) -> None:
    assert not has_state(tmp_path)
    assert not is_complete(tmp_path, 0)
    write_state(tmp_path, ReadState(submissions=2, sizes=[5, 7], is_finished=True))
    assert [is_complete(tmp_path, lives) for lives in (1, 2, 3)] == [False, True, False]
    (tmp_path / "0001.jsonl").write_text("12345", "utf-8")
    assert has_state(tmp_path)
    assert read_state(tmp_path).sizes == [5, 7]
    clear_cache(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        read_state(tmp_path)


def test_a_failed_write_keeps_the_old_state(tmp_path: Path) -> None:
    write_state(tmp_path, ReadState(submissions=1))
    with room_for(0), pytest.raises(OSError, match="File too large"):
        write_state(tmp_path, ReadState(submissions=2))
    assert read_state(tmp_path).submissions == 1
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_the_lock_excludes_other_readers(tmp_path: Path) -> None:
    with lock_cache(tmp_path) as may_write:
        assert may_write
        assert is_locked(tmp_path / "lock")
        with lock_cache(tmp_path, wait_s=0.1) as may_write_too:
            assert not may_write_too
    assert not is_locked(tmp_path / "lock")
    (tmp_path / "file").touch()
    with lock_cache(tmp_path / "file") as may_write:
        assert not may_write
