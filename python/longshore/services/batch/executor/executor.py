"""Batch executor: submits batches as job arrays, and turns queue queries and end records into events.

It joins `submit` (submission), `monitor` (monitoring) and `ends` (how attempts ended).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from longshore.contract.executor import (
    AttemptId,
    Batch,
    BatchSizing,
    EndRetention,
    Executor,
    FindResult,
    LateFactSource,
    Limits,
    MemberEvent,
    NewsWait,
    PollResult,
    Reprioritisable,
    ResourceProbe,
    SubmitResult,
    SubmitWindow,
    Urgency,
)
from longshore.contract.service import CancelOutcome, Mark, PingReport, RunPaths, Unreachable
from longshore.errors import ConfigError
from longshore.model.event import AttemptFacts, Ended, Lost
from longshore.model.wording import count_noun
from longshore.rundir.batch_records import tags_of_workflow
from longshore.services.batch.client import BatchClient, CallPace, PendingCommand, PendingCommands, poll_schedule
from longshore.services.batch.executor.copies import BootTimes, CopyWatch
from longshore.services.batch.executor.ends import EndGatherer, FactCollector, classify_end
from longshore.services.batch.executor.monitor import BatchMonitor, LiveAttempt
from longshore.services.batch.executor.submit import BatchSubmitter
from longshore.services.batch.jobs import ClusterFacts
from longshore.services.batch.records import BatchRecords, read_batch_template
from longshore.services.batch.script_writer import ScriptWriter
from longshore.services.batch.settings import wants_fence
from longshore.system.programs import BackgroundCall
from longshore.system.sharing import CachedAnswer, seconds_since_boot

LOG: Final = logging.getLogger("longshore.batch")

_MAX_BATCH: Final = 1000
_MAX_WAITING_ALIKE: Final = 1000
_RECORDS_INTERVAL_S: Final = 0.5
"""Time between two reads of the jobs' records while nothing happens."""
_BUSY_RECORDS_S: Final = 0.05
"""As `_RECORDS_INTERVAL_S`, right after an event: a child waits for its parent's record."""
_DELAY_SHARE: Final = 0.1
"""Share by which reading late may delay what follows an event, at most."""
_READ_SHARE: Final = 0.01
"""Share of the time that reading may take: a full directory, or a slow file server, is read less often."""
_QUEUE_WAIT_S: Final = 0.1
"""Seconds to wait for the queue's answer before it is left to the background."""
_CANCEL_WAIT_S: Final = 2.0
"""Seconds to wait for a cancellation before the engine goes on."""


class _RunParts(msgspec.Struct, frozen=True):
    """Parts of an executor that is serving a run."""

    records: BatchRecords
    monitor: BatchMonitor
    submitter: BatchSubmitter
    scripts: ScriptWriter
    ends: EndGatherer
    facts: FactCollector
    copies: CopyWatch


def records_interval_s(since_news_s: float, read_s: float) -> float:
    """Return the time between two reads of the jobs' records.

    It depends on the time since the newest event, and on the seconds that the newest read took.
    """
    interval_s = max(_BUSY_RECORDS_S, _DELAY_SHARE * since_news_s, read_s / _READ_SHARE)
    return min(interval_s, _RECORDS_INTERVAL_S)


class BatchExecutor(
    Executor, NewsWait, ResourceProbe, SubmitWindow, BatchSizing, Reprioritisable, EndRetention, LateFactSource
):
    """Submits batches to a workload manager.

    `settings` has the service's own map under its name, and ``limits`` of the site, by the fields of
    `longshore.contract.executor.Limits`; the dialect's scripts may read more.
    """

    def __init__(self, settings: Mapping[str, Any], client: BatchClient) -> None:
        self._settings = settings
        self._client = client
        self._dialect = client.dialect
        own = self._dialect.settings
        limits = dict(settings.get("limits") or {})
        limits.setdefault("max_batch", _MAX_BATCH)
        limits.setdefault("max_waiting_alike", int(str(own.get("n_max_queued_jobs") or _MAX_WAITING_ALIKE)))
        self.limits = Limits(**limits)
        self._schedule = poll_schedule(self._dialect.name, own, self.limits.poll_floor_s)
        client.pace = CallPace(self._schedule.floor_s)
        self._gathers = own.get("gather") is not False
        self._queue_query: BackgroundCall[CachedAnswer | None] = BackgroundCall()
        """The background query of the queue: a controller that is down takes half a minute to fail."""
        self._commands = PendingCommands()
        self._parts: _RunParts | None = None
        self._deferred: set[AttemptId] = set()
        """Attempts whose files the engine no longer needs, and whose facts are awaited."""
        self._records_read_at = -1e9
        self._records_read_s = 0.0
        """Seconds that the newest read of the jobs' records took."""
        self._recorded: list[MemberEvent] = []
        """Events by the jobs' records that the engine has not got."""
        self._news_at = -1e9
        self._polls = 0

    # ------------------------------------------------------------------------------------------------------- begin

    def open(self, run: RunPaths, life: int) -> None:
        """Read the batches of earlier lives."""
        answer = self._client.query_facts()
        facts = answer if isinstance(answer, ClusterFacts) else None
        if facts and facts.max_array and facts.max_array < self.limits.max_batch:
            self.limits = msgspec.structs.replace(self.limits, max_batch=facts.max_array)
        records = BatchRecords(run)
        monitor = BatchMonitor(self._dialect, records, self._schedule)
        copies = CopyWatch(
            run,
            fence=wants_fence(self._dialect.name, self._dialect.settings),
            now=seconds_since_boot(),
            boots=BootTimes(self._client.boot_time),
        )
        scripts = ScriptWriter(self._dialect, run, self._settings, read_batch_template(run), facts)
        self._parts = _RunParts(
            records=records,
            monitor=monitor,
            submitter=BatchSubmitter(
                client=self._client,
                scripts=scripts,
                records=records,
                monitor=monitor,
                schedule=self._schedule,
                facts=facts,
                limits=self.limits,
            ),
            scripts=scripts,
            ends=EndGatherer(self._client, records, facts, schedule=self._schedule, copies=copies),
            copies=copies,
            facts=FactCollector(self._client, is_active=self._gathers and bool(facts and facts.accounting)),
        )
        known = {each.tag: each for each in records.all()}
        for batch_record in map(known.__getitem__, tags_of_workflow(run, known)):
            # A batch without an id waits until it is looked up.
            if batch_record.id is not None:
                monitor.add_batch(batch_record, 0.0)
        if self._client.scrubbed:
            LOG.info("variables removed for %s's programs: %s", self._dialect.title, ", ".join(self._client.scrubbed))

    @property
    def _open_parts(self) -> _RunParts:
        if self._parts is None:
            raise RuntimeError("the executor is not open")
        return self._parts

    # ------------------------------------------------------------------------------------------------------ submit

    def max_batch_for(self, settings: Mapping[str, Any]) -> int:
        """Return how many members a batch may have: 1 for jobs that are not accepted as arrays."""
        try:
            return self._open_parts.scripts.max_batch(settings, self.limits.max_batch)
        except ConfigError:
            # `submit` reports the error.
            return self.limits.max_batch

    def submit(self, batch: Batch) -> SubmitResult:
        """Submit a batch as one array."""
        submitter = self._open_parts.submitter
        answer = submitter.submit(batch)
        if submitter.max_batch != self.limits.max_batch:
            self.limits = msgspec.structs.replace(self.limits, max_batch=submitter.max_batch)
        return answer

    def free_submissions(self) -> int | None:
        """Return how many batches may be submitted now."""
        return self._open_parts.submitter.free_submissions()

    def reprioritise(self, urgencies: Mapping[str, Urgency]) -> None:
        """Change the order of waiting batches, where the site allows it."""
        if values := self._open_parts.submitter.priorities(urgencies):
            # Not retried: nothing depends on it.
            self._commands.add(PendingCommand(partial(self._set_priorities, values), lambda: bool(values)))
            self._commands.run_next(seconds_since_boot())

    def _set_priorities(self, values: dict[int, int]) -> None:
        self._client.set_priorities(values)

    def find(self, tags: Iterable[str]) -> FindResult | Unreachable:
        """Look up batches in the batch records, else by name in the queue and in accounting."""
        return self._open_parts.submitter.find(tags)

    # -------------------------------------------------------------------------------------------------------- poll

    def poll(self, since: Mark) -> PollResult | Unreachable:
        """Return new events: from the jobs' own records at each call, from the queue once an interval."""
        monitor = self._open_parts.monitor
        self._polls += 1
        self._commands.run_next(seconds_since_boot())
        now = seconds_since_boot()
        if self._records_due_s(now) <= 0.0:
            self._read_records(now)
        events, self._recorded = self._recorded, []
        why = self._query_queue(events, now)
        events += self._find_ends()
        self._open_parts.copies.look(now)
        if events:
            self._news_at = now
            self._schedule.reset_interval()
        if why and not events:
            return Unreachable(why=why)
        waiting, monitor.waiting = monitor.waiting, None
        note = f"the workload manager does not answer: {self._schedule.failure}" if self._schedule.failure else ""
        note = "; ".join(filter(None, (note, self._open_parts.copies.note)))
        return PollResult(events=events, mark=str(self._polls), note=note, waiting=waiting)

    def wait(self, timeout_s: float) -> None:
        """Wait until a job's record tells something new, at most some seconds."""
        until = seconds_since_boot() + timeout_s
        while (now := seconds_since_boot()) < until:
            due_s = self._records_due_s(now)
            if due_s <= 0.0 and self._read_records(now):
                return
            time.sleep(min(until - now, max(due_s, _BUSY_RECORDS_S)))

    def _records_due_s(self, now: float) -> float:
        """Return the seconds until the jobs' records are to be read again."""
        interval_s = records_interval_s(now - self._news_at, self._records_read_s)
        return self._records_read_at + interval_s - now

    def _read_records(self, now: float) -> bool:
        """Read the jobs' records; return whether they tell something new."""
        monitor = self._open_parts.monitor
        awaited = monitor.awaited_records
        self._recorded += monitor.read_end_records()
        self._records_read_at, self._records_read_s = now, seconds_since_boot() - now
        return bool(self._recorded) or monitor.awaited_records != awaited

    def _query_queue(self, events: list[MemberEvent], now: float) -> str:
        """Query the queue when that is due, and process its answer; return why there was no answer, else nothing."""
        schedule = self._schedule
        if (
            not self._queue_query.is_busy
            and (self._open_parts.monitor.members or schedule.failure)
            and schedule.is_due(now)
        ):
            self._queue_query.start(
                partial(
                    self._client.queue,
                    max_age_s=schedule.interval_s,
                    not_before=schedule.not_before,
                    floor_s=schedule.floor_s,
                )
            )
        # A healthy cluster answers in a few milliseconds; waiting that long avoids a second call.
        for answer in self._queue_query.take_result(timeout_s=_QUEUE_WAIT_S):
            if answer is not None:
                return self._process_answer(answer, events)
        return ""

    def _process_answer(self, answer: CachedAnswer, events: list[MemberEvent]) -> str:
        schedule, monitor = self._schedule, self._open_parts.monitor
        if answer.text is None:
            schedule.record_failure(seconds_since_boot(), answer.why)
            LOG.warning("%s does not answer: %s", self._dialect.programs.queue, answer.why)
            return answer.why
        if answer.asked_at <= schedule.queried_at:
            return ""
        schedule.record_answer(answer.asked_at)
        events += monitor.read_queue(self._client.rows(answer), answer.asked_at)
        # A job that is over in the queue has left its record by now, which holds more.
        events += monitor.read_end_records()
        if expired := monitor.find_expired(time.time()):
            LOG.info("%d jobs waited longer than 'maxpendtime' and are cancelled", len(expired))
            self._cancel_waiting(expired)
        if hopeless := monitor.find_hopeless(answer.asked_at):
            LOG.info("%d jobs that can never start are cancelled", len(hopeless))
            self._cancel_waiting(hopeless)
        if requeued := monitor.find_requeued():
            LOG.info("%s requeued: what is back in the queue is cancelled", count_noun(len(requeued), "job"))
            self._cancel_waiting(requeued)
        return ""

    def _cancel_waiting(self, members: list[LiveAttempt]) -> None:
        """Cancel those attempts that still wait, a whole batch by its one id; repeated until they are gone."""
        monitor = self._open_parts.monitor
        tasks = monitor.tasks_of(member.attempt for member in members)
        self._commands.add(
            PendingCommand(
                lambda: self._client.cancel_waiting(tasks),
                lambda: any(
                    (member.is_waiting or member.is_back) and member.attempt in monitor.members for member in members
                ),
            )
        )
        self._schedule.request_query(seconds_since_boot())

    def _find_ends(self) -> list[MemberEvent]:
        """Return the ends that are certain by now."""
        parts, now = self._open_parts, seconds_since_boot()
        ended = parts.monitor.find_ended(now)
        ends: list[Ended | Lost] = [
            classify_end(member.attempt, self._dialect, record=member.record) for member in ended.complete
        ]
        ends += parts.ends.of(ended.to_query, now)
        for end in ends:
            member = parts.monitor.members[end.j, end.a]
            parts.copies.end(member)
            # An attempt without a start used nothing.
            if isinstance(end, Ended) and end.rss_b is None and (member.started or member.record is not None):
                parts.facts.add(member.attempt, member.task, now)
        return list(parts.monitor.remove_ended(ends))

    def take_facts(self) -> Sequence[AttemptFacts]:
        """Return what accounting told of attempts after their ends."""
        if self._parts is None:
            return ()
        facts = self._parts.facts
        found = facts.take(seconds_since_boot())
        if facts.given_up:
            self._parts.monitor.discard_ends(self._deferred.intersection(facts.given_up), self._parts.copies.keeps)
            self._deferred.difference_update(facts.given_up)
            facts.given_up.clear()
        return found

    def awaited_facts(self) -> Collection[AttemptId]:
        """Return the attempts for which accounting may still have facts."""
        return () if self._parts is None else self._parts.facts.attempts

    # --------------------------------------------------------------------------------------------------------- end

    def cancel(self, attempts: Iterable[AttemptId], *, grace_s: float) -> CancelOutcome:
        """Cancel attempts: the workload manager sends TERM, and KILL after a time of its own."""
        monitor = self._open_parts.monitor
        wanted = [attempt for attempt in attempts if attempt in monitor.members]
        tasks = monitor.tasks_of(wanted)
        monitor.mark_cancelled(wanted)
        command = PendingCommand(
            lambda: self._client.cancel(tasks), lambda: any(attempt in monitor.members for attempt in wanted)
        )
        if tasks:
            self._commands.add(command, first=True)
            self._commands.run_next(seconds_since_boot(), timeout_s=_CANCEL_WAIT_S)
        self._schedule.request_query(seconds_since_boot())
        if self._commands.is_pending(command):
            # Repeated until they are gone.
            return CancelOutcome(
                ended=0,
                alive=(f"{count_noun(len(wanted), 'job')} that {self._dialect.programs.cancel} has not confirmed yet",),
            )
        return CancelOutcome(ended=len(wanted))

    def discard_ends(self, attempts: Iterable[AttemptId]) -> None:
        """Remove the files of ends that the journal has, unless their facts are awaited: a later life needs them."""
        wanted = set(attempts)
        deferred = wanted.intersection(self._open_parts.facts.attempts)
        self._deferred = (self._deferred - wanted) | deferred
        self._open_parts.monitor.discard_ends(wanted - deferred, self._open_parts.copies.keeps)

    def probe(self) -> PingReport:
        """Return facts of the cluster from its controller."""
        facts = self._client.query_facts()
        if isinstance(facts, Unreachable):
            return PingReport(service=self._dialect.name, ok=False, message=facts.why)
        details = {"version": facts.version, "cluster": facts.name, "accounting": "yes" if facts.accounting else "no"}
        return PingReport(service=self._dialect.name, ok=True, message="the controller answers", details=details)

    def close(self) -> None:
        """Expect the last facts soon; no resources are held."""
        if self._parts is not None:
            self._parts.facts.is_last = True
