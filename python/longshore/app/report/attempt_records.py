"""Attempt records: every attempt of some or all jobs of a run, put together from its events."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, ClassVar

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

    __slots__ = ("end", "start", "submission", "wms_id")

    def __init__(self, submission: Submitting | None = None) -> None:
        self.submission = submission
        self.wms_id: str | None = None
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
        """Attempts of each batch whose submission was not answered yet."""

    def of(self, job: int) -> list[Attempt]:
        """Return the attempts of a job, oldest first; `all` is faster for many jobs."""
        numbers = sorted(number for each, number in self._drafts if each == job)
        return [_to_attempt(job, number, self._drafts[job, number]) for number in numbers]

    def all(self) -> Iterator[Attempt]:
        """Yield every attempt in the order in which they became known."""
        for (job, number), draft in self._drafts.items():
            yield _to_attempt(job, number, draft)

    def add(self, events: Iterable[Event]) -> None:
        """Process events in order; raises `IndexError` if one names a job that the run lacks."""
        # Nearly all of hundreds of thousands of events are of the first four kinds.
        for event in events:
            if isinstance(event, Started):
                if self._has(event.j):
                    self._draft(event).start = event
            elif isinstance(event, Ended | Lost):
                if self._has(event.j):
                    self._draft(event).end = event
            elif note := self._HANDLERS.get(type(event)):
                note(self, event)

    def _has(self, job: int) -> bool:
        if job in self._jobs:
            return True
        if not 0 <= job < self._size:
            raise IndexError(job)
        return False

    def _submitting(self, event: Submitting) -> None:
        self._members[event.b] = event.jobs
        for member in event.jobs:
            if member[0] in self._jobs:
                self._drafts[member] = _Draft(event)

    def _submitted(self, event: Submitted) -> None:
        for member in self._members.pop(event.b, ()):
            if draft := self._drafts.get(member):
                draft.wms_id = event.id

    def _refused(self, event: Refused) -> None:
        members = self._members.pop(event.b, ())
        for job, attempt in members if event.jobs is None else event.jobs:
            if job not in self._jobs:
                continue
            if event.spent:
                end = Ended(t=event.t, j=job, a=attempt, cause=Cause.SUBMIT, reason=event.why)
                self._draft(end).end = end
            else:
                # It was never dispatched; the next one has its number.
                self._drafts.pop((job, attempt), None)

    def _facts(self, event: AttemptFacts) -> None:
        draft = self._drafts.get((event.j, event.a))
        if draft is not None and isinstance(draft.end, Ended):
            draft.end = add_facts(draft.end, event)

    def _draft(self, event: Started | Ended | Lost) -> _Draft:
        key = (event.j, event.a)
        draft = self._drafts.get(key)
        if draft is None:
            draft = self._drafts[key] = _Draft()
        return draft

    _HANDLERS: ClassVar[Mapping[type, Callable[[AttemptRecords, Any], None]]] = {
        Submitting: _submitting,
        Submitted: _submitted,
        Refused: _refused,
        AttemptFacts: _facts,
    }


def _to_attempt(job: int, number: int, draft: _Draft) -> Attempt:
    submission, start, end = draft.submission, draft.start, draft.end
    known = end if isinstance(end, Ended) else Ended(j=job, a=number)
    started_at = known.start if start is None else start.at or start.t
    # A start and its submission that the engine noted: both on its clock.
    is_seen = start is not None and submission is not None
    cause, reason = (Cause.LOST, end.why) if isinstance(end, Lost) else (known.cause, known.reason)
    return Attempt(
        job=job,
        number=number,
        wms_id=draft.wms_id,
        host=(start.host if start else None) or known.host,
        requested=submission.request if submission else None,
        submitted_at=submission.t if submission else None,
        started_at=started_at,
        ended_at=known.end or end.t if end is not None else None,
        clock="engine" if start is None else "host",
        queue_s=known.queue_s,
        seen_wait_s=max(0.0, start.t - submission.t) if is_seen and start and submission else None,
        run_s=known.run_s,
        cpu_s=known.cpu_s,
        peak_memory_b=known.rss_b,
        exit_code=known.exit,
        signal=known.signal,
        cause=cause,
        reason=reason,
        outputs=known.outputs or (),
        staged=known.staged,
        extra=known.extra,
    )
