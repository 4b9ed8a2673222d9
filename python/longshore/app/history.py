"""Keeps of a run's events what a report of single jobs needs beside their states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

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
        Start of the attempt that runs, per job.
    first_start
        When anything started for the first time; seconds since the epoch.
    finished
        The event that ended the run, if nothing has taken it up since.
    """

    last: dict[int, Ended | Lost] = field(default_factory=dict)
    started: dict[int, Started] = field(default_factory=dict)
    first_start: float | None = None
    finished: Finished | None = None
    _members: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """Take one event in."""
        if (note := self._NOTE.get(type(event))) is not None:
            note(self, event)

    def _submitting(self, event: Submitting) -> None:
        self._members[event.b] = event.jobs
        for job, _ in event.jobs:
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
