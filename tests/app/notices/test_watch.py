"""The notifier looks again at a run that it cannot read, and sends what is due once it can."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.app.written_run import finished_run

from longshore.app.notices import watch
from longshore.engine.rundir.notice_log import encode_notice_rules, read_notice_records
from longshore.model.notice import NoticeEvent, NoticeRule


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
