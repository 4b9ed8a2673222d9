"""What the events of a run say about its attempts: every one, each job's newest, and their sums."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import accumulate, islice, starmap
from typing import Any, ClassVar, Final, TypeAlias

import msgspec
from msgspec.structs import asdict, replace

from longshore.model.event import (
    Attempt,
    AttemptFacts,
    AttemptMeasures,
    AttemptSucceeded,
    BriefEvent,
    Deleted,
    Ended,
    Event,
    Failed,
    Finished,
    Life,
    Lost,
    Refused,
    Restarted,
    Retry,
    StagedFiles,
    Started,
    Steer,
    Submitted,
    Submitting,
    add_facts,
    add_staged,
)
from longshore.model.states import Cause
from longshore.model.submission import REUSED_BATCH
from longshore.model.workflow import Request
from longshore.rundir.job_table import JobTable
from longshore.runstate.open_run import map_index_errors

_UNKNOWN_B: Final = -1


class NewestAttempts:
    """Start and end of each job's newest attempt.

    Successes, of which a run has hundreds of thousands, are in columns by job: events that were kept would be scattered
    over the memory, and take longer to read back than to decode. Of them, only what reports of jobs show is kept.

    Attributes
    ----------
    started, start_times, hosts
        The attempt that started last, when, and where. A time is not a number (NaN) if it is unknown.
    succeeded
        The attempt, where the newest end is a success after a start whose time and host are known; else 0. The columns
        below are of these, and their exit code is 0.
    end_times, run_s, cpu_s, rss_b
        As in `Ended`; an unknown `cpu_s` is not a number, an unknown `rss_b` is -1.
    other_ends
        Newest ends that are not in columns.
    shared_hosts
        The string that stands for each host.
    """

    def __init__(self, size: int) -> None:
        numbers, times = bytes(size * array("l").itemsize), array("d", [math.nan]) * size
        self.started, self.succeeded = array("l", numbers), array("l", numbers)
        self.start_times, self.end_times, self.run_s, self.cpu_s = times, times[:], times[:], times[:]
        self.rss_b = array("q", [_UNKNOWN_B]) * size
        self.hosts: list[str | None] = [None] * size
        self.shared_hosts: dict[str, str] = {}
        self.other_ends: dict[int, Ended | Lost] = {}

    def note_successes(self, events: Iterable[AttemptSucceeded]) -> None:
        """Record starts and ends of attempts that succeeded, in order."""
        started, start_times, hosts, shared = self.started, self.start_times, self.hosts, self.shared_hosts
        succeeded, end_times, run_s, cpu_s, rss_b = self.succeeded, self.end_times, self.run_s, self.cpu_s, self.rss_b
        others = self.other_ends
        for event in events:
            if event.host is None:
                continue
            # As `note_start` and `note_end`, without a call.
            job = event.j
            started[job] = succeeded[job] = event.a
            start_times[job] = event.at
            hosts[job] = shared.setdefault(event.host, event.host)
            end_times[job] = event.end
            run_s[job] = event.run_s
            cpu_s[job] = math.nan if event.cpu_s is None else event.cpu_s
            rss_b[job] = _UNKNOWN_B if event.rss_b is None else event.rss_b
            if others:
                others.pop(job, None)

    def note_start(self, event: Started) -> None:
        """Record where and when an attempt started."""
        job = event.j
        self.started[job] = event.a
        self.start_times[job] = math.nan if event.at is None else event.at
        # Shared strings: hundreds of thousands of jobs run on a few hosts.
        self.hosts[job] = self.shared_hosts.setdefault(event.host, event.host) if event.host else None

    def note_end(self, event: Ended | Lost) -> None:
        """Record how an attempt ended."""
        job = event.j
        host, start = self.start(job, event.a)
        if isinstance(event, Lost) or not host or start is None or not _fits_columns(event):
            self.succeeded[job] = 0
            self.other_ends[job] = event
            return
        self.other_ends.pop(job, None)
        self.succeeded[job] = event.a
        self.end_times[job] = event.end or 0.0
        self.run_s[job] = event.run_s or 0.0
        self.cpu_s[job] = math.nan if event.cpu_s is None else event.cpu_s
        self.rss_b[job] = _UNKNOWN_B if event.rss_b is None else event.rss_b

    def note_facts(self, event: AttemptFacts) -> None:
        """Record what became known of an attempt after its end."""
        end = self.end(event.j, event.a)
        if isinstance(end, Ended):
            self.note_end(add_facts(end, event))

    def start(self, job: int, attempt: int) -> tuple[str | None, float | None]:
        """Return host and time of an attempt's start; ``None`` where unknown."""
        if self.started[job] != attempt:
            return None, None
        at = self.start_times[job]
        return self.hosts[job], None if math.isnan(at) else at

    def end(self, job: int, attempt: int) -> Ended | Lost | None:
        """Return how an attempt ended; ``None`` while it runs, even if an earlier one ended."""
        if not attempt or self.succeeded[job] != attempt:
            end = self.other_ends.get(job)
            return end if end is not None and end.a == attempt else None
        return Ended(
            j=job,
            a=attempt,
            exit=0,
            end=self.end_times[job],
            run_s=self.run_s[job],
            cpu_s=None if math.isnan(self.cpu_s[job]) else self.cpu_s[job],
            rss_b=None if self.rss_b[job] == _UNKNOWN_B else self.rss_b[job],
        )

    def use_columns(self, jobs: slice) -> tuple[Sequence[float], Sequence[float | None], Sequence[int | None]]:
        """Return run time, processor time and peak memory of jobs whose newest attempt is in columns."""
        return (
            self.run_s[jobs],
            [None if math.isnan(seconds) else seconds for seconds in self.cpu_s[jobs]],
            [None if size == _UNKNOWN_B else size for size in self.rss_b[jobs]],
        )


def _fits_columns(end: Ended) -> bool:
    """Return whether the columns hold what a report shows of an end."""
    return end.is_plain_success and end.exit == 0 and end.end is not None and end.run_s is not None


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
        if type(record) is _Draft and record.start is not None and _fits_measures(end):
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


def _fits_measures(end: Ended) -> bool:
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


class SpentAttempts(msgspec.Struct):
    """Sum of failed attempts."""

    number: int = 0
    seconds: float = 0.0
    exit_codes: Counter[int] = msgspec.field(default_factory=Counter)
    signals: Counter[int] = msgspec.field(default_factory=Counter)


_CLOCK_S: Final = 2.0
"""Adjustments of a clock up to this are none: nobody sees them."""
_MAX_OVERCOME: Final = 100
"""Jobs of which it is known how they failed before they succeeded: enough to tell what goes wrong."""


class AttemptCollector:
    """Collector of a run's attempts, in a few bytes per job.

    `label_of` is the label's index per job, `labels` the number of labels. `newest` collects each job's newest attempt
    if given; it needs every event, and the host of each `AttemptSucceeded`.

    `life` is the newest engine; `finished` is the event that ended the run, unless it was resumed or restarted since.
    `first_start` is the first attempt's start (seconds since the epoch). `idle_s` is the time between an end of the
    run and its restart, after the first start. `running` has the newest start per running job, `most_running` the
    largest number of them so far. `over` is 1 per job that succeeded, and 2 per job that was deleted. `failed` has
    why each job that failed for good was not tried again, `failed_ends` the end of each job's newest attempt if that
    failed, `removed` why each job was deleted that a person removed.
    `retry_times` has the earliest time of a job's next attempt, where known. `run_s` has run
    times of successful attempts per label, in order of their ends. `ended_at` has end times, `busy_s` the summed run
    time up to each. `hold_codes` is the workload manager's code for a job's present or last hold. `badput` sums up the
    failed attempts per cause. `peak_memory_b` and `raised_memory_b` have, per label, the largest memory
    that an attempt used, and that a retry or an intervention requested; 0 where none is known. `staged` has the
    transfers of all attempts per label that was staged. `unanswered` has the attempts of each batch whose submission
    was not answered yet.
    """

    def __init__(
        self,
        label_of: Sequence[int],
        labels: int,
        *,
        newest: NewestAttempts | None = None,
    ) -> None:
        self.label_of = label_of
        self.newest = newest
        self.life: Life | None = None
        self.finished: Finished | None = None
        self.first_start: float | None = None
        self.idle_s = 0.0
        self.starts_in_life = True
        """Whether the first start is, or will be, in the life of the newest engine."""
        self.live_jump_s = 0.0
        """By how much the clock was set since the first start, while the run is live."""
        self.since_life_s: float | None = None
        """Age of the newest engine, where the clock was set during its life."""
        self.running: dict[int, Started] = {}
        self.most_running = 0
        self.over = bytearray(len(label_of))
        self.failed: dict[int, str] = {}
        self.failed_ends: dict[int, Ended | Lost] = {}
        self.overcome_ends: dict[int, Ended | Lost] = {}
        """The failed ends of jobs that succeeded since, in this submission; of the first such jobs only."""
        self.doubtful_ends: dict[int, Ended] = {}
        """Ends of jobs that succeeded and left an output stale or empty."""
        self.removed: dict[int, str] = {}
        self.retry_times: dict[int, float] = {}
        self.hold_codes: dict[int, int] = {}
        self.run_s = [array("d") for _ in range(labels)]
        self.ended_at = array("d")
        self.busy_s = array("d")
        self.badput: dict[Cause, SpentAttempts] = {}
        self.peak_memory_b = array("q", bytes(8 * labels))
        self.raised_memory_b = array("q", bytes(8 * labels))
        self.staged: dict[int, StagedFiles] = {}
        self.unanswered: dict[str, tuple[tuple[int, int], ...]] = {}

    def add(self, events: Iterable[BriefEvent]) -> None:
        """Process events in order."""
        # Nearly all of hundreds of thousands of events are of the first four kinds: no call for most of them.
        members = self.unanswered
        successes: list[AttemptSucceeded] = []
        for event in events:
            if type(event) is AttemptSucceeded:
                successes.append(event)
                continue
            if successes:
                self._attempts_succeeded(successes)
                successes = []
            if type(event) is Submitting:
                members[event.b] = event.jobs
            elif type(event) is Submitted:
                members.pop(event.b, None)
            elif type(event) is Started:
                self._started(event)
            elif type(event) is Ended:
                self._ended(event)
            elif note := self._HANDLERS.get(type(event)):
                note(self, event)
        if successes:
            self._attempts_succeeded(successes)

    def _started(self, event: Started) -> None:
        self.running[event.j] = event
        self.most_running = max(self.most_running, len(self.running))
        self._record_start(event.at or event.t)
        if self.newest is not None:
            self.newest.note_start(event)

    def _record_start(self, at: float) -> None:
        # Not in order of starts: a successful attempt's start may be reported with its end.
        if self.first_start is None or at < self.first_start:
            self.first_start = at

    def _ended(self, event: Ended) -> None:
        job = event.j
        self.running.pop(job, None)
        seconds = event.run_s or 0.0
        self._record_memory(job, event.rss_b)
        if event.staged is not None:
            label = self.label_of[job]
            self.staged[label] = add_staged(self.staged.get(label, StagedFiles()), event.staged)
        self.ended_at.append(event.t)
        self.busy_s.append((self.busy_s[-1] if self.busy_s else 0.0) + seconds)
        if event.cause is not None:
            self._record_failure(event, event.cause, seconds)
            return
        self.over[job] = 1
        self._overcome(job)
        if event.outputs:
            self.doubtful_ends[job] = event
        elif self.doubtful_ends:
            self.doubtful_ends.pop(job, None)
        if event.run_s is not None:
            self.run_s[self.label_of[job]].append(event.run_s)
        if self.newest is not None:
            self.newest.note_end(event)

    def _record_memory(self, job: int, used_b: int | None) -> None:
        if used_b and used_b > self.peak_memory_b[label := self.label_of[job]]:
            self.peak_memory_b[label] = used_b

    def _attempts_succeeded(self, events: Sequence[AttemptSucceeded]) -> None:
        """Record successes that follow each other: at once, because a run has hundreds of thousands."""
        self._record_start(min([event.at for event in events]))
        self.ended_at.extend([event.t for event in events])
        busy_s = accumulate([event.run_s for event in events], initial=self.busy_s[-1] if self.busy_s else 0.0)
        self.busy_s.extend(islice(busy_s, 1, None))
        over, label_of, run_s, peak_memory_b = self.over, self.label_of, self.run_s, self.peak_memory_b
        for event in events:
            job = event.j
            over[job] = 1
            label = label_of[job]
            run_s[label].append(event.run_s)
            if event.rss_b and event.rss_b > peak_memory_b[label]:
                peak_memory_b[label] = event.rss_b
        if self.doubtful_ends or self.running or self.failed_ends:
            for event in events:
                self.doubtful_ends.pop(event.j, None)
                self.running.pop(event.j, None)
                self._overcome(event.j)
        if self.newest is not None:
            self.newest.note_successes(events)

    def _overcome(self, job: int) -> None:
        """Record that a job succeeded, perhaps after attempts that failed."""
        end = self.failed_ends.pop(job, None)
        if end is not None and len(self.overcome_ends) < _MAX_OVERCOME:
            self.overcome_ends[job] = end

    def _attempt_facts(self, event: AttemptFacts) -> None:
        self._record_memory(event.j, event.rss_b)
        failed = self.failed_ends.get(event.j)
        if isinstance(failed, Ended) and failed.a == event.a:
            self.failed_ends[event.j] = add_facts(failed, event)
        if self.newest is not None:
            self.newest.note_facts(event)

    def _record_failure(self, event: Ended | Lost, cause: Cause, seconds: float) -> None:
        self.failed_ends[event.j] = event
        spent = self.badput.setdefault(cause, SpentAttempts())
        spent.number += 1
        spent.seconds += seconds
        if isinstance(event, Ended) and event.signal is not None:
            spent.signals[event.signal] += 1
        elif isinstance(event, Ended) and event.exit is not None:
            spent.exit_codes[event.exit] += 1
        if self.newest is not None:
            self.newest.note_end(event)

    def _lost(self, event: Lost) -> None:
        self.running.pop(event.j, None)
        self._record_failure(event, Cause.LOST, 0.0)

    def _refused(self, event: Refused) -> None:
        members = self.unanswered.pop(event.b, ())
        for job, attempt in members if event.jobs is None else event.jobs:
            self.running.pop(job, None)
            if event.spent:
                end = Ended(t=event.t, j=job, a=attempt, cause=Cause.SUBMIT, reason=event.why)
                self._record_failure(end, Cause.SUBMIT, 0.0)

    def _record_request(self, job: int, request: Request | None) -> None:
        if request is not None and request.memory_b:
            label = self.label_of[job]
            self.raised_memory_b[label] = max(self.raised_memory_b[label], request.memory_b)

    def _retry(self, event: Retry) -> None:
        self._record_request(event.j, event.request)
        if event.not_before is not None:
            self.retry_times[event.j] = event.not_before

    def _failed(self, event: Failed) -> None:
        self.failed[event.j] = event.why

    def _finished(self, event: Finished) -> None:
        self.idle_s += self._jump(event.t, event.up)
        self.finished = event

    def _life(self, event: Life) -> None:
        if self.finished is not None and self.first_start is not None:
            # Negative where the clock was set back in between.
            self.idle_s += event.t - max(self.finished.t, self.first_start)
        elif self.life is not None and self.life.boot == event.boot:
            self.idle_s += self._jump(event.t, event.up)
        self.life = event
        self.finished = None
        self.starts_in_life = self.first_start is None

    def _jump(self, t: float, up: float | None) -> float:
        """Return by how much the clock was set within the newest engine's life and after the first start.

        `t` and `up` are a moment on the clock of its host, and in seconds since this was started.
        """
        if self.life is None or self.life.up is None or up is None or self.first_start is None:
            return 0.0
        since_life_s = up - self.life.up
        jump_s = t - self.life.t - since_life_s
        was_before = self.starts_in_life and -_CLOCK_S <= t - self.first_start <= since_life_s + _CLOCK_S
        return 0.0 if abs(jump_s) <= _CLOCK_S or was_before else jump_s

    def observe(self, now: float, up: float, boot: str) -> None:
        """Compare the clock at `now` with that of the live engine, if it runs on this host."""
        life = self.life
        if life is None or life.up is None or life.boot != boot or self.finished is not None:
            return
        since_life_s = up - life.up
        if abs(now - life.t - since_life_s) > _CLOCK_S:
            self.since_life_s = since_life_s
            self.live_jump_s = self._jump(now, up)

    def elapsed_s(self, now: float) -> float | None:
        """Return how long the run has run, or ran; `now` counts while it is not finished."""
        if self.first_start is None:
            return None
        end = self.finished.t if self.finished else now - self.live_jump_s
        return max(0.0, end - self.first_start - self.idle_s)

    def run_so_far(self, start: Started, now: float) -> float:
        """Return how long a running attempt has run; where the clock was set, at most as long as the engine."""
        so_far_s = now - (start.at or start.t)
        if self.since_life_s is None:
            return max(0.0, so_far_s)
        return so_far_s if 0.0 <= so_far_s <= self.since_life_s else self.since_life_s

    def _restarted(self, event: Restarted) -> None:
        self.finished = None
        self.overcome_ends.clear()
        for job in event.jobs:
            self.over[job] = 0
            self.failed.pop(job, None)
            self.removed.pop(job, None)
            self.retry_times.pop(job, None)
            self.hold_codes.pop(job, None)
            self.failed_ends.pop(job, None)

    def _steer(self, event: Steer) -> None:
        for job in event.jobs or () if event.request else ():
            self._record_request(job, event.request)
        if event.act == "cancel" and not event.select:
            self.retry_times.clear()
        elif event.act == "hold" and "code" in event.set:
            self.hold_codes.update(dict.fromkeys(event.jobs or (), int(event.set["code"])))
        elif event.act == "release":
            for job in event.jobs or ():
                self.hold_codes.pop(job, None)

    def _deleted(self, event: Deleted) -> None:
        for job in event.jobs:
            self.over[job] = 2
            self.failed_ends.pop(job, None)
            self.retry_times.pop(job, None)
            self.hold_codes.pop(job, None)
            if event.why:
                self.removed[job] = event.why

    _HANDLERS: ClassVar[dict[type, Callable[[AttemptCollector, Any], None]]] = {
        AttemptFacts: _attempt_facts,
        Lost: _lost,
        Refused: _refused,
        Retry: _retry,
        Failed: _failed,
        Finished: _finished,
        Life: _life,
        Restarted: _restarted,
        Steer: _steer,
        Deleted: _deleted,
    }


def attempts_of(table: JobTable, jobs: Container[int], events: Iterable[Event]) -> AttemptRecords:
    """Return every attempt of some jobs, from the events that concern them.

    Raises `RunUnreadableError` if an event names a job that the table lacks.
    """
    records = AttemptRecords(jobs, len(table))
    with map_index_errors(table.run):
        records.add(events)
    return records
