"""What a notice says: one line of subject, the failures, what to do next; no control character of a log passes."""

from __future__ import annotations

import json
from html import unescape

from hypothesis import given
from hypothesis import strategies as st

from longshore.control.notices import command_variables, compose_notice, webhook_body
from longshore.model.notice import NoticeEvent, NoticeRule
from longshore.model.report import Failure, RunReport, RunSummary
from longshore.model.states import Cause, JobState

odd_text = st.text(st.characters(exclude_categories=[]), max_size=40)


def report(state: JobState, name: str = "mosaic", *, messages: list[str] | None = None) -> RunReport:
    failures = tuple(
        Failure(label="fit", cause=Cause.EXIT, exit_code=3, count=2, job="fit_1", message=message)
        for message in messages or []
    )
    return RunReport(
        id="b1",
        name=name,
        path="/runs/mosaic",
        service="local",
        state=state,
        expected=5,
        counts={JobState.SUCCEEDED: 3, JobState.FAILED: 2, JobState.HELD: 0},
        labels={},
        summary=RunSummary(failures=failures),
    )


def test_a_failed_run() -> None:
    notice = compose_notice(NoticeEvent.END, report(JobState.FAILED, messages=["no star"]), "b1")
    assert notice.subject == "longshore: mosaic (b1) FAILED, 3 of 5 jobs succeeded"
    assert notice.text.splitlines() == [
        "mosaic is FAILED: 3 SUCCEEDED, 2 FAILED",
        "Directory: /runs/mosaic",
        "2 jobs of 'fit' (EXIT, exit code 3), such as fit_1: no star",
        "",
        "More: longshore report --id b1",
        "To run again what did not succeed: longshore restart b1",
    ]
    assert notice.counts == {JobState.SUCCEEDED: 3, JobState.FAILED: 2}


def test_a_run_that_stopped_can_be_resumed() -> None:
    notice = compose_notice(NoticeEvent.STOPPED, report(JobState.UNKNOWN), "b1")
    assert notice.text.endswith("To go on: longshore resume b1\n")


def test_the_groups_of_failures_are_bounded() -> None:
    many = report(JobState.FAILED, messages=[f"fault {number}" for number in range(9)])
    lines = compose_notice(NoticeEvent.FIRST_FAILURE, many, "b1").text.splitlines()
    assert sum("fault" in line for line in lines) == 5
    assert "and 4 more groups of 8 failed jobs" in lines


@given(st.sampled_from(list(NoticeEvent)), odd_text, odd_text, st.sampled_from(["json", "slack"]))
def test_foreign_text_stays_in_its_line(event: NoticeEvent, name: str, message: str, form: str) -> None:
    notice = compose_notice(event, report(JobState.FAILED, name, messages=[message]), "b1")
    assert notice.subject.isprintable()
    plain = compose_notice(event, report(JobState.FAILED, "x", messages=["y"]), "b1")
    assert len(notice.text.splitlines()) == len(plain.text.splitlines())
    assert all(line.isprintable() for line in notice.text.split("\n"))
    assert all("\0" not in value for value in command_variables(notice).values())
    rule = NoticeRule(name="a", events=(), format="slack" if form == "slack" else "json")
    body = json.loads(webhook_body(notice, rule))
    if form == "json":
        assert body["text"] == notice.text
    else:
        assert not {"<", ">"} & set(body["text"]), "a message cannot call a channel"
        assert unescape(body["text"]).endswith(notice.text)
