"""Replays what decides the state of one job: its events, those of its ancestors, and those of the whole run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from longshore.app.runs.job_events import events_of_jobs
from longshore.engine.journal.join_successes import SuccessJoiner
from longshore.engine.rundir.job_table import JobTable
from longshore.engine.rundir.replay import initial_state, replay
from longshore.engine.state.apply_events import apply_events
from longshore.engine.state.run_state import RunState
from longshore.model.lines.event_codec import decode_events
from longshore.model.run.event import AttemptSucceeded, BriefEvent, Event
from longshore.model.workflow.collection_pause import collection_paused

_SMALL_ANCESTRY = 1000
"""Number of ancestors up to which only their events are decoded. Beyond, all events are: joined, they take half of the
time.
"""


class JobReplay:
    """State of a job and its ancestors; for other jobs, `state` is meaningless.

    `blocks` are those of `longshore.app.runs.event_source.event_blocks`. Raises `RunUnreadableError` if a line is no
    event. The events of more than `small` ancestors are read with those of all jobs.
    """

    def __init__(self, table: JobTable, blocks: Sequence[bytes], job: int, *, small: int = _SMALL_ANCESTRY) -> None:
        self._blocks = blocks
        self._job = job
        self._kept: list[Event] = []
        self._joined: set[int] = set()
        """Jobs of which events of a successful attempt were joined, and are not kept."""
        ancestors = table.ancestors(job, most=small)
        with collection_paused():
            if len(ancestors) <= small:
                self._kept = events_of_jobs(blocks, set(ancestors))
                self.state = replay(table, self._kept, ancestors)
            else:
                self.state = self._replay_all(table)

    def _replay_all(self, table: JobTable) -> RunState:
        state = initial_state(table)
        joiner = SuccessJoiner()
        for block in self._blocks:
            self._add(state, joiner.join(decode_events(block, path="the journal")))
        self._add(state, list(joiner.release()))
        if state.attempts[self._job]:
            # A joiner changes the submission of a batch: some of its jobs may have succeeded.
            self._joined.add(self._job)
        return state

    def _add(self, state: RunState, events: Iterable[BriefEvent]) -> None:
        apply_events(state, events)
        self._joined.update([event.j for event in events if type(event) is AttemptSucceeded])
        self._kept.extend([event for event in events if not isinstance(event, AttemptSucceeded)])

    def events_of(self, jobs: set[int]) -> Sequence[Event]:
        """Return all events that concern the job or some of its ancestors, or the whole run, in order; perhaps more."""
        return self._kept if self._joined.isdisjoint(jobs) else events_of_jobs(self._blocks, jobs)
