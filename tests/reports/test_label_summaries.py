"""Run times and memory per label, the last failures, and what a report says of a run that is paused or over."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.written_run import NOW, WrittenRun, course

from longshore.model.event import Ended, Event, Retry, StagedFiles, Steer
from longshore.model.report import LabelSummary, RunReport, Snapshot
from longshore.model.states import Cause, JobState
from longshore.model.workflow import Request
from longshore.reports.report import report_run
from longshore.reports.status import status_run
from longshore.rundir.run_directory import read_snapshot, write_snapshot

PAUSE = "PAUSED: the archive is down; no job starts; to continue it: longshore unpause k7f3aa"


def written(tmp_path: Path, run_s: dict[int, float]) -> WrittenRun:
    """A run of the usual course, whose attempts took some time and memory."""
    run = WrittenRun(tmp_path / "run")
    run.begin()
    for event in course():
        changed = _with_amounts(event, run_s)
        run.write(changed)
        run.know(changed)
    return run


def _with_amounts(event: Event, run_s: dict[int, float]) -> Event:
    if isinstance(event, Ended):
        return msgspec.structs.replace(event, run_s=run_s.get(event.j, 1.0), rss_b=(event.j + 1) * 1000)
    if isinstance(event, Retry):
        return msgspec.structs.replace(event, request=Request(memory_b=5000))
    return event


def test_run_times_are_of_successful_attempts_and_memory_of_all(tmp_path: Path) -> None:
    run = written(tmp_path, {0: 2.0, 1: 4.0, 2: 100.0, 3: 7.0, 4: 9.0})
    for details in (False, True):
        summary = report_run(run.opened, details=details).summary
        assert summary
        assert summary.labels == {
            "a": LabelSummary(median_s=2.0, p95_s=4.0, peak_memory_b=3000, requested_memory_b=5000),
            "b": LabelSummary(median_s=7.0, p95_s=9.0, peak_memory_b=5000),
        }


def test_transfers_of_all_attempts_are_summed_per_label(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path / "run")
    run.begin()
    staged = StagedFiles(files_in=2, bytes_in=10, in_s=0.25, files_out=1, bytes_out=3, out_s=0.5, kept=1)
    for event in course():
        changed = msgspec.structs.replace(event, staged=staged) if isinstance(event, Ended) and event.j < 3 else event
        run.write(changed)
        run.know(changed)
    for details in (False, True):
        summary = report_run(run.opened, details=details).summary
        assert summary
        assert [summary.labels[label].staged for label in "ab"] == [
            StagedFiles(files_in=8, bytes_in=40, in_s=1.0, files_out=4, bytes_out=12, out_s=2.0, kept=4),
            None,
        ], "of failed attempts too"


def test_the_last_failures_are_named(tmp_path: Path) -> None:
    summary = report_run(written(tmp_path, {}).opened, details=False).summary
    assert summary
    (failure,) = summary.last_failures
    assert (failure.name, failure.label, failure.cause, failure.exit_code) == ("j2", "a", Cause.EXIT, 4)


def paused_run(tmp_path: Path) -> WrittenRun:
    run = WrittenRun(tmp_path / "run")
    run.begin()
    event = Steer(n=1, t=NOW, who="ann", act="pause", set={"why": "the archive is down"})
    run.write(event)
    run.know(event)
    return run


def with_note(run: WrittenRun, note: str) -> Snapshot:
    run.snapshot()
    found = read_snapshot(run.run)
    assert found
    snapshot = msgspec.structs.replace(found, note=note)
    write_snapshot(run.run, snapshot)
    return snapshot


def live(run: WrittenRun, monkeypatch: pytest.MonkeyPatch) -> list[RunReport]:
    """Reports of a run whose engine lives: in short, and in full."""
    monkeypatch.setattr(type(run.opened), "is_alive", lambda _: True)
    return [status_run(run.opened), report_run(run.opened, details=False), report_run(run.opened, details=True)]


@pytest.mark.parametrize("note", [PAUSE, PAUSE.replace("PAUSED", "paused"), f"no room; {PAUSE}"])
def test_a_paused_run_is_known_by_its_snapshot_and_its_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, note: str
) -> None:
    run = paused_run(tmp_path)
    with_note(run, note)
    reports = live(run, monkeypatch)
    assert [(report.state_word, report.state) for report in reports] == [("PAUSED", JobState.RUNNING)] * 3
    assert [sum("the archive is down" in each for each in report.notes) for report in reports] == [1, 1, 1]


@pytest.mark.parametrize(
    "note", [PAUSE, "throttled: at most 2 in all at once; to lift it: longshore throttle k7f3aa --off"]
)
def test_a_command_in_a_note_finds_a_run_that_its_id_does_not_lead_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, note: str
) -> None:
    run = paused_run(tmp_path) if note == PAUSE else WrittenRun(tmp_path / "run")
    if note != PAUSE:
        run.begin()
    with_note(run, note)
    assert run.opened.reference == str(run.run.root), "no registry knows it"
    for report in live(run, monkeypatch):
        assert note.replace("k7f3aa", str(run.run.root)) in report.notes


def test_a_run_that_is_not_paused_is_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = WrittenRun(tmp_path / "run")
    run.begin()
    with_note(run, "throttled: at most 2 in all at once")
    assert [report.state_word for report in live(run, monkeypatch)] == ["RUNNING"] * 3


@pytest.mark.parametrize("note", [PAUSE, "throttled: at most 2 in all at once"])
def test_notes_of_a_finished_run_are_gone(tmp_path: Path, note: str) -> None:
    run = written(tmp_path, {})
    with_note(run, note)
    reports = [status_run(run.opened), report_run(run.opened, details=False), report_run(run.opened, details=True)]
    assert [(report.notes, report.paused) for report in reports] == [((), False)] * 3
