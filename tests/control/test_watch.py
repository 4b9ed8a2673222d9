"""The notifier looks again at a run that it cannot read, and lets no rule wait for another."""

from __future__ import annotations

import threading
from pathlib import Path
from queue import SimpleQueue

import pytest
from tests.written_run import finished_run

from longshore.control import notifier as watch
from longshore.model.notice import NoticeEvent, NoticeRule
from longshore.rundir.notices import encode_notice_rules, read_notice_records
from longshore.system.sharing import take_lock


def test_a_run_that_cannot_be_read_is_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_MAX_PAUSE_S", 0.01)
    written = finished_run(tmp_path / "run")
    sent = tmp_path / "sent.txt"
    rule = NoticeRule(name="mail", events=(NoticeEvent.END,), command=f"cat >> {sent}")
    written.run.notice_rules.write_bytes(encode_notice_rules([rule]))
    workflow = written.run.workflow.read_bytes()
    written.run.workflow.write_bytes(b"{")
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        written.run.workflow.write_bytes(workflow)

    watch.watch_run(written.opened, say)
    problem, notice = lines
    assert problem.startswith("the run cannot be read, and is looked at again: ")
    assert notice == "notice 'mail' of end: sent"
    assert "FAILED" in sent.read_text("utf-8")
    assert [record.is_sent for record in read_notice_records(written.run) if record.rule] == [True]


def test_a_rule_that_hangs_holds_back_no_other(tmp_path: Path) -> None:
    written = finished_run(tmp_path / "run")
    rules = [
        NoticeRule(name="a", events=(NoticeEvent.START,), command="until test -e sent; do sleep 0.05; done"),
        NoticeRule(name="b", events=(NoticeEvent.FIRST_FAILURE, NoticeEvent.END), command="echo >> sent"),
    ]
    written.run.notice_rules.write_bytes(encode_notice_rules(rules))
    lines: list[str] = []
    watch.watch_run(written.opened, lines.append)
    assert sorted(lines) == [
        "notice 'a' of start: sent",
        "notice 'b' of end: sent",
        "notice 'b' of firstFailure: sent",
    ]
    records = read_notice_records(written.run)
    assert [record.event for record in records if not record.rule] == ["start", "firstFailure", "end"]
    assert {record.rule: record.is_sent for record in records if record.rule} == {"a": True, "b": True}


def test_a_second_notifier_says_that_it_waits(tmp_path: Path) -> None:
    written = finished_run(tmp_path / "run")
    rule = NoticeRule(name="mail", events=(NoticeEvent.END,), command="true")
    written.run.notice_rules.write_bytes(encode_notice_rules([rule]))
    lines: SimpleQueue[str] = SimpleQueue()
    second = threading.Thread(target=watch.watch_run, args=(written.opened, lines.put), daemon=True)
    with take_lock(written.run.notice_lock):
        second.start()
        words = lines.get(timeout=60)
        assert words == "another notifier of the run is at work, and this one waits until it has ended"
        assert lines.empty()
    assert lines.get(timeout=60) == "notice 'mail' of end: sent"
    second.join(60)
