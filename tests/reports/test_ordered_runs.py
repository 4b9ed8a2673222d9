"""The time left of a run whose groups of jobs run one after another, also after a failure in one of them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.contract.service import RunPaths
from longshore.model.event import Ended, Event, Failed, Started, Submitting
from longshore.model.states import Cause
from longshore.model.tasks import Dag
from longshore.model.workflow import Barrier, Job, JobGroup, JobSettings, Ordering, Workflow
from longshore.model.workflow_lines import workflow_lines
from longshore.reports.attempts import AttemptCollector
from longshore.reports.time_left import (
    BARRIER,
    RemainingWork,
    estimate_time_left,
    find_open_jobs,
    map_parents,
    simulate_time_left,
)
from longshore.rundir.job_table import JobTable
from longshore.runstate.apply_events import apply_event
from longshore.runstate.run_state import JobCode, RunState
from longshore.system.atomic import create_file

STEADY = [10.0] * 50


def groups_of(size: int, number: int, *, blocking: bool) -> list[Barrier]:
    """Barriers between groups of as many jobs."""
    groups = [tuple(range(size * each, size * (each + 1))) for each in range(number)]
    return [Barrier(f"{each[0][0]}", "", *each, blocking) for each in pairwise(groups)]


def ordered_table(root: Path, *, blocking: bool) -> JobTable:
    """Four groups of three jobs, and a final job."""
    settings = JobSettings(label="isr")
    jobs = [
        Job(name=f"isr_{visit}_{detector}", label="isr", command=("true",), settings=settings)
        for visit in range(4)
        for detector in range(3)
    ]
    groups = tuple(
        JobGroup(key=(visit,), jobs=tuple(job.name for job in jobs[3 * visit : 3 * visit + 3])) for visit in range(4)
    )
    workflow = Workflow(
        "ordered",
        Dag.by_name(jobs, []),
        final=Job(name="last", label="isr", command=("true",), settings=settings),
        orderings=[Ordering(name="by_visit", dimensions=("visit",), blocking=blocking, groups=groups)],
    )
    run = RunPaths(root)
    root.mkdir()
    create_file(run.workflow, workflow_lines(workflow))
    return JobTable(run)


def first_group(*, fails: bool) -> list[Event]:
    """Events of three jobs that take 10 s at once; the second may fail."""
    events: list[Event] = [Started(t=0.0, j=job, a=1, at=1000.0) for job in range(3)]
    for job in range(3):
        if job == 1 and fails:
            events.append(Ended(t=1010.0, j=job, a=1, cause=Cause.EXIT, exit=1, run_s=10.0))
            events.append(Failed(t=1010.0, j=job, why="no retries"))
        else:
            events.append(Ended(t=1010.0, j=job, a=1, exit=0, run_s=10.0))
    return events


@pytest.mark.parametrize(
    ("blocking", "fails", "true_s"),
    [(False, False, 40.0), (False, True, 40.0), (True, False, 40.0), (True, True, 10.0)],
)
def test_after_a_failure_only_blocking_groups_shorten_the_time_left(
    tmp_path: Path, blocking: bool, fails: bool, true_s: float
) -> None:
    """Three groups of 10 s and the final job are left; after a failure in a blocking group only the final job."""
    attempts = AttemptCollector([0] * 13, 1)
    attempts.add(first_group(fails=fails))
    if not (blocking and fails):
        attempts.add([Started(t=1010.0, j=job, a=1, at=1010.0) for job in range(3, 6)])
    table = ordered_table(tmp_path / "run", blocking=blocking)
    found = estimate_time_left(table, attempts, [10], 1010.0, earlier={})
    assert found is not None
    low, high = found
    assert 0.6 * true_s <= low <= true_s <= high <= 1.6 * true_s


def test_jobs_wait_for_the_whole_group_before_theirs() -> None:
    """A group takes as long as its slots allow, and the next begins when all of it has ended."""
    barriers = groups_of(20, 3, blocking=False)
    placed = list(map_parents(range(60), [()] * 60, barriers))
    assert [job for job, _ in placed if job is not None] == list(range(60))
    assert sum(len(before) for _, before in placed) == 2 * 20 + 2 * 20, "no edge per pair of jobs"
    for slots, expected in ((64, 30.0), (5, 120.0)):
        work = RemainingWork(
            labels=[BARRIER if job is None else 0 for job, _ in placed],
            parents=[before for _, before in placed],
            elapsed_s=[None] * len(placed),
            run_s=[STEADY],
            slots=(slots, slots),
        )
        low, high = simulate_time_left(work)
        assert 0.9 * expected <= low <= expected <= high <= 1.1 * expected


def test_a_barrier_is_passed_once_no_open_job_is_before_it() -> None:
    barriers = groups_of(2, 2, blocking=False)
    assert list(map_parents([1, 2, 3], [()] * 4, barriers)) == [(1, ()), (None, (0,)), (2, (1,)), (3, (1,))]
    assert list(map_parents([2, 3], [(), (), (0,), (2,)], barriers)) == [(2, ()), (3, (0,))]


@given(st.integers(1, 3), st.integers(2, 4), st.booleans(), st.data())
def test_the_open_jobs_are_those_that_the_engine_may_still_run(
    size: int, number: int, blocking: bool, data: st.DataObject
) -> None:
    """Over any course of groups with failures, a job is open exactly if the engine has neither ended nor pruned it."""
    jobs = size * number
    # Some jobs have a parent of their own in the same group.
    parents = [
        (job - 1,) if job % size and data.draw(st.booleans(), label=f"job {job} has a parent") else ()
        for job in range(jobs)
    ]
    barriers = groups_of(size, number, blocking=blocking)
    state = RunState(parents, [0] * jobs, barriers=barriers)
    over, failed = bytearray(jobs), dict[int, str]()
    for _ in range(data.draw(st.integers(0, jobs), label="ended jobs")):
        job = next((each for each in range(jobs) if state.code[each] == JobCode.READY), None)
        if job is None:
            break
        succeeds = data.draw(st.booleans(), label=f"job {job} succeeds")
        apply_event(state, Submitting(b=f"{job}", tag="", jobs=((job, 1),)))
        apply_event(state, Ended(j=job, a=1, exit=int(not succeeds), cause=None if succeeds else Cause.EXIT))
        over[job] = succeeds
        if not succeeds:
            apply_event(state, Failed(j=job, why="bad"))
            failed[job] = "bad"
    gone = (JobCode.SUCCEEDED, JobCode.FAILED, JobCode.PRUNED)
    assert find_open_jobs(over, failed, parents, barriers) == [
        job for job in range(jobs) if state.code[job] not in gone
    ]
