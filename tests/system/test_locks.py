"""Locks hold others off, and say whether they are held."""

from __future__ import annotations

import fcntl
import math
import time
from pathlib import Path
from threading import Thread

import pytest

from longshore.system.atomic import write_atomically
from longshore.system.sharing import Lock, is_locked, lock_folder, take_lock


def test_a_lock_is_seen_as_long_as_it_is_held(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = take_lock(path)
    assert is_locked(path)
    lock.release()
    assert not is_locked(path)


def test_two_checks_at_once_see_no_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    with path.open() as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert not is_locked(path)


def test_a_missing_file_is_not_locked(tmp_path: Path) -> None:
    assert not is_locked(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        take_lock(tmp_path / "none", create=False)


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    with take_lock(tmp_path / "lock"), pytest.raises(BlockingIOError):
        take_lock(tmp_path / "lock")
    begin = time.monotonic()
    with take_lock(tmp_path / "lock", wait_s=0.1), pytest.raises(BlockingIOError):
        take_lock(tmp_path / "lock", wait_s=0.1)
    assert time.monotonic() - begin >= 0.1


@pytest.mark.parametrize("wait_s", [20.0, math.inf])
def test_a_lock_is_waited_for(tmp_path: Path, wait_s: float) -> None:
    path = tmp_path / "lock"
    first = take_lock(path)
    taken: list[Lock] = []
    waiting = Thread(target=lambda: taken.append(take_lock(path, wait_s=wait_s)))
    waiting.start()
    time.sleep(0.05)
    assert not taken
    first.release()
    waiting.join()
    assert is_locked(path)
    taken[0].release()


def test_who_waited_for_a_file_that_was_replaced_takes_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = take_lock(path)
    taken: list[Lock] = []
    waiting = Thread(target=lambda: taken.append(take_lock(path, wait_s=math.inf)))
    waiting.start()
    time.sleep(0.05)
    write_atomically(path, b"")
    first.release()
    waiting.join()
    assert is_locked(path)
    taken[0].release()


def test_a_folder_has_one_holder(tmp_path: Path) -> None:
    with lock_folder(tmp_path):
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path)
