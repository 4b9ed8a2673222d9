"""Turns: as many at once as a second has, never more, and all processes of a user draw on the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.system.sharing import RateLimit


def test_a_burst_is_at_most_one_second_of_actions(tmp_path: Path) -> None:
    # So few a second that however slow the machine is, none comes to be free meanwhile that matters.
    turns = RateLimit(tmp_path / "a" / "turns", 1 / 3600)
    assert turns.count_available() == 1
    assert turns.acquire() == 0.0
    assert turns.count_available() == 0
    assert 3000 < turns.acquire() <= 3600


def test_others_draw_on_the_same(tmp_path: Path) -> None:
    assert RateLimit(tmp_path / "turns", 1 / 3600).acquire() == 0.0
    assert RateLimit(tmp_path / "turns", 1 / 3600).count_available() == 0
    assert RateLimit(tmp_path / "others", 1 / 3600).count_available() == 1


def test_many_a_second(tmp_path: Path) -> None:
    turns = RateLimit(tmp_path / "turns", 1000.0)
    assert turns.count_available() == 1000
    assert turns.acquire() == 0.0


@pytest.mark.parametrize("damage", ["", "x", "other-boot 1e300", "nan nan"])
def test_a_damaged_file_does_not_limit(tmp_path: Path, damage: str) -> None:
    (tmp_path / "turns").write_text(damage, "utf-8")
    turns = RateLimit(tmp_path / "turns", 0.001)
    assert turns.count_available() == 1
    assert turns.acquire() == 0.0


def test_an_unwritable_folder_does_not_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    turns = RateLimit(tmp_path / "file" / "turns", 0.001)
    assert (turns.acquire(), turns.acquire()) == (0.0, 0.0)
