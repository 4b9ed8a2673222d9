"""The note of a report on notices that nothing sends: not while a notifier is at work, or may still start."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from tests.written_run import NOW, WrittenRun, finished_run

from longshore.control.notifier import watch_run
from longshore.model.notice import NoticeEvent, NoticeRecord, NoticeRule
from longshore.reports.report import report_run
from longshore.rundir.notices import NoticeLog, NotifierLife, encode_notice_rules
from longshore.system.sharing import take_lock

START, FIRST, HOLD, STOPPED, END = NoticeEvent
SOON = NOW + 60.0
LATER = NOW + 3600.0
TWO = "2 notices were not sent, because no notifier is at work: longshore notify "


def with_rules(written: WrittenRun, *rules: NoticeRule) -> WrittenRun:
    given = rules or (NoticeRule(name="mail", events=(START, FIRST, END), command="true"),)
    written.run.notice_rules.write_bytes(encode_notice_rules(given))
    return written


def with_notifier(written: WrittenRun, *, life: int = 1, host: str = "") -> WrittenRun:
    """Add what a notifier leaves that was killed after it had sent the start."""
    holder = NotifierLife(host=host or os.uname().nodename, life=life)
    written.run.notice_lock.write_bytes(msgspec.json.encode(holder))
    log = NoticeLog(written.run)
    log.add(NoticeRecord(at=NOW, event=START, life=life, rules=("mail",)))
    log.add(NoticeRecord(at=NOW, event=START, life=life, rule="mail", is_sent=True))
    return written


def running_run(root: Path) -> WrittenRun:
    written = WrittenRun(root)
    written.begin()
    written.snapshot()
    return written


def notes(written: WrittenRun, now: float = SOON) -> list[str]:
    return [note for note in report_run(written.opened, details=False, now=now).notes if "notif" in note]


def test_a_run_without_rules_has_no_note(tmp_path: Path) -> None:
    assert notes(finished_run(tmp_path / "run"), LATER) == []


def test_notices_after_the_death_of_the_notifier_are_counted_until_another_sends_them(tmp_path: Path) -> None:
    written = with_notifier(with_rules(finished_run(tmp_path / "run")))
    assert notes(written) == [f"{TWO}{written.opened.reference}"]
    lines: list[str] = []
    watch_run(written.opened, lines.append)
    assert lines == ["notice 'mail' of firstFailure: sent", "notice 'mail' of end: sent"]
    assert notes(written) == notes(written, LATER) == []


def test_a_notice_that_was_begun_is_counted(tmp_path: Path) -> None:
    written = with_notifier(with_rules(finished_run(tmp_path / "run")))
    log = NoticeLog(written.run)
    log.add(NoticeRecord(at=NOW, event=FIRST, life=1))
    log.add(NoticeRecord(at=NOW, event=END, life=1, rules=("mail",)))
    (note,) = notes(written)
    assert note.startswith("1 notice was not sent, because no notifier is at work: ")


def test_while_a_notifier_is_at_work_there_is_no_note(tmp_path: Path) -> None:
    written = with_notifier(with_rules(finished_run(tmp_path / "run")))
    with take_lock(written.run.notice_lock):
        assert notes(written) == notes(written, LATER) == []


def test_a_notifier_may_still_start_after_the_end(tmp_path: Path) -> None:
    written = with_rules(finished_run(tmp_path / "run"))
    assert notes(written) == []
    (note,) = notes(written, LATER)
    assert note.startswith("3 notices were not sent, ")


def test_a_notifier_of_another_host_may_be_at_work_until_its_time_is_over(tmp_path: Path) -> None:
    written = with_notifier(with_rules(finished_run(tmp_path / "run")), host="elsewhere")
    assert notes(written) == []
    assert notes(written, LATER) == [f"{TWO}{written.opened.reference}"]


def test_a_notifier_of_an_earlier_life_tells_nothing_of_this_one(tmp_path: Path) -> None:
    written = with_notifier(with_rules(finished_run(tmp_path / "run")), life=0)
    assert notes(written) == []


def test_a_dead_notifier_of_a_run_that_goes_on_sends_nothing_later(tmp_path: Path) -> None:
    written = with_notifier(with_rules(running_run(tmp_path / "run")))
    with take_lock(written.run.engine_lock):
        words = f"no notifier is at work, so later notices are not sent: longshore notify {written.opened.reference}"
        assert notes(written) == [words]


def test_rules_that_tell_the_start_alone_have_nothing_to_send_later(tmp_path: Path) -> None:
    start = NoticeRule(name="mail", events=(START,), command="true")
    written = with_notifier(with_rules(running_run(tmp_path / "run"), start))
    with take_lock(written.run.engine_lock):
        assert notes(written) == []


def test_a_run_that_goes_on_without_a_notifier_yet_has_no_note(tmp_path: Path) -> None:
    written = with_rules(running_run(tmp_path / "run"))
    with take_lock(written.run.engine_lock):
        assert notes(written, LATER) == []
    assert notes(written, LATER) == [], "it stopped on a host whose notifier is not known"
