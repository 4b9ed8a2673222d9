"""Repeated reports equal a report from all events, at every moment of a run."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.written_run import NOW, WrittenRun, course

from longshore.contract.service import RestartChanges, RunPaths, Unreachable
from longshore.control import resume
from longshore.control.restart import plan_restart
from longshore.control.resume import refuse_damage
from longshore.errors import RunNotFoundError, RunUnreadableError, SubmissionRefusedError, UnreachableError
from longshore.model.event import (
    Ended,
    Event,
    Failed,
    Finished,
    Restarted,
    Started,
    Steer,
    Submitted,
    Submitting,
)
from longshore.model.report import RunReport
from longshore.model.states import Cause, JobState
from longshore.model.submission import Submission
from longshore.reports.explain import explain_job
from longshore.reports.logs import LogFollower
from longshore.reports.report import ReportBuilder, report_run
from longshore.reports.status import status_run
from longshore.rundir.run_directory import write_card
from longshore.runstate.events import RunEvents, event_blocks
from longshore.runstate.open_run import OpenRun
from longshore.services.htcondor.service import HTCondorService
from longshore.services.local.service import LocalService


@pytest.fixture
def written(tmp_path: Path) -> Iterator[WrittenRun]:
    """A run with an engine that lives."""
    made = WrittenRun(tmp_path / "a run")
    lock = os.open(made.run.engine_lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield made
    os.close(lock)


def without_jobs(report: RunReport) -> RunReport:
    return msgspec.structs.replace(report, jobs=None)


@pytest.mark.parametrize("ahead", [0, 3])
def test_repeated_reports_equal_a_fresh_one_at_every_moment(written: WrittenRun, ahead: int) -> None:
    """However far the journal is ahead of the snapshot, what is told is of one moment."""
    written.begin()
    builder = ReportBuilder(written.opened)
    events = course()
    for event in events[:ahead]:
        written.write(event)
    seen = set()
    for place, event in enumerate(events):
        if place + ahead < len(events):
            written.write(events[place + ahead])
        written.know(event)
        written.snapshot()
        report = builder.build(NOW + 100)
        assert report == report_run(written.opened, details=False, now=NOW + 100)
        if not ahead:
            assert report == without_jobs(report_run(written.opened, details=True, now=NOW + 100))
        assert report.summary
        assert sum(failure.count for failure in report.summary.failures) == report.counts[JobState.FAILED]
        assert len(report.summary.running) == report.counts[JobState.RUNNING]
        assert sum(report.counts.values()) == 6
        assert status_run(written.opened).counts == report.counts
        seen.add(report.state)
    assert seen == {JobState.RUNNING, JobState.FAILED}
    assert report.summary
    (failure,) = report.summary.failures
    assert (failure.label, failure.job, failure.exit_code, failure.count) == ("a", "j2", 4, 1)
    assert report.summary.badput[Cause.EXIT].attempts == 2
    assert (report.counts[JobState.SUCCEEDED], report.counts[JobState.PRUNED]) == (4, 1)


def test_a_waiting_retry_is_reported(written: WrittenRun) -> None:
    written.begin()
    for event in course()[:9]:
        written.write(event)
        written.know(event)
    written.snapshot()
    report = report_run(written.opened, details=False, now=NOW + 100)
    assert report.summary
    assert any("1 job is waiting to be retried, the first at" in words for words in report.summary.waits)


def test_a_paused_run_has_no_time_left(written: WrittenRun) -> None:
    written.begin()
    events = course()[:9]
    pause, go_on = (
        Steer(n=len(events) + number, t=NOW + 90, who="ada", act=act)
        for number, act in enumerate(("pause", "unpause"), 1)
    )
    for event in (*events, pause):
        written.write(event)
    report = report_run(written.opened, details=False, now=NOW + 100)
    assert (report.paused, report.summary and report.summary.left_s) == (True, None)
    written.write(go_on)
    report = report_run(written.opened, details=False, now=NOW + 100)
    assert report.summary
    assert report.summary.left_s


def test_a_life_that_voids_earlier_events_is_replayed(written: WrittenRun) -> None:
    written.begin()
    builder = ReportBuilder(written.opened)
    events = course()
    for event in events[:4]:
        written.write(event)
        written.know(event)
    written.snapshot()
    size = written.journal.stat().st_size
    builder.build(NOW)
    for event in events[4:8]:
        written.write(event)
    builder.build(NOW)
    written.begin(seals=size)
    written.snapshot()
    report = builder.build(NOW)
    assert report == report_run(written.opened, details=False, now=NOW)
    assert report == without_jobs(report_run(written.opened, details=True, now=NOW))


def test_counts_that_do_not_add_up_are_unknown_with_a_note(written: WrittenRun) -> None:
    written.begin()
    written.snapshot()
    card = msgspec.structs.replace(written.opened.card, expected=9)
    opened = OpenRun(run=written.run, card=card)
    for report in (status_run(opened), report_run(opened, details=False), report_run(opened, details=True)):
        assert report.state is JobState.UNKNOWN
        assert "states are known of 6 jobs, and the run has 9" in report.notes


def test_a_dead_engine_is_never_running(written: WrittenRun) -> None:
    written.begin()
    for event in course()[:3]:
        written.write(event)
        written.know(event)
    written.snapshot()
    written.run.engine_lock.unlink()
    report = ReportBuilder(written.opened).build(NOW)
    assert report.state is JobState.UNKNOWN
    assert (report.counts[JobState.UNKNOWN], report.counts[JobState.RUNNING]) == (1, 0)
    assert f"longshore resume '{written.run.root}'" in report.notes[0]
    assert report.summary
    assert (report.summary.running, report.summary.waits, report.summary.left_s) == ((), (), None)


def test_a_removed_run_directory_is_an_error(written: WrittenRun) -> None:
    written.begin()
    written.snapshot()
    builder = ReportBuilder(written.opened)
    builder.build(NOW)
    shutil.rmtree(written.run.root)
    with pytest.raises(RunNotFoundError, match="is gone"):
        builder.build(NOW)


def test_the_time_between_an_end_and_a_restart_is_not_counted(written: WrittenRun) -> None:
    """A run of seconds that is restarted a day later took seconds."""
    first_course = course()
    written.begin()
    for event in first_course:
        written.write(event)
        written.know(event)
    written.snapshot()
    first = report_run(written.opened, details=False, now=NOW).wall_s
    assert first is not None
    again = first_course[-1].t + 86_400.0
    written.begin(t=again)
    later: list[Event] = [
        Restarted(jobs=(2,)),
        Submitting(b="2.2.2", tag="t", jobs=((2, 2),)),
        Submitted(b="2.2.2", id="2.2.2"),
        Started(j=2, a=2, host="here", at=again + 4),
        Ended(j=2, a=2, exit=4, cause=Cause.EXIT, run_s=1.0),
        Finished(state=JobState.FAILED),
    ]
    elapsed: list[float] = []
    for n, event in enumerate(later, start=1):
        numbered = msgspec.structs.replace(event, n=n, t=again + n)
        written.write(numbered)
        written.know(numbered)
        written.snapshot()
        summary = report_run(written.opened, details=False, now=again + n).summary
        assert summary is not None
        assert summary.elapsed_s is not None
        elapsed.append(summary.elapsed_s - first)
    assert elapsed == pytest.approx([1, 2, 3, 4, 5, 6])
    assert report_run(written.opened, details=False, now=NOW).wall_s == pytest.approx(first + 6)


def test_a_truncated_journal_is_reported(written: WrittenRun) -> None:
    """The states are those that the engine saw; of single jobs less is known, and whoever reads is told so."""
    written.begin()
    events = course()
    for event in events:
        written.write(event)
        written.know(event)
    written.snapshot()
    report = report_run(written.opened, details=False, now=NOW)
    assert (report.state, report.notes) == (JobState.FAILED, ())
    lines = written.journal.read_bytes().splitlines(keepends=True)
    written.journal.write_bytes(b"".join(lines[:9]) + lines[9][:5])
    written.run.engine_lock.unlink()
    words = f"ends with event 1.8, and its engine wrote up to 1.{written.n}"
    report = report_run(written.opened, details=False, now=NOW)
    assert report.state is JobState.FAILED
    assert [words in note for note in report.notes] == [True]
    whole = report_run(written.opened, details=True, now=NOW)
    assert whole.state is JobState.UNKNOWN
    assert [words in note for note in whole.notes] == [True], "'resume' would run again what is over"


@pytest.mark.parametrize("details", [True, False])
def test_states_of_a_run_without_a_journal_are_unknown(written: WrittenRun, details: bool) -> None:
    written.begin()
    written.journal.unlink()
    written.run.engine_lock.unlink()
    card = written.opened.card
    prepared = report_run(written.opened, details=details, now=NOW)
    assert prepared.notes == (f"prepared, and never submitted: longshore submit '{written.run.root}'",)
    assert prepared.counts[JobState.READY] == 3
    handed = Submission(id=card.id, by="submit", at=NOW, user="ada", host="here")
    card = msgspec.structs.replace(card, submissions=(handed,))
    write_card(written.run, card)
    opened = OpenRun(run=written.run, card=card)
    report = report_run(opened, details=details, now=NOW)
    assert (report.state, report.counts[JobState.UNKNOWN]) == (JobState.UNKNOWN, 6)
    assert "no record is left of its events" in report.notes[0]
    (damage,) = report.damage
    assert damage.path == str(written.run.journal)
    assert report.notes[1] == str(damage)
    assert {job.state for job in report.jobs or ()} == ({JobState.UNKNOWN} if details else set())
    with pytest.raises(RunUnreadableError, match="and no record of its events is left in"):
        event_blocks(opened)


def test_a_run_whose_workload_manager_has_the_events_lacks_no_life(written: WrittenRun) -> None:
    written.begin()
    written.journal.unlink()
    written.run.engine_lock.unlink()
    handed = Submission(id="7", by="submit", at=NOW, user="ada", host="here")
    card = msgspec.structs.replace(written.opened.card, submissions=(handed,))
    opened = OpenRun(run=written.run, card=card)
    write_card(written.run, card)
    assert opened.survey.damages
    of_manager = OpenRun(run=written.run, card=card)
    of_manager.__dict__["service"] = HTCondorService()
    assert not of_manager.survey.damages
    refuse_damage(of_manager)


class Silent(LocalService):
    """A service whose manager does not answer."""

    def events(self, run: RunPaths, mark: str = "") -> Unreachable:
        return Unreachable(why="timed out")


def test_a_manager_that_does_not_answer_makes_no_job_ready(written: WrittenRun) -> None:
    written.begin()
    opened = OpenRun(run=written.run, card=written.opened.card)
    opened.__dict__["service"] = Silent()
    report = report_run(opened, details=True, now=NOW)
    assert (report.state, report.counts[JobState.UNKNOWN]) == (JobState.UNKNOWN, 6)
    assert report.notes == ("the workload manager does not answer: timed out",)
    assert report.summary
    assert (report.summary.running, report.summary.waits, report.summary.left_s) == ((), (), None)


class Unasked(LocalService):
    """A service that knows what happened, and cannot ask whether it goes on."""

    def is_alive(self, run: RunPaths) -> Unreachable:
        return Unreachable(why="timed out")


def test_liveness_is_unknown_while_the_manager_does_not_answer(written: WrittenRun) -> None:
    written.begin()
    for event in course()[:3]:
        written.write(event)
    opened = OpenRun(run=written.run, card=written.opened.card)
    opened.__dict__["service"] = Unasked()
    report = report_run(opened, details=True, now=NOW)
    assert (report.state, report.counts[JobState.UNKNOWN]) == (JobState.UNKNOWN, 1)
    assert report.notes == ("it is unknown whether it still runs: the workload manager does not answer",)
    explained = explain_job(opened, "j0")
    assert (explained.state, explained.is_engine_alive, explained.stopped_at) == (JobState.UNKNOWN, None, None)
    said = "the workload manager cannot be asked, so what became of it since is not known"
    assert said in explained.reasons[0]
    with pytest.raises(UnreachableError, match="still runs cannot be told: timed out"):
        plan_restart(opened, RestartChanges())


def test_a_hold_is_explained_for_the_held_job_only(written: WrittenRun) -> None:
    """As HTCondor holds: nobody selected anything."""
    written.begin()
    by = "HTCondor"
    written.write(Steer(n=1, t=NOW, who=by, act="hold", jobs=(0,), set={"why": "no room"}))
    written.write(Steer(n=2, t=NOW, who="ada", act="pause"))
    own, child = explain_job(written.opened, "j0"), explain_job(written.opened, "j3")
    assert own.held_by
    assert own.held_by.who == by
    assert [event.act for _, event in own.events if isinstance(event, Steer)] == ["hold", "pause"]
    assert child.held_by is None
    assert [event.act for _, event in child.events if isinstance(event, Steer)] == ["pause"]


LOOKS: dict[str, Callable[[OpenRun], object]] = {
    "status": status_run,
    "report": lambda opened: report_run(opened, details=True),
    "explain": event_blocks,
    "events --follow": lambda opened: list(RunEvents(opened).follow()),
    "logs --follow": lambda opened: list(LogFollower(opened, "j0").updates()),
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", ["journal", "journal/0001.jsonl"])
def test_unreadable_files_are_one_kind_of_error(written: WrittenRun, name: str, look: str) -> None:
    """Not as an error of ours, nor as a state: by every command that reads what happened."""
    written.begin()
    path = written.run.root / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.symlink_to(path.name)
    with pytest.raises(RunUnreadableError, match=re.escape(f"{name}' cannot be read")):
        LOOKS[look](written.opened)


@pytest.mark.parametrize("snapshot", [True, False])
def test_mixed_files_of_two_runs_are_an_error(written: WrittenRun, snapshot: bool) -> None:
    written.begin()
    if snapshot:
        written.n = 9
        written.snapshot()
    written.write(Submitting(n=1, b="1.1", tag="t", jobs=((77, 1),)))
    written.write(Ended(n=2, j=77, a=1, exit=1, cause=Cause.EXIT))
    written.write(Failed(n=3, j=77, why="no attempt is left"))
    words = "names jobs that '.*' lacks: the files belong to different runs"
    with pytest.raises(RunUnreadableError, match=words):
        report_run(written.opened, details=not snapshot)


def test_job_reports_are_indexed_and_sliced(written: WrittenRun) -> None:
    written.begin()
    for event in course():
        written.write(event)
        written.know(event)
    written.snapshot()
    jobs = report_run(written.opened, details=True, now=NOW).jobs
    assert jobs is not None
    assert len(jobs) == 6
    assert [jobs[number] for number in range(6)] == list(jobs) == jobs[:]
    assert (jobs[1].attempts, jobs[1].exit_code, jobs[1].host, jobs[1].log) == (2, 0, "here", "logs/a/00/j1.2.log")
    assert (jobs[2].cause, jobs[2].exit_code, jobs[5].state, jobs[5].log) == (Cause.EXIT, 4, JobState.PRUNED, None)


def test_a_damaged_header_with_a_label_of_no_job_is_reported(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path / "run")
    run.begin()
    for event in course():
        run.write(event)
    header, _, jobs = run.run.workflow.read_bytes().partition(b"\n")
    more = header.replace(b"]", b',{"label":"none"}]', 1)
    run.run.workflow.write_bytes(more + b"\n" + jobs)
    report = report_run(run.opened, details=True)
    assert sum(report.labels["none"].values()) == 0
    assert sum(report.counts.values()) == 6


def test_damage_is_not_told_of_files_that_another_engine_has_begun_to_write(written: WrittenRun) -> None:
    written.begin()
    written.journal.write_bytes(written.journal.read_bytes().replace(b"submit", b"resume", 1))
    resume._refuse_damage(written.opened)
    with pytest.raises(SubmissionRefusedError, match="are damaged"):
        refuse_damage(written.opened)
    written.run.engine_lock.unlink()
    with pytest.raises(SubmissionRefusedError, match="are damaged"):
        resume._refuse_damage(written.opened)
