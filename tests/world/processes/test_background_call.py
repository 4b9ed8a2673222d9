"""A question put aside: nobody waits for it, its answer comes once, and its error too."""

from __future__ import annotations

import threading

import pytest

from longshore.world.processes.background_call import Aside

PATIENCE_S = 60.0


def test_whoever_asks_goes_on_meanwhile() -> None:
    go = threading.Event()

    def question() -> str:
        assert go.wait(PATIENCE_S)
        return "so it is"

    aside: Aside[str] = Aside()
    assert aside.take() == []
    aside.ask(question)
    assert aside.take() == []
    with pytest.raises(RuntimeError):
        aside.ask(question)
    go.set()
    assert aside.take(timeout_s=PATIENCE_S) == ["so it is"]
    assert aside.take(timeout_s=PATIENCE_S) == []


def test_an_answer_may_be_none() -> None:
    aside: Aside[None] = Aside()
    aside.ask(lambda: None)
    assert aside.take(timeout_s=PATIENCE_S) == [None]


def test_an_error_is_raised_where_the_answer_is_taken() -> None:
    def question() -> str:
        raise OSError("nobody is there")

    aside: Aside[str] = Aside()
    aside.ask(question)
    with pytest.raises(OSError, match="nobody is there"):
        aside.take(timeout_s=PATIENCE_S)
    assert not aside.busy
