"""Notes are told at once, stages only when they take a while or somebody wants to know."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from longshore.cli import logs


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    level, propagate = logs.LOGGER.level, logs.LOGGER.propagate
    logs.LOGGER.setLevel(logging.INFO)
    yield
    logs.LOGGER.setLevel(level)
    logs.LOGGER.propagate = propagate


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_notes_at_once(caplog: pytest.LogCaptureFixture) -> None:
    with logs.Teller() as tell:
        tell.note("look here")
        assert told(caplog) == ["look here"]
        assert caplog.records[0].levelno == logging.WARNING


def test_short_stages_not_at_all(caplog: pytest.LogCaptureFixture) -> None:
    before = threading.active_count()
    with logs.Teller() as tell:
        tell.stage("one")
        tell.stage("two")
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join(5)
    assert told(caplog) == []
    assert threading.active_count() <= before


def test_long_stages(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_LONG_S", 0.01)
    with logs.Teller() as tell:
        tell.stage("one")
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):
                thread.join(5)
    assert told(caplog) == ["one ..."]


def test_all_stages_for_who_asks(caplog: pytest.LogCaptureFixture) -> None:
    logs.LOGGER.setLevel(15)
    with logs.Teller() as tell:
        tell.stage("one")
        tell.stage("two")
    assert told(caplog) == ["one", "two"]
