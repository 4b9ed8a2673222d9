"""Jobs that are retried: how their attempts failed is told at once, not only when no attempt is left."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.written_run import NOW, WrittenRun, course

from longshore.cli.report_screen import frame_lines
from longshore.cli.report_text import run_summary_lines
from longshore.cli.terminal import Terminal
from longshore.engine.settings import SETTINGS_PATH, EngineSettings
from longshore.model.event import Deleted, Ended
from longshore.model.report import JobFailure, Removals, RemovedJob, RunSummary
from longshore.model.states import Cause
from longshore.model.workflow import JobRules, JobSettings, RequestGrowth
from longshore.reports.explain import explain_job
from longshore.reports.logs import find_logs
from longshore.reports.report import report_run
from longshore.reports.show_job import show_job
from longshore.reports.styled import plain

TERMINAL = Terminal(width=120, height=40, has_color=False, has_unicode=True)


@pytest.fixture
def retried(tmp_path: Path) -> Iterator[WrittenRun]:
    """A live run whose job j1 failed with exit code 3, and waits for its next attempt."""
    made = WrittenRun(tmp_path / "run")
    lock = os.open(made.run.engine_lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    made.begin()
    for event in course()[:9]:
        made.write(event)
        made.know(event)
    made.snapshot()
    (made.run.wms).mkdir()
    (made.run.root / SETTINGS_PATH).write_bytes(msgspec.json.encode(EngineSettings()))
    log = made.run.root / made.run.log_of(1, "j1", "a", 1)
    log.parent.mkdir(parents=True)
    log.write_text("begins\ncp: cannot stat 'b.fastq'\nbye\n", "utf-8")
    yield made
    os.close(lock)


def summary_of(run: WrittenRun) -> RunSummary:
    summary = report_run(run.opened, details=False, now=NOW + 100).summary
    assert summary
    return summary


def test_the_report_tells_exit_code_and_log_line(retried: WrittenRun) -> None:
    summary = summary_of(retried)
    assert (summary.failures, summary.last_failures) == ((), ())
    message = "cp: cannot stat 'b.fastq'"
    (newest,) = summary.retries.newest
    assert newest == JobFailure(
        name="j1", label="a", cause=Cause.EXIT, exit_code=3, ended_at=newest.ended_at, attempt=1, message=message
    )
    assert f"Retried: 1 job, j1, attempt 1 (exit code 3): {message}" in run_summary_lines(summary)


def test_the_live_view_tells_exit_code_and_log_line(retried: WrittenRun) -> None:
    report = report_run(retried.opened, details=False, now=NOW + 100)
    lines = list(map(plain, frame_lines(report, TERMINAL, now=NOW + 100)))
    place = lines.index("Retried: 1 job")
    assert lines[place + 1] == "  j1  exit code 3: cp: cannot stat 'b.fastq'"


def test_logs_of_failed_jobs_name_one_that_is_tried_again(retried: WrittenRun) -> None:
    (note,) = find_logs(retried.opened, failed=True).notes
    assert note == (
        "no job has failed for good; a job is retried after a failed attempt, such as 'j1': "
        f"longshore logs {retried.opened.reference} j1 --attempt 1"
    )
    assert find_logs(retried.opened, failed=True, labels=["b"]).notes == ("no job has failed",)


def test_explain_does_not_offer_room_to_a_job_that_is_delayed(retried: WrittenRun) -> None:
    explained = explain_job(retried.opened, "j1", now=NOW + 100)
    reasons = explained.reasons
    assert reasons[0] == "Its attempt 1 ended badly: exit code 3."
    assert reasons[1].startswith("It is tried again at ")
    assert not any("There is room" in reason for reason in reasons)
    assert "is submitted, in batch 1.1.1" in explained.text


@pytest.mark.parametrize(
    ("job", "events", "used"),
    [("j1", 8, 0), ("j1", 9, 1), ("j1", 18, 1), ("j2", 14, 0)],
    ids=["undecided", "retried", "succeeded", "failed without a retry"],
)
def test_explain_counts_the_retries_that_were_made(tmp_path: Path, job: str, events: int, used: int) -> None:
    made = WrittenRun(tmp_path / "run", retries=2)
    made.begin()
    for event in course()[:events]:
        made.write(event)
        made.know(event)
    made.snapshot()
    made.run.wms.mkdir()
    (made.run.root / SETTINGS_PATH).write_bytes(msgspec.json.encode(EngineSettings()))
    text = explain_job(made.opened, job).text
    assert f"Retries:  2 after the first attempt, {used} used so far" in text.splitlines()


@pytest.mark.parametrize(
    ("events", "cause", "told"),
    [
        (8, Cause.OOM, ["but 5 after lack of memory (retryOnMemory)", "but 2 after lack of time (retryOnTime)"]),
        (9, Cause.OOM, ["but 5 after lack of memory (retryOnMemory), 1 used so far", "but 2 after lack of time"]),
        (
            9,
            Cause.WALLTIME,
            ["but 5 after lack of memory (retryOnMemory)", "but 2 after lack of time (retryOnTime), 1"],
        ),
        (9, Cause.PREEMPTED, ["but 5", "but 2", "but 20 after preemption (retryOnPreempted), 1 used so far"]),
        (9, Cause.EXIT, ["but 5", "but 2"]),
    ],
    ids=["undecided", "memory", "time", "preempted", "exit code"],
)
def test_explain_tells_of_budgets_that_some_ends_have(
    tmp_path: Path, events: int, cause: Cause, told: list[str]
) -> None:
    rules = JobRules(retries_on_memory=5, retries_on_time=2, growth=RequestGrowth(walltime=2.0))
    settings = JobSettings(label="", rules=rules, attributes={"memoryMultiplier": 2})
    made = WrittenRun(tmp_path / "run", settings=settings)
    made.begin()
    for event in course()[:events]:
        shown = msgspec.structs.replace(event, cause=cause) if isinstance(event, Ended) and event.cause else event
        made.write(shown)
        made.know(shown)
    made.snapshot()
    made.run.wms.mkdir()
    (made.run.root / SETTINGS_PATH).write_bytes(msgspec.json.encode(EngineSettings()))
    explained = explain_job(made.opened, "j1")
    lines = [line.strip() for line in explained.text.splitlines()]
    place = lines.index("Retries:  none")
    assert [line[: len(start)] for line, start in zip(lines[place + 1 :], told, strict=False)] == told
    assert not lines[place + 1 + len(told)]
    assert sum(each.used for each in explained.retry_budgets) == any(", 1" in text for text in told)
    assert "but 5 after lack of memory (retryOnMemory)\n" in show_job(made.opened, "j1").text


def test_a_job_that_succeeds_or_is_cancelled_is_not_tried_again(retried: WrittenRun) -> None:
    cancelled = Deleted(n=10, t=NOW, jobs=(1,))
    retried.write(cancelled)
    retried.know(cancelled)
    retried.snapshot()
    assert summary_of(retried).retries.jobs == 0


def test_a_job_that_a_person_removed_is_told_with_what_the_manager_says(retried: WrittenRun) -> None:
    removed = Deleted(n=10, t=NOW, jobs=(1,), why="Slurm says CANCELLED by ann")
    retried.write(removed)
    retried.know(removed)
    retried.snapshot()
    summary = summary_of(retried)
    reason = "Slurm says CANCELLED by ann"
    assert summary.removals == Removals(jobs=1, newest=(RemovedJob(name="j1", label="a", reason=reason),))
    line = f"Removed from the workload manager: 1 job, j1 ({reason})"
    assert line in run_summary_lines(summary)
    assert line in map(plain, frame_lines(report_run(retried.opened, details=False, now=NOW), TERMINAL, now=NOW))
    told = explain_job(retried.opened, "j1").text
    assert f"removed from the workload manager, by no order of Longshore: {reason}." in told
    assert "it was cancelled by that order" not in told
