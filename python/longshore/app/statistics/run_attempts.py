"""Every attempt of a run in one list, from its service's events, for statistics, advice and pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

import msgspec
from msgspec.structs import replace

from longshore.app.report.attempt_records import AttemptRecords
from longshore.app.runs.event_source import EventFollower, chunk_events
from longshore.app.runs.open_run import OpenRun, map_index_errors, map_read_errors
from longshore.engine.rundir.job_table import JobTable
from longshore.errors import UnknownServiceError, UnreachableError
from longshore.model.run.attempt import Attempt, AttemptMeasures
from longshore.model.run.damage import DamagedError
from longshore.model.run.event import Event, Finished, Life, Restarted
from longshore.model.workflow.collection_pause import collection_paused
from longshore.model.workflow.request import Request

_TURNS: Final = frozenset({Finished, Life, Restarted})
"""Kinds of events at which a run ends or goes on."""


class RunAttempts(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Every attempt of a run, in the order in which they became known.

    `opened` is the run, and `table` has its jobs: `table.label(attempt.job)` is the label of an attempt. A journal
    that is damaged gives the attempts before the damage; `opened.damages` has it then. If nothing drives the run any
    more (`is_abandoned`), attempts without an end are abandoned, and were last heard of at `last_event_at`.
    """

    opened: OpenRun
    table: JobTable
    records: AttemptRecords
    is_abandoned: bool = False
    last_event_at: float = 0.0

    @cached_property
    def attempts(self) -> Sequence[Attempt]:
        """Every attempt, also those that `kept_jobs` have; `measures` takes a fraction of the time of making them."""
        with collection_paused():
            if not self.is_abandoned:
                return tuple(self.records.all())
            return tuple(
                replace(attempt, is_abandoned=True) if attempt.ended_at is None else attempt
                for attempt in self.records.all()
            )

    @cached_property
    def own_attempts(self) -> Sequence[Attempt]:
        """Attempts that this run made: it took no time for the results that it kept from another run."""
        if not (kept := self.records.kept):
            return self.attempts
        return tuple(attempt for attempt in self.attempts if (attempt.job, attempt.number) not in kept)

    @property
    def kept_jobs(self) -> list[int]:
        """Jobs whose results were kept from another run."""
        return [job for job, _ in self.records.kept]

    def measures(self) -> Iterator[AttemptMeasures]:
        """Yield the measures of every attempt that this run made."""
        return self.records.measures()

    @property
    def labels(self) -> Sequence[str]:
        """Labels, in the order of the workflow."""
        return self.table.labels

    @property
    def label_of(self) -> Sequence[int]:
        """Index of the label per job."""
        return self.table.label_of

    @cached_property
    def jobs_of_labels(self) -> Sequence[int]:
        """Number of jobs per label."""
        counts = [0] * len(self.labels)
        for label in self.label_of:
            counts[label] += 1
        return counts

    def request_of(self, attempt: Attempt) -> Request:
        """Return what an attempt requested: its own request, else that of its job."""
        return attempt.requested or self.request_of_job(attempt.job)

    def request_of_job(self, job: int) -> Request:
        """Return what a job requests, in its profile."""
        return self.table.settings(job).request


def read_attempts(opened: OpenRun) -> RunAttempts:
    """Read every attempt of a run; its workload manager is asked where it has the events.

    Raises
    ------
    RunUnreadableError
        The run directory is damaged beyond its journal, or cannot be read.
    UnreachableError
        The workload manager does not answer.
    """
    with map_read_errors(opened.run), collection_paused():
        table = JobTable(opened.run)
        follower = EventFollower(opened)
        events = follower.read()
        if follower.unreachable:
            raise UnreachableError(f"the events of run '{opened.card.id}' cannot be queried: {follower.unreachable}")
        intact = _IntactEvents(opened)
        records = AttemptRecords(range(len(table)), len(table))
        with map_index_errors(opened.run):
            intact.add_to(records, events)
            is_abandoned = records.has_unfinished and _is_abandoned(opened, intact)
            if is_abandoned:
                # An engine that ended meanwhile has written its last events.
                intact.add_to(records, follower.read())
        return RunAttempts(
            opened=opened, table=table, records=records, is_abandoned=is_abandoned, last_event_at=intact.last_at
        )


class _IntactEvents:
    """Takes events up to a damage, and notes the time of the last one."""

    def __init__(self, opened: OpenRun) -> None:
        self._opened = opened
        self.last_at = 0.0
        self.is_finished = False

    def add_to(self, records: AttemptRecords, events: Iterator[Event]) -> None:
        """Add the events before a damage to records."""
        try:
            for piece in chunk_events(events):
                records.add(piece)
                self.last_at = max(self.last_at, piece[-1].t)
                if not _TURNS.isdisjoint(map(type, piece)):
                    turns = [event for event in piece if type(event) in _TURNS]
                    self.is_finished = isinstance(turns[-1], Finished)
        except DamagedError:
            self._opened.look_for_damage()


def _is_abandoned(opened: OpenRun, events: _IntactEvents) -> bool:
    """Tell whether nothing drives a run any more; a run that is over need not be asked for."""
    if events.is_finished:
        return True
    try:
        return opened.is_alive() is False
    except UnknownServiceError:
        return False
