"""Attempts of a run as one list, with the events before a damage."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.app.written_run import WrittenRun, course

from longshore.app.statistics.attempt_statistics import summarize_attempts
from longshore.app.statistics.run_attempts import read_attempts
from longshore.model.run.states import JobState


@pytest.fixture
def run(tmp_path: Path) -> WrittenRun:
    run = WrittenRun(tmp_path / "run")
    run.begin()
    for event in course():
        run.write(event)
    return run


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
