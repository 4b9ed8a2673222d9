"""Several processes ask together: one asks for the items of all, seldom, and the others take its answer."""

from __future__ import annotations

import fcntl
from collections.abc import Sequence
from pathlib import Path

import pytest

from longshore.system import sharing
from longshore.system.sharing import OwnTroubleError, SharedBatch


class Asked:
    """The questions asked; every answer repeats the question."""

    def __init__(self, why: str = "") -> None:
        self.questions: list[list[str]] = []
        self._why = why

    def __call__(self, items: Sequence[str]) -> tuple[tuple[str, ...] | None, str]:
        self.questions.append(list(items))
        return (None, self._why) if self._why else (tuple(items), "")


class Moment:
    """Seconds since boot, as the test has them."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def moment(monkeypatch: pytest.MonkeyPatch) -> Moment:
    found = Moment()
    monkeypatch.setattr(sharing, "seconds_since_boot", found)
    return found


def test_one_asks_for_what_all_want(tmp_path: Path, moment: Moment) -> None:
    asked = Asked()
    shares = [SharedBatch(tmp_path / "s", f"{number}") for number in range(3)]
    first = shares[0].ask({"a": 0.0}, asked, min_interval_s=10.0)
    assert first is not None
    assert first.texts == ("a",)
    moment.now_s += 1.0
    assert [share.ask({f"x{n}": 999.0}, asked, min_interval_s=10.0) for n, share in enumerate(shares)] == [None] * 3
    moment.now_s += 9.5
    answers = [share.ask({f"x{n}": 999.0}, asked, min_interval_s=10.0) for n, share in enumerate(shares)]
    assert asked.questions == [["a"], ["x0", "x1", "x2"]]
    assert all(answer is not None and answer.texts == ("x0", "x1", "x2") for answer in answers)
    assert shares[0].ask({"x0": 999.0}, asked, min_interval_s=10.0) is None, "an answer is taken once"


def test_an_answer_that_is_too_old_for_an_item_is_not_taken(tmp_path: Path, moment: Moment) -> None:
    asked = Asked()
    one, other = SharedBatch(tmp_path / "s", "1"), SharedBatch(tmp_path / "s", "2")
    assert one.ask({"a": 0.0}, asked, min_interval_s=0.0)
    moment.now_s += 5.0
    assert other.ask({"a": 1003.0}, asked, min_interval_s=100.0) is None
    assert other.ask({"a": 1000.0}, asked, min_interval_s=100.0) is not None


def test_the_trouble_of_one_process_is_told_to_no_other(tmp_path: Path, moment: Moment) -> None:
    def crash(items: Sequence[str]) -> tuple[tuple[str, ...] | None, str]:
        asked.questions.append(list(items))
        raise OwnTroubleError("it crashed")

    asked = Asked()
    one, other = SharedBatch(tmp_path / "s", "1"), SharedBatch(tmp_path / "s", "2")
    failed = one.ask({"a": 0.0}, crash, min_interval_s=10.0)
    assert failed is not None
    assert (failed.texts, failed.why) == (None, "it crashed")
    # It is not repeated at once, and others need not wait for it.
    assert one.ask({"a": 0.0}, crash, min_interval_s=10.0) is None
    answer = other.ask({"b": 0.0}, asked, min_interval_s=10.0)
    assert answer is not None
    assert answer.texts == ("a", "b")
    assert asked.questions == [["a"], ["a", "b"]]
    # What the other was answered is good for both.
    taken = one.ask({"a": 0.0}, crash, min_interval_s=10.0)
    assert taken is not None
    assert taken.texts == ("a", "b")


def test_a_failure_is_told_to_all(tmp_path: Path, moment: Moment) -> None:
    asked = Asked("down")
    one, other = SharedBatch(tmp_path / "s", "1"), SharedBatch(tmp_path / "s", "2")
    found = [share.ask({"b": 0.0}, asked, min_interval_s=10.0) for share in (one, other)]
    assert [(answer.texts, answer.why) for answer in found if answer] == [(None, "down")] * 2
    assert len(asked.questions) == 1


def test_lists_of_processes_that_are_gone_are_forgotten(tmp_path: Path, moment: Moment) -> None:
    asked = Asked()
    SharedBatch(tmp_path / "s", "gone").ask({"old": 0.0}, asked, min_interval_s=0.0)
    one = SharedBatch(tmp_path / "s", "1")
    moment.now_s += 119.0
    one.ask({"a": 1100.0}, asked, min_interval_s=0.0)
    moment.now_s += 2.0
    one.ask({"a": 1121.0}, asked, min_interval_s=0.0)
    assert asked.questions == [["old"], ["a", "old"], ["a"]]
    one.withdraw()
    assert list((tmp_path / "s").glob("*.wanted")) == []


def test_nobody_asks_while_another_does(tmp_path: Path) -> None:
    asked = Asked()
    share = SharedBatch(tmp_path / "s", "1")
    share.ask({"a": 0.0}, asked, min_interval_s=0.0)
    with (tmp_path / "s" / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert share.ask({"b": 0.0}, asked, min_interval_s=0.0) is None
    assert len(asked.questions) == 1


def test_without_a_place_for_files_the_rate_still_holds(tmp_path: Path, moment: Moment) -> None:
    (tmp_path / "file").touch()
    asked = Asked()
    share = SharedBatch(tmp_path / "file" / "s", "1")
    for _ in range(20):
        share.ask({"a": 0.0}, asked, min_interval_s=10.0)
        moment.now_s += 1.0
    assert len(asked.questions) == 2
