"""Replay: computes the state of a run, or of some jobs and their ancestors, from its events."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from longshore.engine.rundir.job_table import JobTable
from longshore.engine.state.apply_events import apply_events
from longshore.engine.state.run_state import RunState
from longshore.model.event import BriefEvent
from longshore.model.tasks import Adjacency


def initial_state(jobs: JobTable, part: Collection[int] | None = None) -> RunState:
    """Return the state of a run before its first event.

    With `part`, the state holds for those jobs and all their ancestors; for other jobs it is meaningless.
    """
    if part is None or len(part) == len(jobs):
        return RunState(jobs.parents, jobs.label_of, final=jobs.header.final, barriers=jobs.barriers)
    members = frozenset(part)
    parents = Adjacency([row if job in members else () for job, row in enumerate(jobs.parents)])
    # All jobs before a barrier are ancestors of the jobs behind it.
    barriers = [barrier for barrier in jobs.barriers if not members.isdisjoint(barrier.before)]
    return RunState(parents, jobs.label_of, barriers=barriers)


def replay(jobs: JobTable, events: Iterable[BriefEvent], part: Collection[int] | None = None) -> RunState:
    """Return the state of a run after events, from the first one on; `part` as for `initial_state`."""
    state = initial_state(jobs, part)
    apply_events(state, events)
    return state
