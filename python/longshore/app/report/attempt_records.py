"""Attempt records: every attempt of some or all jobs of a run, put together from its events."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from itertools import starmap
from typing import TypeAlias

import msgspec
from msgspec.structs import asdict, replace

from longshore.model.run.attempt import Attempt, AttemptMeasures
from longshore.model.run.event import AttemptFacts, Ended, Event, Lost, Refused, Started, Submitted, Submitting
from longshore.model.run.input_files import REUSED_BATCH
from longshore.model.run.states import Cause

_Key: TypeAlias = tuple[int, int]
"""Job and number of an attempt."""


class _Draft(msgspec.Struct, gc=False):
    """Events of an attempt that was submitted and has not ended, and the workload manager's id."""

    submission: Submitting
    wms_id: str | None = None
    start: Started | None = None


class AttemptRecords:
    """Every attempt of some of the jobs of a run, which has `size` jobs; a range of all jobs selects all.

    An attempt is put together when it ends, and its events are dropped: hundreds of thousands of events would be
    scattered over the memory, and take longer to read back than to decode. Of a plain success, measures are all.

    `kept` has job and number of the attempts that another run made, whose results this run kept.
    """

    def __init__(self, jobs: Container[int], size: int) -> None:
        self._jobs = jobs
        self._size = size
        self.kept: set[_Key] = set()
        self._records: dict[_Key, Attempt | AttemptMeasures | _Draft] = {}
        """What is known of each attempt, in the order in which they became known."""
        self._lost: set[_Key] = set()
        """Attempts of which nothing but their loss is known."""
        self._members: dict[str, tuple[_Key, ...]] = {}
        """Attempts of each batch that the workload manager has not answered."""

    def of(self, job: int) -> list[Attempt]:
        """Return the attempts of a job, oldest first; `all` is faster for many jobs."""
        keys = sorted(key for key in self._records if key[0] == job)
        return [_attempt(key, self._records[key]) for key in keys]

    def all(self) -> Iterator[Attempt]:
        """Yield every attempt in the order in which they became known."""
        return starmap(_attempt, self._records.items())

    def measures(self) -> Iterator[AttemptMeasures]:
        """Yield the measures of every attempt of this run in the same order; this is faster than `all`."""
        kept = self.kept
        for key, record in self._records.items():
            if type(record) is AttemptMeasures:
                yield record
            elif key not in kept:
                yield _attempt(key, record).measures

    @property
    def has_unfinished(self) -> bool:
        """Whether some attempt has not ended."""
        return any(_is_unfinished(record) for record in self._records.values())

    def add(self, events: Iterable[Event]) -> None:
        """Process events in order; raises `IndexError` if one names a job that the run lacks."""
        # Nearly all of hundreds of thousands of events are of the first four kinds.
        jobs, records = self._jobs, self._records
        for event in events:
            if type(event) is Submitting:
                self._members[event.b] = event.jobs
                for member in event.jobs:
                    if member[0] in jobs:
                        records[member] = _Draft(event)
                if event.b == REUSED_BATCH:
                    self.kept.update(member for member in event.jobs if member[0] in jobs)
            elif type(event) is Submitted:
                self._note_answer(event)
            elif type(event) is Started:
                if event.j in jobs:
                    self._note_start(event)
            elif type(event) is Ended:
                self._note_end(event)
            else:
                self._add_rare(event)

    def _note_answer(self, answer: Submitted) -> None:
        for key in self._members.pop(answer.b, ()):
            record = self._records.get(key)
            if type(record) is _Draft:
                record.wms_id = answer.id
            elif record is not None:
                self._records[key] = replace(_attempt(key, record), wms_id=answer.id)

    def _note_start(self, start: Started) -> None:
        key = (start.j, start.a)
        record = self._records.get(key)
        if type(record) is _Draft and record.start is None:
            record.start = start
        else:
            self._records[key] = _with_start(_attempt(key, record), start)

    def _add_rare(self, event: Event) -> None:
        if type(event) is Lost:
            # Nothing but its cause is known.
            self._note_end(Ended(t=event.t, j=event.j, a=event.a, cause=Cause.LOST, reason=event.why))
            self._lost.add((event.j, event.a))
        elif type(event) is AttemptFacts:
            self._note_facts(event)
        elif type(event) is Refused:
            self._note_refusal(event)

    def _note_end(self, end: Ended) -> None:
        key = (end.j, end.a)
        record = self._records.get(key)
        if type(record) is _Draft and record.start is not None and _fits(end):
            self._records[key] = _success(record.submission, record.wms_id, record.start, end)
        elif end.j in self._jobs:
            self._lost.discard(key)
            self._records[key] = _with_end(_attempt(key, record), end)
        elif not 0 <= end.j < self._size:
            raise IndexError(end.j)

    def _note_facts(self, facts: AttemptFacts) -> None:
        key = (facts.j, facts.a)
        record = self._records.get(key)
        if record is None or _is_unfinished(record) or key in self._lost:
            return
        attempt = _attempt(key, record)
        self._records[key] = replace(
            attempt,
            queue_s=attempt.queue_s if facts.queue_s is None else facts.queue_s,
            cpu_s=attempt.cpu_s if facts.cpu_s is None else facts.cpu_s,
            peak_memory_b=attempt.peak_memory_b if facts.rss_b is None else facts.rss_b,
            extra={**facts.extra, **attempt.extra},
        )

    def _note_refusal(self, event: Refused) -> None:
        for job, number in self._members.get(event.b, ()) if event.jobs is None else event.jobs:
            if event.spent:
                self._note_end(Ended(t=event.t, j=job, a=number, cause=Cause.SUBMIT, reason=event.why))
            else:
                # It was never dispatched; the next one has its number.
                self._records.pop((job, number), None)


def _attempt(key: _Key, record: Attempt | AttemptMeasures | _Draft | None) -> Attempt:
    """Return an attempt as far as it is known."""
    if isinstance(record, Attempt):
        return record
    if isinstance(record, AttemptMeasures):
        values = asdict(record)
        return Attempt(clock="host", seen_wait_s=values.pop("wait_s"), **values)
    if record is None:
        return Attempt(job=key[0], number=key[1])
    submission = record.submission
    attempt = Attempt(
        job=key[0],
        number=key[1],
        wms_id=record.wms_id,
        requested=submission.request,
        submitted_at=submission.t,
    )
    return _with_start(attempt, record.start) if record.start is not None else attempt


def _is_unfinished(record: Attempt | AttemptMeasures | _Draft) -> bool:
    return not isinstance(record, Attempt | AttemptMeasures) or record.ended_at is None


def _fits(end: Ended) -> bool:
    """Return whether measures hold all facts of an end."""
    return end.is_plain_success and end.queue_s is None and end.staged is None and not end.outputs and not end.extra


def _success(submission: Submitting, wms_id: str | None, start: Started, end: Ended) -> AttemptMeasures:
    # By position, which takes half of the time.
    return AttemptMeasures(
        end.j,
        end.a,
        wms_id,
        start.host or end.host,
        submission.request,
        submission.t,
        start.at or start.t,
        end.end or end.t,
        max(0.0, start.t - submission.t),
        end.run_s,
        end.cpu_s,
        end.rss_b,
        end.exit,
        None,
    )


def _with_start(attempt: Attempt, start: Started) -> Attempt:
    submitted_at = attempt.submitted_at
    return replace(
        attempt,
        host=start.host or attempt.host,
        started_at=start.at or start.t,
        clock="host",
        # Between two events that the engine noted, both on its clock.
        seen_wait_s=None if submitted_at is None else max(0.0, start.t - submitted_at),
    )


def _with_end(attempt: Attempt, end: Ended) -> Attempt:
    return replace(
        attempt,
        host=attempt.host or end.host,
        started_at=attempt.started_at if attempt.clock == "host" else end.start,
        ended_at=end.end or end.t,
        queue_s=end.queue_s,
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
