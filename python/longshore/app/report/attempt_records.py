"""Attempt records: every attempt of some or all jobs of a run, put together from its events."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from itertools import starmap

from longshore.model.run.attempt import Attempt
from longshore.model.run.event import (
    AttemptFacts,
    Ended,
    Event,
    Lost,
    Refused,
    Started,
    Submitted,
    Submitting,
    add_facts,
)
from longshore.model.run.states import Cause


class _Draft:
    """Events of one attempt so far."""

    __slots__ = ("end", "start", "submission")

    def __init__(self, submission: Submitting | None) -> None:
        self.submission = submission
        self.start: Started | None = None
        self.end: Ended | Lost | None = None


class AttemptRecords:
    """Every attempt of some of the jobs of a run, which has `size` jobs; a range of all jobs selects all."""

    def __init__(self, jobs: Container[int], size: int) -> None:
        self._jobs = jobs
        self._size = size
        self._drafts: dict[tuple[int, int], _Draft] = {}
        """Per job and number of the attempt, in the order in which they became known."""
        self._members: dict[str, tuple[tuple[int, int], ...]] = {}
        """Attempts of each batch."""
        self._ids: dict[str, str] = {}
        """The workload manager's id of each batch."""

    def of(self, job: int) -> list[Attempt]:
        """Return the attempts of a job, oldest first; `all` is faster for many jobs."""
        keys = sorted(key for key in self._drafts if key[0] == job)
        return [self._attempt(key, self._drafts[key]) for key in keys]

    def all(self) -> Iterator[Attempt]:
        """Yield every attempt in the order in which they became known."""
        return starmap(self._attempt, self._drafts.items())

    @property
    def has_unfinished(self) -> bool:
        """Whether some attempt has not ended."""
        return any(draft.end is None for draft in self._drafts.values())

    def add(self, events: Iterable[Event]) -> None:
        """Process events in order; raises `IndexError` if one names a job that the run lacks."""
        # Nearly all of hundreds of thousands of events are of the first four kinds.
        jobs, drafts = self._jobs, self._drafts
        for event in events:
            if type(event) is Submitting:
                self._members[event.b] = event.jobs
                for member in event.jobs:
                    if member[0] in jobs:
                        drafts[member] = _Draft(event)
            elif type(event) is Submitted:
                self._ids[event.b] = event.id
            elif type(event) is Started:
                if event.j in jobs:
                    self._draft(event).start = event
            elif type(event) is Ended:
                self._note_end(event)
            else:
                self._add_rare(event)

    def _add_rare(self, event: Event) -> None:
        if type(event) is Lost:
            self._note_end(event)
        elif type(event) is AttemptFacts:
            self._note_facts(event)
        elif type(event) is Refused:
            self._note_refusal(event)

    def _draft(self, event: Started | Ended | Lost) -> _Draft:
        key = (event.j, event.a)
        draft = self._drafts.get(key)
        if draft is None:
            draft = self._drafts[key] = _Draft(None)
        return draft

    def _note_end(self, event: Ended | Lost) -> None:
        if event.j in self._jobs:
            self._draft(event).end = event
        elif not 0 <= event.j < self._size:
            raise IndexError(event.j)

    def _note_facts(self, event: AttemptFacts) -> None:
        draft = self._drafts.get((event.j, event.a))
        if draft is not None and isinstance(draft.end, Ended):
            draft.end = add_facts(draft.end, event)

    def _note_refusal(self, event: Refused) -> None:
        for job, number in self._members.get(event.b, ()) if event.jobs is None else event.jobs:
            if event.spent:
                self._note_end(Ended(t=event.t, j=job, a=number, cause=Cause.SUBMIT, reason=event.why))
            else:
                # It was never dispatched; the next one has its number.
                self._drafts.pop((job, number), None)

    def _attempt(self, key: tuple[int, int], draft: _Draft) -> Attempt:
        submission, start, end = draft.submission, draft.start, draft.end
        wms_id = self._ids.get(submission.b) if submission else None
        if end is None:
            return _unfinished(key, submission, wms_id, start)
        if isinstance(end, Lost):
            # Nothing but its cause is known.
            end = Ended(t=end.t, j=end.j, a=end.a, cause=Cause.LOST, reason=end.why)
        return Attempt(
            job=key[0],
            number=key[1],
            wms_id=wms_id,
            host=(start.host if start else None) or end.host,
            requested=submission.request if submission else None,
            submitted_at=submission.t if submission else None,
            started_at=end.start if start is None else start.at or start.t,
            ended_at=end.end or end.t,
            clock="engine" if start is None else "host",
            queue_s=end.queue_s,
            seen_wait_s=_seen_wait(submission, start),
            run_s=end.run_s,
            cpu_s=end.cpu_s,
            peak_memory_b=end.rss_b,
            exit_code=end.exit,
            signal=end.signal,
            cause=end.cause,
            reason=end.reason,
            outputs=end.outputs or (),
            staged=end.staged,
            extra=end.extra,
        )


def _seen_wait(submission: Submitting | None, start: Started | None) -> float | None:
    """Return the wait between two events that the engine noted, both on its clock."""
    return max(0.0, start.t - submission.t) if submission and start else None


def _unfinished(
    key: tuple[int, int], submission: Submitting | None, wms_id: str | None, start: Started | None
) -> Attempt:
    return Attempt(
        job=key[0],
        number=key[1],
        wms_id=wms_id,
        host=start.host if start else None,
        requested=submission.request if submission else None,
        submitted_at=submission.t if submission else None,
        started_at=(start.at or start.t) if start else None,
        clock="host" if start else "engine",
        seen_wait_s=_seen_wait(submission, start),
    )
