"""A question put aside: nobody waits for it, its answer comes once, and its error too."""

from __future__ import annotations

import threading

import pytest

from longshore.system.programs import BackgroundCall

PATIENCE_S = 60.0


def test_the_caller_continues_during_the_call() -> None:
    go = threading.Event()

    def question() -> str:
        assert go.wait(PATIENCE_S)
        return "so it is"

    aside: BackgroundCall[str] = BackgroundCall()
    assert aside.take_result() == []
    aside.start(question)
    assert aside.take_result() == []
    with pytest.raises(RuntimeError):
        aside.start(question)
    go.set()
    assert aside.take_result(timeout_s=PATIENCE_S) == ["so it is"]
    assert aside.take_result(timeout_s=PATIENCE_S) == []


def test_an_answer_may_be_none() -> None:
    aside: BackgroundCall[None] = BackgroundCall()
    aside.start(lambda: None)
    assert aside.take_result(timeout_s=PATIENCE_S) == [None]


def test_take_result_raises_the_error_of_the_call() -> None:
    def question() -> str:
        raise OSError("nobody is there")

    aside: BackgroundCall[str] = BackgroundCall()
    aside.start(question)
    with pytest.raises(OSError, match="nobody is there"):
        aside.take_result(timeout_s=PATIENCE_S)
    assert not aside.is_busy
