"""Keeps how the newest attempt of every job began and ended, for a report that names each job."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable

from longshore.model.event import Ended, Lost, News, Refused, Started, Submitted, Submitting
from longshore.model.state import Cause


class History:
    """What happened last to each job, in a few bytes per job.

    Parameters
    ----------
    size
        Number of jobs.

    Attributes
    ----------
    ends
        How the newest attempt that is over ended, per job.
    """

    def __init__(self, size: int) -> None:
        self.ends: list[Ended | Lost | None] = [None] * size
        self._attempt = array("l", bytes(size * array("l").itemsize))
        self._start = array("d", [math.nan]) * size
        self._host: list[str | None] = [None] * size
        self._hosts: dict[str, str] = {}
        self._asked: dict[str, tuple[tuple[int, int], ...]] = {}

    def take(self, events: Iterable[News]) -> None:
        """Take events in, in their order, and at their full length: of what is told in a word there is nothing here."""
        # Most events are of the first four kinds, and there are hundreds of thousands.
        asked, ends, attempt, start, host = self._asked, self.ends, self._attempt, self._start, self._host
        for event in events:
            if isinstance(event, Started):
                job = event.j
                attempt[job] = event.a
                start[job] = math.nan if event.at is None else event.at
                # Hundreds of thousands of jobs run on a few hosts.
                host[job] = self._hosts.setdefault(event.host, event.host) if event.host else None
            elif isinstance(event, Ended):
                ends[event.j] = event
            elif isinstance(event, Submitting):
                asked[event.b] = event.jobs
            elif isinstance(event, Submitted):
                asked.pop(event.b, None)
            elif isinstance(event, Lost):
                ends[event.j] = event
            elif isinstance(event, Refused):
                self._refused(event)

    def start(self, job: int, attempt: int) -> tuple[str | None, float | None]:
        """Where an attempt began, and when; ``None`` where nobody said.

        Parameters
        ----------
        job
            Index of the job.
        attempt
            Number of its newest attempt.
        """
        if self._attempt[job] != attempt:
            return None, None
        at = self._start[job]
        return self._host[job], None if math.isnan(at) else at

    def end(self, job: int, attempt: int) -> Ended | Lost | None:
        """How an attempt ended; ``None`` where it has not: one that runs is not told of by the one before it.

        Parameters
        ----------
        job
            Index of the job.
        attempt
            Number of its newest attempt.
        """
        end = self.ends[job]
        return end if end is not None and end.a == attempt else None

    def _refused(self, event: Refused) -> None:
        members = self._asked.pop(event.b, ())
        for job, attempt in (members if event.jobs is None else event.jobs) if event.spent else ():
            self.ends[job] = Ended(j=job, a=attempt, cause=Cause.SUBMIT, reason=event.why)
