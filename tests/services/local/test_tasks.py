"""A job of several tasks, tried again and restarted by a real engine, goes on from the task that failed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from longshore.contract.service import RestartChanges
from longshore.jobs.scripts import join_commands
from longshore.model.event import Ended
from longshore.model.states import JobState
from longshore.model.tasks import Dag
from longshore.model.workflow import Backoff, Job, JobRules, JobSettings, Workflow
from longshore.rundir.journal import read_events
from longshore.services.local.service import LocalService
from longshore.testing.conformance.service import ServiceTestCase


class Here(ServiceTestCase):
    """This machine, for whoever wants a run on it."""

    service_name = "local"
    settings: ClassVar[Mapping[str, object]] = {"grace_s": 0.3, "executor": {"pool": {"cpus": 2}}}


def a_job(note: Path, cure: Path, rules: JobRules) -> Job:
    commands = [f"echo 1 >> {note}", f"echo 2 >> {note}; test -e {cure} || exit 3", f"echo 3 >> {note}"]
    return Job(
        name="pack_1",
        label="pack",
        command=join_commands((command, 1) for command in commands),
        settings=JobSettings(label="pack", number_of_retries=1, rules=rules),
        tasks=3,
    )


def run_twice(tmp_path: Path, rules: JobRules) -> tuple[list[str], list[Ended]]:
    """A job that fails twice, then restarted with what it lacked: what its tasks said, and its ends."""
    note, cure = tmp_path / "note", tmp_path / "cure"
    here, service = Here(), LocalService()
    run = here.prepare(service, Workflow("w", Dag.by_name([a_job(note, cure, rules)])), tmp_path / "run")
    service.submit(run)
    state = here.wait_for_end(service, run)
    assert state.finish_event
    assert state.finish_event.state is JobState.FAILED
    cure.touch()
    service.restart(run, RestartChanges())
    state = here.wait_for_end(service, run)
    assert state.finish_event
    assert state.finish_event.state is JobState.SUCCEEDED
    return note.read_text("ascii").split(), [each for each in read_events(run.journal) if isinstance(each, Ended)]


def test_it_goes_on_from_the_task_that_failed(tmp_path: Path) -> None:
    said, ends = run_twice(tmp_path, JobRules(backoff=Backoff(first_s=0.01)))
    assert said == ["1", "2", "2", "2", "3"]
    assert [end.extra.get("tasks_done") for end in ends] == ["1", "1", None]
    assert ends[0].reason == "1 of 3 tasks are done, and are not run again"


def test_it_begins_anew_where_that_is_wanted(tmp_path: Path) -> None:
    said, ends = run_twice(tmp_path, JobRules(backoff=Backoff(first_s=0.01), resume_tasks=False))
    assert said == ["1", "2", "1", "2", "1", "2", "3"]
    assert not any(end.extra for end in ends)


def test_what_is_named_begins_anew_even_where_all_its_tasks_are_done(tmp_path: Path) -> None:
    note, cure = tmp_path / "note", tmp_path / "cure"
    cure.touch()
    here, service = Here(), LocalService()
    run = here.prepare(service, Workflow("w", Dag.by_name([a_job(note, cure, JobRules())])), tmp_path / "run")
    service.submit(run)
    here.wait_for_end(service, run)
    service.restart(run, RestartChanges(from_labels=("pack",)))
    state = here.wait_for_end(service, run)
    assert state.finish_event
    assert state.finish_event.state is JobState.SUCCEEDED
    assert note.read_text("ascii").split() == ["1", "2", "3"] * 2
