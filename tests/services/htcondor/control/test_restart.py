"""Plans of restarts: which jobs run again, and their requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.services.htcondor.rendering import job

from longshore.contract.service import JobSelection, RestartChanges, RunPaths
from longshore.errors import SubmissionRefusedError
from longshore.model.event import Ended, Event, Failed, Started, Steer, Submitted, Submitting
from longshore.model.states import Cause
from longshore.model.tasks import Dag
from longshore.model.workflow import MIB, Request, Workflow
from longshore.model.workflow_lines import workflow_lines
from longshore.services.htcondor.control.restart import plan_restart
from longshore.services.htcondor.events.job_phases import JobPhases
from longshore.services.htcondor.submission.submit_dag import DagRestart
from longshore.system.atomic import create_file

SIZE = 4
"""Of the run: 'a', 'c' beside it, 'b' behind 'a', and the final job, in this order."""


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """A run whose jobs 'a' ask for memory and a time, and the others for nothing."""
    found = RunPaths(tmp_path)
    found.wms.mkdir()
    asked = Request(memory_b=100 * MIB, walltime_s=60.0)
    jobs = [job("a", request=asked, tasks=5), job("c", tasks=5), job("b", tasks=5)]
    workflow = Workflow("w", Dag.by_name(jobs, [("a", "b")]), final=job("f", request=asked))
    create_file(found.workflow, workflow_lines(workflow))
    return found


def ended(number: int, cause: Cause | None = None) -> list[Event]:
    """What is told of a job that runs once."""
    begun: list[Event] = [
        Submitting(b=f"{number}", tag="t", jobs=((number, 1),)),
        Submitted(b=f"{number}", id="i"),
        Started(j=number, a=1),
    ]
    end = Ended(j=number, a=1, exit=0 if cause is None else 1, cause=cause)
    return [*begun, end, *([] if cause is None else [Failed(j=number, why="no attempt left")])]


def again(
    run: RunPaths, *bad: int, cause: Cause = Cause.EXIT, earlier: tuple[Event, ...] = (), **more: Any
) -> DagRestart:
    """What a restart does where some jobs failed."""
    events = [event for number in range(SIZE - 1) for event in ended(number, cause if number in bad else None)]
    standing = JobPhases(SIZE)
    for number in range(SIZE):
        standing.memory[number] = 400
    return plan_restart(run, [*events, *earlier], RestartChanges(**more), standing)


def test_jobs_of_named_labels_start_from_their_first_task(run: RunPaths) -> None:
    found = again(run, 1, from_labels=("a",))
    assert found.restarted.jobs == (0, 1, 2, 3)
    assert list(found.from_first_task) == [0, 2], "what failed beside it goes on from the task it came to"


def test_set_requests_apply_with_and_without_a_first_request(run: RunPaths) -> None:
    found = again(
        run, 0, 1, set={"requestMemory": "1G", "requestDisk": "50M", "requestWalltime": "1h", "requestCpus": "2"}
    )
    there = {"mem": "1024", "APPEND request_disk": "50M", "wall": "3600", "cpus": "2"}
    absent = {"APPEND request_memory": "1024", "APPEND request_disk": "50M", "cpus": "2"}
    absent["APPEND allowed_execute_duration"] = "3600"
    assert found.overrides == {"j0": there, "j1": absent, "final": there}
    assert sorted(job for steer in found.steers for job in steer.jobs or ()) == [0, 1, 3]


def test_earlier_set_requests_are_kept(run: RunPaths) -> None:
    earlier = Steer(who="me", act="set", jobs=(1,), request=Request(disk_b=9 * MIB, memory_b=7 * MIB))
    found = again(run, 1, earlier=(earlier,), set={"requestMemory": "8M"}, selection=JobSelection(labels=("c",)))
    assert found.overrides == {"j1": {"APPEND request_memory": "8"}}
    (steer,) = found.steers
    assert steer.request == Request(disk_b=9 * MIB, memory_b=8 * MIB)


def test_the_last_granted_memory_is_kept_for_the_final_job_too(run: RunPaths) -> None:
    grown = JobPhases(SIZE)
    grown.memory[3] = 400
    events = [event for number in range(SIZE) for event in ended(number, Cause.OOM if number == 3 else None)]
    assert plan_restart(run, events, RestartChanges(), grown).overrides == {"final": {"mem": "400"}}


def test_a_limit_in_a_description_cannot_be_removed(run: RunPaths) -> None:
    assert again(run, 1, set={"requestMemory": "0"}, selection=JobSelection(labels=("c",))).overrides == {"j1": {}}
    with pytest.raises(SubmissionRefusedError, match="'requestMemory' of 'a' cannot be removed") as caught:
        again(run, 0, set={"requestMemory": "0"}, selection=JobSelection(labels=("a",)))
    assert "an amount that is enough" in caught.value.hint


def test_unknown_keys_and_restarts_without_jobs_are_refused(run: RunPaths) -> None:
    with pytest.raises(SubmissionRefusedError, match="'numberOfRetries' cannot be set"):
        again(run, 0, set={"numberOfRetries": "1"})
    with pytest.raises(SubmissionRefusedError, match="has nothing to run again"):
        plan_restart(
            run, [event for number in range(SIZE) for event in ended(number)], RestartChanges(), JobPhases(SIZE)
        )
