"""The wait for the last notices: for a notifier that is being started too, and not for one that has ended."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import pytest

from longshore.contract.service import RunPaths
from longshore.model.notice import NoticeEvent, NoticeRule
from longshore.rundir import notices as notifier_process
from longshore.rundir.notices import NotifierLife, encode_notice_rules, longest_notices_s, wait_for_notifier
from longshore.system.sharing import take_lock

RULE = NoticeRule(name="mail", events=(NoticeEvent.START, NoticeEvent.END), command="true", timeout_s=600.0)


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    paths = RunPaths(tmp_path)
    paths.journal.mkdir()
    (paths.journal / "0002.jsonl").touch()
    paths.notice_rules.write_bytes(encode_notice_rules([RULE]))
    return paths


def write_life(run: RunPaths, life: int) -> None:
    run.notice_lock.write_bytes(msgspec.json.encode(NotifierLife(host="here", life=life)))


def start_wait(run: RunPaths) -> threading.Thread:
    thread = threading.Thread(target=wait_for_notifier, args=(run,), daemon=True)
    thread.start()
    thread.join(0.3)
    return thread


def test_a_notifier_that_is_being_started_is_awaited(run: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier_process, "_START_S", 600.0)
    write_life(run, 1)
    waits = start_wait(run)
    assert waits.is_alive()
    with take_lock(run.notice_lock):
        write_life(run, 2)
        waits.join(0.3)
        assert waits.is_alive()
    waits.join(60.0)
    assert not waits.is_alive()


def test_a_notifier_that_does_not_come_is_given_up(run: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier_process, "_START_S", 0.0)
    waits = start_wait(run)
    waits.join(60.0)
    assert not waits.is_alive()


def test_a_run_without_rules_is_not_awaited(run: RunPaths) -> None:
    run.notice_rules.unlink()
    wait_for_notifier(run)
    assert longest_notices_s(run) == 0.0


def test_the_longest_time_is_that_of_the_slowest_rule_with_all_its_events(run: RunPaths) -> None:
    other = NoticeRule(name="chat", events=(NoticeEvent.END,), command="true", timeout_s=1.0)
    run.notice_rules.write_bytes(encode_notice_rules([other, RULE]))
    assert longest_notices_s(run) == 30.0 + 1200.0
