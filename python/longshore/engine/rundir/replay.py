"""Replays the events of a run: where they leave each of its jobs, or some jobs and all that these come after."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from longshore.engine.rundir.job_table import JobTable
from longshore.engine.state.apply_event import apply_event
from longshore.engine.state.run_state import RunState
from longshore.model.run.event import News


def initial_state(jobs: JobTable, part: Collection[int] | None = None) -> RunState:
    """The state of a run before anything has happened.

    Parameters
    ----------
    jobs
        The jobs of the run.
    part
        The jobs whose state is wanted, with all their ancestors; of the others it is meaningless.
    """
    if part is None or len(part) == len(jobs):
        return RunState(jobs.parents, jobs.label_of, final=jobs.header.final, barriers=jobs.barriers)
    parents: list[tuple[int, ...]] = [()] * len(jobs)
    for job in part:
        parents[job] = jobs.parents[job]
    members = frozenset(part)
    # Of a barrier before some of them, all jobs that it waits for are ancestors.
    barriers = [barrier for barrier in jobs.barriers if not members.isdisjoint(barrier.before)]
    return RunState(parents, jobs.label_of, barriers=barriers)


def replay(jobs: JobTable, events: Iterable[News], part: Collection[int] | None = None) -> RunState:
    """The state of a run after some events, from the first one on; `part` as for `initial_state`."""
    state = initial_state(jobs, part)
    for event in events:
        apply_event(state, event)
    return state
