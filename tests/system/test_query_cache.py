"""One process asks for all: how young an answer must be, how seldom may be asked, and what is told meanwhile."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from longshore.system.sharing import CachedAnswer, OwnTroubleError, cached_answer, seconds_since_boot


class _Asked:
    """Counts the questions, and numbers the answers."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self) -> tuple[str | None, str]:
        self.number += 1
        return f"answer {self.number}", ""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "queue.json"


def test_a_fresh_answer_comes_from_the_cache(path: Path) -> None:
    ask = _Asked()
    first = cached_answer(path, max_age_s=1000, query=ask)
    assert first is not None
    assert cached_answer(path, max_age_s=1000, query=ask) == first
    assert (ask.number, first.text) == (1, "answer 1")


def test_an_old_one_is_not(path: Path) -> None:
    ask = _Asked()
    cached_answer(path, max_age_s=1000, query=ask)
    again = cached_answer(path, max_age_s=0.0, query=ask)
    assert again is not None
    assert again.text == "answer 2"
    later = cached_answer(path, max_age_s=1000, query=ask, not_before=seconds_since_boot())
    assert later is not None
    assert later.text == "answer 3"


def test_queries_keep_the_minimum_interval(path: Path) -> None:
    ask = _Asked()
    cached_answer(path, max_age_s=1000, query=ask)
    assert cached_answer(path, max_age_s=1000, query=ask, not_before=seconds_since_boot(), min_interval_s=1000) is None
    assert cached_answer(path, max_age_s=0.0, query=ask, min_interval_s=1000) is None
    assert ask.number == 1


def test_only_one_process_queries_at_a_time(path: Path) -> None:
    ask = _Asked()
    cached_answer(path, max_age_s=1000, query=ask)
    with path.with_suffix(".lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert cached_answer(path, max_age_s=0.0, query=ask) is None
        assert cached_answer(path, max_age_s=1000, query=ask) is not None
    assert ask.number == 1


def test_a_failed_query_is_cached_too(path: Path) -> None:
    def silent() -> tuple[None, str]:
        return None, "nobody is there"

    first = cached_answer(path, max_age_s=1000, query=silent)
    assert cached_answer(path, max_age_s=1000, query=_Asked()) == first
    assert isinstance(first, CachedAnswer)
    assert (first.text, first.why) == (None, "nobody is there")


@pytest.mark.parametrize("damage", [b"", b"{", b'{"asked_at": 1e18, "text": "", "boot": ""}', b"\xff"])
def test_a_damaged_or_foreign_answer_is_none(path: Path, damage: bytes) -> None:
    ask = _Asked()
    cached_answer(path, max_age_s=1000, query=ask)
    path.write_bytes(damage)
    cached_answer(path, max_age_s=1000, query=ask, min_interval_s=1000)
    assert ask.number == 2


def test_a_folder_that_cannot_be_made_is_no_reason_to_know_nothing(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("", "utf-8")
    told = cached_answer(tmp_path / "state" / "queue.json", max_age_s=0.0, query=_Asked())
    assert told is not None
    assert told.text == "answer 1"


def test_the_trouble_of_one_process_is_no_answer_for_others(path: Path) -> None:
    def crash() -> tuple[str | None, str]:
        raise OwnTroubleError("it crashed")

    failed = cached_answer(path, max_age_s=1000, query=crash)
    assert failed is not None
    assert (failed.text, failed.why) == (None, "it crashed")
    ask = _Asked()
    told = cached_answer(path, max_age_s=1000, query=ask)
    assert told is not None
    assert told.text == "answer 1"
    # Nor does it replace what others were answered.
    assert cached_answer(path, max_age_s=-1.0, query=crash) is not None
    assert cached_answer(path, max_age_s=1000, query=ask) == told
