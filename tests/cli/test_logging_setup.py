"""Notes are told at once, stages only when they take a while or somebody wants to know."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from longshore.cli import logging_setup
from longshore.progress import HeldNotes, RecordingProgress, warn


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    level, propagate = logging_setup.LOGGER.level, logging_setup.LOGGER.propagate
    logging_setup.LOGGER.setLevel(logging.INFO)
    yield
    logging_setup.LOGGER.setLevel(level)
    logging_setup.LOGGER.propagate = propagate


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_notes_are_logged_immediately(caplog: pytest.LogCaptureFixture) -> None:
    with logging_setup.LogProgress() as progress:
        progress.note("look here")
        assert messages(caplog) == ["look here"]
        assert caplog.records[0].levelno == logging.WARNING


def test_a_warning_is_printed_as_loud_as_by_lint(capsys: pytest.CaptureFixture[str]) -> None:
    handlers = list(logging.getLogger().handlers)
    logging_setup.set_up_logging(levels=(), long_lines=False, files=(), terminal=True, labels=())
    try:
        with logging_setup.LogProgress() as progress:
            held = HeldNotes(RecordingProgress(progress))
            held.note("a fact")
            warn(held, "f.yaml:1:1: unknown key 'requestMemroy'")
            held.release()
            warn(held, "late")
    finally:
        logging.getLogger().handlers[:] = handlers
    assert capsys.readouterr().err.splitlines() == [
        "longshore: note: a fact",
        "longshore: warning: f.yaml:1:1: unknown key 'requestMemroy'",
        "longshore: warning: late",
    ]


def test_short_stages_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    before = threading.active_count()
    with logging_setup.LogProgress() as progress:
        progress.stage("one")
        progress.stage("two")
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join(5)
    assert messages(caplog) == []
    assert threading.active_count() <= before


def test_long_stages(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging_setup, "_ANNOUNCE_AFTER_S", 0.01)
    with logging_setup.LogProgress() as progress:
        progress.stage("one")
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):
                thread.join(5)
    assert messages(caplog) == ["one ..."]


def test_all_stages_for_who_asks(caplog: pytest.LogCaptureFixture) -> None:
    logging_setup.LOGGER.setLevel(15)
    with logging_setup.LogProgress() as progress:
        progress.stage("one")
        progress.stage("two")
    assert messages(caplog) == ["one", "two"]
