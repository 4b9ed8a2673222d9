"""Attempts of a run as one list, with the events before a damage."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.written_run import NOW, WrittenRun, course, run_of, run_with_kept_results

from longshore.model.event import Ended, Event, Started, Submitting
from longshore.model.states import JobState
from longshore.reports.documents.statistics import stats_document
from longshore.reports.page.content import collect_page
from longshore.reports.statistics import read_attempts, summarize_attempts, summarize_run_attempts
from longshore.reports.statistics_text import statistics_lines
from longshore.reports.styled import plain
from longshore.reports.suggested_requests import advise_on_attempts


@pytest.fixture
def run(tmp_path: Path) -> WrittenRun:
    return run_of(tmp_path / "run")


def test_every_attempt_of_a_run_is_read(run: WrittenRun) -> None:
    found = read_attempts(run.opened)
    states = [(each.job, each.number, each.state) for each in found.attempts]
    assert states == [
        (0, 1, JobState.SUCCEEDED),
        (1, 1, JobState.FAILED),
        (2, 1, JobState.FAILED),
        (1, 2, JobState.SUCCEEDED),
        (3, 1, JobState.SUCCEEDED),
        (4, 1, JobState.SUCCEEDED),
    ]
    assert (found.labels, found.jobs_of_labels) == (["a", "b"], [3, 3])
    assert {each.wait_s for each in found.attempts} == {2.0}, "the engine saw each start two events after it dispatched"
    grouped = summarize_attempts(
        found.measures(),
        found.request_of_job,
        labels=found.labels,
        label_of=found.label_of,
        jobs_of_labels=found.jobs_of_labels,
    )
    assert (grouped.labels["a"].retries, grouped.labels["a"].badput.run_s) == (1, 2.0)


def test_attempts_before_a_damage_are_read(run: WrittenRun) -> None:
    lines = run.journal.read_bytes().splitlines(keepends=True)
    lines[8] = lines[8].replace(b"ended", b"ENDED")
    run.journal.write_bytes(b"".join(lines))
    found = read_attempts(run.opened)
    assert [each.job for each in found.attempts] == [0, 1]
    assert run.opened.damages


def test_attempts_of_a_run_that_nothing_drives_are_abandoned(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path / "run")
    run.begin()
    events = course()
    for event in events[:3]:
        run.write(event)
    found = read_attempts(run.opened)
    assert [(each.state, each.is_abandoned) for each in found.attempts] == [(JobState.UNKNOWN, True)]
    assert found.last_event_at == events[2].t


def test_a_run_that_is_over_has_no_attempt_that_runs(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path / "run")
    run.begin()
    for event in (*course()[:1], replace(course()[-1], n=2)):
        run.write(event)
    assert [each.state for each in read_attempts(run.opened).attempts] == [JobState.UNKNOWN]


def test_results_that_were_kept_are_no_attempts_of_the_run(tmp_path: Path) -> None:
    run = run_with_kept_results(tmp_path / "run")
    start = len(run.journal.read_bytes().splitlines())
    events: list[Event] = [
        Submitting(b="1.1", tag="t", jobs=((2, 1),)),
        Started(j=2, a=1, host="here", at=NOW),
        Ended(j=2, a=1, exit=0, run_s=1.0, cpu_s=0.5),
    ]
    for n, event in enumerate(events, start=start):
        run.write(replace(event, n=n, t=NOW + n))
    found = read_attempts(run.opened)
    assert [each.job for each in found.attempts] == [0, 1, 2]
    assert [each.job for each in found.own_attempts] == [2]
    statistics = summarize_run_attempts(found)
    total = statistics.grouped.total
    assert (total.attempts, total.succeeded, total.unknown_run, total.run_s.unknown) == (1, 1, 0, 0)
    assert (statistics.kept, summarize_run_attempts(found, labels=["b"]).kept) == (2, 0)
    assert stats_document([statistics], (), as_of=0.0).runs[0].kept == 2
    text = "\n".join(map(plain, statistics_lines([statistics], 200)))
    assert "6 jobs, 1 attempt, 0 of them retries" in text
    assert "Kept: results of 2 jobs from another run, which are not counted as attempts" in text
    assert "unknown run time" not in text
    suggested = advise_on_attempts([found]).suggestions[0]
    assert (suggested.attempts, suggested.successes) == (1, 1)
    page = collect_page(run.opened, now=NOW + 100)
    assert (page.total.attempts, page.total.unknown_run, page.names) == (1, 0, {2: "j2"})
