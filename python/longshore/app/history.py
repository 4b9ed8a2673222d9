"""Keeps of a run's events what a report of single jobs needs beside their states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from msgspec.structs import replace

from longshore.model.attempt import Attempt
from longshore.model.event import (
    Ended,
    Event,
    Finished,
    Life,
    Lost,
    Refused,
    Restarted,
    Started,
    Submitted,
    Submitting,
)
from longshore.model.state import Cause


@dataclass
class History:
    """What happened last to each job.

    Attributes
    ----------
    last
        How the newest attempt that is over ended, per job.
    started
        Start of the newest attempt, per job.
    handed
        When the newest attempt was handed over, in which batch, and what it asked for, per job.
    first_start
        When anything started for the first time; seconds since the epoch.
    finished
        The event that ended the run, if nothing has taken it up since.
    """

    last: dict[int, Ended | Lost] = field(default_factory=dict)
    started: dict[int, Started] = field(default_factory=dict)
    handed: dict[int, Submitting] = field(default_factory=dict)
    first_start: float | None = None
    finished: Finished | None = None
    _members: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """Take one event in."""
        if (note := self._NOTE.get(type(event))) is not None:
            note(self, event)

    def attempt(self, job: int, number: int) -> Attempt | None:
        """What is known of a job's newest attempt; ``None`` before the first.

        Parameters
        ----------
        job
            Index of the job.
        number
            Number of its newest attempt.
        """
        if not number:
            return None
        handed, start, end = self.handed.get(job), self.started.get(job), self.last.get(job)
        attempt = Attempt(
            job=job,
            number=number,
            wms_id=handed.b if handed else None,
            requested=handed.request if handed else None,
            submitted_at=handed.t if handed else None,
            host=start.host if start else None,
            started_at=start.at if start else None,
            clock="host",
        )
        # One that runs is told of by what it does, not by how the one before it ended.
        if end is None or end.a != number:
            return attempt
        if isinstance(end, Lost):
            return replace(attempt, cause=Cause.LOST, reason=end.why)
        return replace(
            attempt,
            host=attempt.host or end.host,
            started_at=end.start if attempt.started_at is None else attempt.started_at,
            ended_at=end.end,
            run_s=end.run_s,
            cpu_s=end.cpu_s,
            peak_memory_b=end.rss_b,
            exit_code=end.exit,
            signal=end.signal,
            cause=end.cause,
            reason=end.reason,
            extra=end.extra,
        )

    def _submitting(self, event: Submitting) -> None:
        self._members[event.b] = event.jobs
        for job, _ in event.jobs:
            self.handed[job] = event
            self.started.pop(job, None)

    def _submitted(self, event: Submitted) -> None:
        self._members.pop(event.b, None)

    def _refused(self, event: Refused) -> None:
        members = self._members.pop(event.b, ())
        for job, attempt in members if event.spent else ():
            self.last[job] = Ended(j=job, a=attempt, cause=Cause.SUBMIT, reason=event.why)

    def _started(self, event: Started) -> None:
        self.started[event.j] = event
        if self.first_start is None:
            self.first_start = event.at or event.t

    def _over(self, event: Ended | Lost) -> None:
        self.last[event.j] = event

    def _finished(self, event: Finished) -> None:
        self.finished = event

    def _goes_on(self, _: Life | Restarted) -> None:
        self.finished = None

    _NOTE: ClassVar[dict[type, Callable[[History, Any], None]]] = {
        Submitting: _submitting,
        Submitted: _submitted,
        Refused: _refused,
        Started: _started,
        Ended: _over,
        Lost: _over,
        Finished: _finished,
        Life: _goes_on,
        Restarted: _goes_on,
    }
