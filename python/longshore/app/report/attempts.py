"""Attempt collector: counts, ends, run times and badput of a run's attempts, from its events.

Counts are always collected; the newest attempt of each job on request.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from itertools import accumulate, islice
from typing import Any, ClassVar, Final

import msgspec

from longshore.app.report.attempt_records import AttemptRecords
from longshore.app.report.newest_attempts import NewestAttempts
from longshore.app.runs.open_run import map_index_errors
from longshore.engine.rundir.job_table import JobTable
from longshore.model.run.event import (
    AttemptFacts,
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
from longshore.model.run.states import Cause
from longshore.model.workflow.request import Request


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
