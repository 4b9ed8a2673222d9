"""Folders of files that can be made again are bounded."""

from __future__ import annotations

import os
import time
from pathlib import Path

from longshore.system.room import bound_cache


def test_the_oldest_files_go(tmp_path: Path) -> None:
    now = time.time()
    for number in range(6):
        (tmp_path / f"{number}.json").touch()
        os.utime(tmp_path / f"{number}.json", (0, now - 7200 + number))
    bound_cache(tmp_path, most=4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2.json", "3.json", "4.json", "5.json"]


def test_what_may_be_in_use_stays(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / f"{number}.lock").touch()
    bound_cache(tmp_path, most=2)
    assert len(list(tmp_path.iterdir())) == 6


def test_a_missing_folder_is_no_error(tmp_path: Path) -> None:
    bound_cache(tmp_path / "none", most=1)
