"""Runs of a service that only reports: what is read of them, and what is not made up."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from longshore.contract.service import (
    Context,
    JobStatus,
    PingReport,
    Problem,
    RenderedFile,
    ReportSource,
    RunPaths,
    StaleMarkError,
    StatusReport,
    Unreachable,
    WmsService,
)
from longshore.errors import SubmissionRefusedError
from longshore.model.event import Ended, Finished, Life, Started
from longshore.model.states import JobState
from longshore.model.submission import Submission
from longshore.model.workflow import Workflow
from longshore.reports.page.content import collect_page
from longshore.reports.page.render import render_run_page
from longshore.reports.replay import read_cached_report
from longshore.reports.report import report_run
from longshore.rundir.run_directory import read_card, write_card
from longshore.runstate.events import EventFollower
from longshore.runstate.open_run import OpenRun
from longshore.testing.runs import write_run


class Reporter(WmsService, ReportSource):
    """A service that reports what it is given."""

    name = "reporter"

    def __init__(self) -> None:
        self.answer: StatusReport | Unreachable = StatusReport(state=JobState.RUNNING)

    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        return []

    def render(self, workflow: Workflow, ctx: Context) -> list[RenderedFile]:
        return []

    def submit(self, run: RunPaths) -> Submission:
        raise SubmissionRefusedError("it only reports")

    def ping(self, ctx: Context) -> PingReport:
        return PingReport(service=self.name, ok=True, message="it is there")

    def report(self, run: RunPaths) -> StatusReport | Unreachable:
        return self.answer

    def tell(self, *states: JobState, state: JobState = JobState.RUNNING) -> None:
        """Report the first jobs in these states."""
        jobs = [JobStatus(name=f"a_{number}", state=each) for number, each in enumerate(states)]
        self.answer = StatusReport(state=state, jobs=jobs)


@pytest.fixture
def service() -> Reporter:
    return Reporter()


@pytest.fixture
def opened(tmp_path: Path, service: Reporter) -> OpenRun:
    """A run of three jobs in a chain, which was submitted."""
    run = write_run(tmp_path / "run", {"a_0": (), "a_1": ("a_0",), "a_2": ("a_1",)})
    submission = Submission(id="7", by="submit", at=1.0, user="ada", host="ap")
    write_card(run, msgspec.structs.replace(read_card(run), submissions=(submission,)))
    found = OpenRun(run=run, card=read_card(run))
    found.__dict__["service"] = service
    return found


def counts(opened: OpenRun) -> dict[str, int]:
    report = report_run(opened, details=False, now=100.0)
    return {state.value: number for state, number in report.counts.items() if number}


def test_a_report_shows_each_job(opened: OpenRun, service: Reporter) -> None:
    service.tell(JobState.SUCCEEDED, JobState.RUNNING)
    assert counts(opened) == {"SUCCEEDED": 1, "RUNNING": 1, "UNREADY": 1}
    report = report_run(opened, details=True, now=100.0)
    assert report.state is JobState.RUNNING
    assert [job.state for job in report.jobs or ()] == [JobState.SUCCEEDED, JobState.RUNNING, JobState.UNREADY]
    assert not any("Engine" in line for line in report.specifics), "there is no engine"


def test_labels_that_are_only_counted_are_shown_as_counts(opened: OpenRun, service: Reporter) -> None:
    service.answer = StatusReport(state=JobState.RUNNING, counts={"a": {JobState.SUCCEEDED: 2, JobState.RUNNING: 1}})
    assert counts(opened) == {"SUCCEEDED": 2, "RUNNING": 1}
    service.answer = StatusReport(state=JobState.SUCCEEDED, counts={"a": {JobState.SUCCEEDED: 3}})
    assert report_run(opened, details=False, now=100.0).state is JobState.SUCCEEDED
    assert opened.is_alive() is False


def test_a_service_that_does_not_answer_leaves_states_unknown(opened: OpenRun, service: Reporter) -> None:
    service.answer = Unreachable(why="it sleeps")
    report = report_run(opened, details=False, now=100.0)
    assert report.state is JobState.UNKNOWN
    assert report.counts[JobState.UNKNOWN] == 3
    assert "the workload manager does not answer: it sleeps" in report.notes
    assert opened.is_alive() == service.answer


def test_a_page_shows_what_is_known_and_notes_what_is_not(opened: OpenRun, service: Reporter) -> None:
    service.tell(JobState.SUCCEEDED, JobState.FAILED)
    page = collect_page(opened, now=100.0)
    assert page.report.counts[JobState.FAILED] == 1
    assert page.jobs is not None
    assert [job.state for job in page.jobs][:2] == [JobState.SUCCEEDED, JobState.FAILED]
    assert "</html>" in render_run_page(page)
    service.answer = Unreachable(why="it sleeps")
    page = collect_page(opened, now=100.0)
    assert any("it sleeps" in note for note in page.notes)
    assert "the workload manager does not answer: it sleeps" in render_run_page(page)


def test_a_follower_is_told_what_is_new(opened: OpenRun, service: Reporter) -> None:
    follower = EventFollower(opened)
    service.tell(JobState.RUNNING)
    assert isinstance(next(follower.read()), Life)
    assert list(follower.read()) == []
    service.tell(JobState.SUCCEEDED, JobState.RUNNING)
    kinds = [type(event) for event in follower.read()]
    assert (kinds[0], kinds[-1], follower.has_restarted) == (Ended, Started, False)
    service.tell(*[JobState.SUCCEEDED] * 3, state=JobState.SUCCEEDED)
    assert isinstance(list(follower.read())[-1], Finished)


def test_the_mark_of_an_older_report_is_stale_and_that_of_the_same_is_not(opened: OpenRun, service: Reporter) -> None:
    service.tell(JobState.RUNNING)
    answer = opened.events()
    assert not isinstance(answer, Unreachable)
    again = OpenRun(run=opened.run, card=opened.card)
    again.__dict__["service"] = service
    same = again.events(answer[1])
    assert not isinstance(same, Unreachable)
    assert (list(same[0]), same[1]) == ([], answer[1])
    service.tell(JobState.SUCCEEDED)
    with pytest.raises(StaleMarkError):
        again.events(answer[1])


def test_the_report_of_a_run_that_is_over_is_kept(opened: OpenRun, service: Reporter) -> None:
    service.tell(JobState.FAILED, state=JobState.FAILED)
    report_run(opened, details=False, now=100.0)
    assert read_cached_report(opened, None) is not None
    service.tell(JobState.RUNNING)
    assert read_cached_report(opened, None) is None


def test_a_run_that_was_not_submitted_is_not_asked_for(opened: OpenRun, service: Reporter) -> None:
    card = msgspec.structs.replace(opened.card, submissions=())
    write_card(opened.run, card)
    assert opened.is_alive() is False
    answer = opened.events()
    assert not isinstance(answer, Unreachable)
    assert list(answer[0]) == []
    opened.run.submitting.touch()
    alive = opened.is_alive()
    assert isinstance(alive, Unreachable), "it may have been submitted by a process that was killed"
