"""Without a terminal, who waits for a run reads in a few lines a minute what fails and why it waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest
from msgspec.structs import replace

from longshore.cli.watch import RunNews
from longshore.model.report import Failure, Retries, RunReport, RunSummary
from longshore.model.states import Cause, JobState
from longshore.reports.report import ReportBuilder

R, S, F, H = JobState.RUNNING, JobState.SUCCEEDED, JobState.FAILED, JobState.HELD
NO_MODULE = Failure(
    label="work",
    cause=Cause.EXIT,
    exit_code=1,
    message="KeyError: <n>",
    error="KeyError: 7",
    count=1,
    job="work_7",
    attempt=1,
    reason="exit code 1",
    log="/run/work_7.log",
)


class Run:
    """A run that is watched, with a clock and failures that a test sets."""

    def __init__(self, jobs: int = 100) -> None:
        self.now = 1000.0
        self.failures: tuple[Failure, ...] = ()
        self.retried = 0
        self.looks = 0
        self.report = RunReport(
            id="k7f3aa", name="n", path="/run", service="local", state=R, expected=jobs, counts={R: jobs}, labels={}
        )
        self.news = RunNews(cast("ReportBuilder", self), lambda: self.now)

    def build(self, _now: float) -> RunReport:
        """A report with its summary."""
        self.looks += 1
        return replace(self.report, summary=RunSummary(retries=Retries(jobs=self.retried)))

    def failed_attempts(self) -> tuple[Failure, ...]:
        """What failed."""
        return self.failures

    def after(self, seconds: float, *notes: str, counts: Mapping[JobState, int] | None = None) -> list[str]:
        """The lines of the next look."""
        self.now += seconds
        counts = counts or self.report.counts
        self.report = replace(self.report, counts=counts, notes=notes, paused=any("PAUSED" in note for note in notes))
        return [line.text.removeprefix("k7f3aa: ") for line in self.news.take(self.report)]


def test_what_fails_first_is_told_at_once_with_its_log() -> None:
    run = Run()
    assert run.after(0) == ["0/100 succeeded, 100 running"]
    run.failures = (NO_MODULE,)
    told = "attempt 1 of work_7 failed (exit code 1): KeyError: 7; log: /run/work_7.log"
    assert run.after(0.1, counts={R: 99, F: 1}) == [told], "also within the first half second"
    run.failures = (replace(NO_MODULE, count=40, unread=3),)
    assert run.after(60) == [], "the same failure again"
    other = replace(NO_MODULE, exit_code=2, reason="exit code 2", count=30, not_retried="none left")
    run.failures = (*run.failures, other)
    start = "30 jobs of work failed, such as attempt 1 of work_7 (exit code 2): KeyError: 7"
    assert run.after(60) == [f"{start}; not tried again: none left; log: /run/work_7.log"]


def test_attempts_that_are_tried_again_are_told_though_no_count_shows_them() -> None:
    run = Run()
    run.after(0)
    run.failures, run.retried = (NO_MODULE,), 12
    assert run.after(0.1) == [], "not yet looked at"
    first, second = run.after(1)
    assert first.startswith("attempt 1 of work_7 failed")
    assert second == "0/100 succeeded, 100 running; 12 failed jobs to be tried again"
    run.retried = 13
    assert run.after(60) == [], "hardly more"
    run.retried = 16
    assert [line.rpartition("; ")[2] for line in run.after(60)] == ["16 failed jobs to be tried again"]


def test_a_reason_that_the_log_repeats_is_told_once() -> None:
    run = Run()
    run.after(0)
    used = "it used 83 MiB"
    oom = replace(NO_MODULE, cause=Cause.OOM, exit_code=None, reason=used, error=f"longshore: OOM: {used}")
    run.failures = (oom,)
    assert [line.count(used) for line in run.after(3)] == [1]


def test_a_note_is_told_once_and_again_after_it_was_gone_for_long() -> None:
    run = Run()
    run.after(0)
    assert run.after(1, "the disk is full") == ["the disk is full"]
    assert run.after(1, "the disk is full") == []
    assert run.after(1) == []
    assert run.after(1, "the disk is full") == [], "it comes and goes"
    assert run.after(1) == []
    assert run.after(301) == []
    assert run.after(1, "the disk is full") == ["the disk is full"]
    assert run.after(1, "waits for 3 of 'cpus'", "the disk is full") == ["waits for 3 of 'cpus'"]
    assert run.after(60, "waits for 2 of 'cpus'", "the disk is full") == [], "no news: another number"


def test_a_run_that_goes_on_after_a_pause_says_so() -> None:
    run = Run()
    run.after(0)
    assert run.after(1, "PAUSED: lunch") == ["PAUSED: lunch"]
    assert run.after(1) == ["0/100 succeeded, 100 running"]


def test_lines_are_few_and_the_newest() -> None:
    run = Run()
    lines = run.after(0)
    for number in range(1, 541):
        run.failures = tuple(
            replace(NO_MODULE, label=f"label{each}", job=f"job{each}", count=number) for each in range(number)
        )
        counts = {R: 1000 - number, F: number}
        lines += (new := run.after(1.0, counts=counts))
        for line in new:
            assert "succeeded" not in line or f"{number} failed" in line, "counts are those of now"
    assert len(lines) <= 6 + 540 / 20
    assert lines[1].startswith("attempt 1 of job0" if "attempt" in lines[1] else "1 jobs")
    more = [line for line in lines if "more groups of failures, such as this: " in line]
    assert more
    told = sum(int(line.split()[0]) if line in more else "succeeded" not in line for line in lines)
    assert told + len(run.news._failures) == 540, "each group is told or counted once, or waits"


def test_held_jobs_and_a_tenth_of_the_jobs_are_worth_a_line() -> None:
    run = Run()
    run.after(0)
    assert run.after(1, counts={R: 95, S: 5}) == []
    assert run.after(1, counts={R: 89, S: 11}) == ["11/100 succeeded, 89 running"]
    assert run.after(60, counts={R: 88, S: 11, H: 1}) == ["11/100 succeeded, 88 running, 1 held"]
    assert run.after(60) == []
    assert run.after(601) == ["11/100 succeeded, 88 running, 1 held"], "a long silence"


def test_the_last_line_is_how_far_it_got() -> None:
    run = Run()
    run.after(0)
    assert run.news.end() == []
    run.after(1, counts={S: 1, R: 99})
    (last,) = run.news.end()
    assert last.text == "k7f3aa: 1/100 succeeded, 99 running"


def test_a_look_that_takes_long_is_rare() -> None:
    run = Run()
    run.after(0)

    def slow() -> tuple[Failure, ...]:
        run.now += 10.0
        return ()

    vars(run)["failed_attempts"] = slow
    for _ in range(100):
        run.after(1)
    assert run.looks <= 2


@pytest.mark.parametrize("text", ["a\x1b[31mb", "a\nb"])
def test_what_a_log_says_stays_on_its_line(text: str) -> None:
    run = Run()
    run.after(0)
    run.failures = (replace(NO_MODULE, error=text),)
    (line,) = run.after(3)
    assert "\x1b" not in line
    assert "\n" not in line
