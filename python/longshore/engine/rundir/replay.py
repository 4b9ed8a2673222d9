"""Replay: computes the state of a run, or of some jobs and their ancestors, from its events."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from longshore.engine.state.apply_events import apply_events
from longshore.engine.state.job_codes import OVER
from longshore.engine.state.run_state import RunState
from longshore.model.event import BriefEvent, Event
from longshore.model.tasks import Adjacency
from longshore.rundir.job_table import JobTable
from longshore.rundir.journal_damage import JournalSurvey


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


def find_unknown_jobs(state: RunState, survey: JournalSurvey) -> frozenset[int]:
    """Return the jobs whose state is not known, after a replay of the intact part.

    A job that was over keeps its state, unless a later event names it or the lost part may have restarted it.
    """
    if survey.may_restart:
        return frozenset(range(state.size))
    named = {job for event in survey.later for job in _jobs_of(event) if 0 <= job < state.size}
    return frozenset(named | {job for job, code in enumerate(state.code) if code not in OVER})


def _jobs_of(event: Event) -> Iterator[int]:
    job: int | None = getattr(event, "j", None)
    if job is not None:
        yield job
    jobs: Collection[int | tuple[int, int]] = getattr(event, "jobs", None) or ()
    for each in jobs:
        yield each if isinstance(each, int) else each[0]
