"""What became of a run, and what is to be different, becomes what runs again, and what its jobs ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.services.htcondor.rendering import job

from longshore.contract.context import RunPaths
from longshore.contract.service import Changes
from longshore.model.codec import workflow_lines
from longshore.model.event import Ended, Event, Failed, Started, Submitted, Submitting
from longshore.model.request import MIB, Request
from longshore.model.state import Cause
from longshore.model.workflow import Workflow
from longshore.services.htcondor.handing import Again
from longshore.services.htcondor.restarting import what_again
from longshore.services.htcondor.standing import Standing
from longshore.world.rundir import write_lines

SIZE = 4
"""Of the run: 'a', 'c' beside it, 'b' behind 'a', and the final job, in this order."""


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """A run whose jobs 'a' ask for memory and a time, and the others for nothing."""
    found = RunPaths(tmp_path)
    found.wms.mkdir()
    asked = Request(memory_b=100 * MIB, walltime_s=60.0)
    jobs = [job("a", request=asked, tasks=5), job("c", tasks=5), job("b", tasks=5)]
    workflow = Workflow("w", jobs, [("a", "b")], final=job("f", request=asked))
    write_lines(found.workflow, workflow_lines(workflow))
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


def again(run: RunPaths, *bad: int, cause: Cause = Cause.EXIT, earlier: tuple[Event, ...] = (), **more: Any) -> Again:
    """What a restart does where some jobs failed."""
    events = [event for number in range(SIZE - 1) for event in ended(number, cause if number in bad else None)]
    standing = Standing(SIZE)
    for number in range(SIZE):
        standing.memory[number] = 400
    return what_again(run, [*events, *earlier], Changes(**more), standing)


def test_what_a_named_label_makes_anew_begins_with_the_first_task(run: RunPaths) -> None:
    found = again(run, 1, from_labels=("a",))
    assert found.restarted.jobs == (0, 1, 2, 3)
    assert list(found.anew) == [0, 2], "what failed beside it goes on from the task it came to"
