"""The data of a page: from a run at any moment, of any state, and of what is left of a damaged one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest
from tests.written_run import NOW, WrittenRun, course

from longshore.contract.service import Unreachable
from longshore.errors import RunNotFoundError
from longshore.model.event import Ended, Event, Retry, Started, Steer
from longshore.model.states import Cause, JobState
from longshore.model.submission import Fingerprint
from longshore.model.workflow import Request
from longshore.reports.page.content import FAILED, MAX_JOBS, RUNNING, SUCCEEDED, UNKNOWN, RunPage, collect_page
from longshore.reports.page.render import render_run_page
from longshore.runstate.open_run import OpenRun

LATER = NOW + 100


class DrivenRun(OpenRun, frozen=True, kw_only=True):
    """A run whose engine lives."""

    def is_alive(self) -> bool | Unreachable:
        return True


def written(root: Path, events: list[Event], *, has_snapshot: bool = True) -> WrittenRun:
    """A run with some events."""
    run = WrittenRun(root)
    run.begin()
    for event in events:
        run.write(event)
        run.know(event)
    if has_snapshot:
        run.snapshot()
    return run


def page_of(run: WrittenRun) -> RunPage:
    return collect_page(run.opened, now=LATER)


def test_counts_of_all_parts_agree(tmp_path: Path) -> None:
    page = page_of(written(tmp_path / "run", course()))
    assert page.report.state is JobState.FAILED
    assert sum(row.expected for row in page.labels) == page.report.expected == 6
    assert page.jobs is not None
    assert [job.state for job in page.jobs].count(JobState.SUCCEEDED) == page.report.counts[JobState.SUCCEEDED] == 4
    assert page.spans is not None
    assert len(page.spans) == page.total.attempts == 6
    assert sorted(page.spans.outcome) == [SUCCEEDED] * 4 + [FAILED] * 2
    assert page.drawing is not None
    assert {box.name: box.jobs for box in page.drawing.boxes} == {"a": 3, "b": 3}
    assert [each.command.split()[1] for each in page.commands] == ["logs", "restart", "restart", "restart"]


def test_the_request_of_a_label_is_not_that_of_its_retries(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path / "run", request=Request(memory_b=100))
    run.begin()
    for event in course():
        raised = isinstance(event, Retry)
        run.write(msgspec.structs.replace(event, request=Request(memory_b=400)) if raised else event)
    page = page_of(run)
    assert page.report.summary is not None
    assert page.report.summary.labels["a"].requested_memory_b == 400, "the largest, in the text report"
    assert [row.requested_memory_b for row in page.labels] == [100, 100]


def test_a_job_that_runs_ends_with_the_report(tmp_path: Path) -> None:
    events = course()
    last = next(number for number, event in enumerate(events) if isinstance(event, Started) and event.j == 1)
    run = written(tmp_path / "run", events[: last + 1], has_snapshot=False)
    page = collect_page(DrivenRun(run=run.run, card=run.opened.card), now=LATER)
    assert page.spans is not None
    assert list(page.spans.outcome) == [SUCCEEDED, RUNNING]
    assert not any("restart" in each.command for each in page.commands), "it is not over"
    assert page.spans.ended[1] == LATER


def test_a_paused_run_offers_to_start_jobs_again(tmp_path: Path) -> None:
    events = course()[:6]
    run = written(tmp_path / "run", [*events, Steer(n=len(events) + 1, who="ada", act="pause")], has_snapshot=False)
    opened = DrivenRun(run=run.run, card=run.opened.card)
    words = [each.command.split()[1] for each in collect_page(opened, now=LATER).commands]
    assert "unpause" in words


def test_a_job_of_a_dead_run_ends_with_the_last_event(tmp_path: Path) -> None:
    events = course()
    last = next(number for number, event in enumerate(events) if isinstance(event, Started) and event.j == 1)
    page = page_of(written(tmp_path / "run", events[: last + 1], has_snapshot=False))
    assert page.spans is not None
    assert list(page.spans.outcome) == [SUCCEEDED, UNKNOWN]
    assert page.spans.ended[1] == max(events[last].t, page.spans.started[1]) < LATER
    assert "j1 (a): its end is unknown, last heard of after" in render_run_page(page)


@pytest.mark.parametrize("events", [[], course()[:1], course()[:5]], ids=["none", "dispatched", "one ended"])
def test_a_run_has_a_page_at_any_moment(tmp_path: Path, events: list[Event]) -> None:
    page = page_of(written(tmp_path / "run", events, has_snapshot=False))
    assert sum(page.report.counts.values()) == 6
    assert "</html>" in render_run_page(page)


def test_a_run_that_never_began_has_a_page(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path / "run")
    page = page_of(run)
    assert page.spans is None or not len(page.spans)
    assert "No job has started" in render_run_page(page)


def test_a_damaged_journal_gives_what_precedes_the_damage(tmp_path: Path) -> None:
    run = written(tmp_path / "run", course())
    lines = run.journal.read_bytes().splitlines(keepends=True)
    run.journal.write_bytes(b"".join([*lines[:6], lines[6].replace(b'"', b"'", 1), *lines[7:]]))
    page = page_of(run)
    assert page.report.state is JobState.UNKNOWN
    assert page.report.damage
    assert page.spans is not None
    assert 0 < len(page.spans) < 6


def test_a_configuration_that_cannot_be_read_is_a_note(tmp_path: Path) -> None:
    run = written(tmp_path / "run", course())
    (run.run.root / "w_config.yaml").write_text("a: [", "utf-8")
    run.run.origins.write_text("{}", "utf-8")
    page = page_of(run)
    assert page.configuration == ()
    assert any(note.startswith("the configuration cannot be shown: ") for note in page.notes)


def test_secrets_of_the_configuration_are_hidden(tmp_path: Path) -> None:
    run = written(tmp_path / "run", course())
    text = (
        "dbPassword: hunter2\napiToken: 12345678\nsafe: $<HOME>\nurl: https://u:geheim@host/x\nlist: [{secret: xyz1}]\n"
    )
    (run.run.root / "w_config.yaml").write_text(text, "utf-8")
    place = {"file": "run.yaml", "line": 3, "column": 5, "layer": "file"}
    run.run.origins.write_text(json.dumps({"dbPassword": place}), "utf-8")
    page = page_of(run)
    rows = {row.key: row for row in page.configuration}
    assert rows["dbPassword"].value == "(hidden)"
    assert (rows["dbPassword"].place, rows["dbPassword"].layer) == ("run.yaml:3:5", "file")
    assert rows["safe"].value == "$<HOME>"
    text = render_run_page(page)
    assert not any(secret in text for secret in ("hunter2", "12345678", "geheim", "xyz1"))


def test_of_a_huge_log_only_the_end_is_read(tmp_path: Path) -> None:
    run = written(tmp_path / "run", course())
    log = run.run.root / run.run.log_of(2, "j2", "a", 1)
    log.parent.mkdir(parents=True)
    with log.open("wb") as file:
        file.truncate(5 * 1024**3)
        file.seek(0, os.SEEK_END)
        file.write(b"\nValueError: <b>bold</b> </script>\n")
    page = page_of(run)
    assert page.report.summary
    (failure,) = page.report.summary.failures
    assert failure.tail[-1] == "ValueError: <b>bold</b> </script>"
    text = render_run_page(page)
    assert "ValueError: &lt;b&gt;bold&lt;/b&gt; &lt;/script&gt;" in text
    assert len(text) < 200_000


def test_many_jobs_have_no_table(tmp_path: Path) -> None:
    run = written(tmp_path / "run", course())
    card = msgspec.structs.replace(run.opened.card, expected=MAX_JOBS)
    page = collect_page(type(run.opened)(run=run.run, card=card), now=LATER)
    assert page.jobs is None


def test_a_run_that_is_gone_is_an_error(tmp_path: Path) -> None:
    run = written(tmp_path / "run", course())
    run.run.root.rename(tmp_path / "elsewhere")
    with pytest.raises(RunNotFoundError):
        page_of(run)


def test_out_of_memory_leads_to_a_larger_request(tmp_path: Path) -> None:
    events = [
        msgspec.structs.replace(event, cause=Cause.OOM, rss_b=200 * 1024**2)
        if isinstance(event, Ended) and event.cause
        else event
        for event in course()
    ]
    page = page_of(written(tmp_path / "run", events))
    assert any(each.text.startswith("Request more memory for a") for each in page.advice)


def test_the_command_of_the_submission_is_quoted_and_has_no_secret(tmp_path: Path) -> None:
    run = written(tmp_path / "run", course())
    made_from = Fingerprint(
        v=1,
        root=str(run.run.root),
        folder="/data/my runs",
        file="it's.yaml",
        sets=("requestMemory=100", "dbPassword=hunter2", "a.token=abcdef"),
        options={"computeSite": "campus"},
    )
    run.run.made_from.write_bytes(msgspec.json.encode(made_from))
    command = page_of(run).commands[-1].command
    assert command == (
        "cd '/data/my runs' && longshore submit 'it'\"'\"'s.yaml' --set requestMemory=100 "
        "--set 'dbPassword=(hidden)' --set 'a.token=(hidden)'  # with options: computeSite=campus"
    )
