"""Submission of batches, each at most once: an unanswered submission is looked up before any retry."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

import msgspec

from longshore.contract.executor import (
    Accepted,
    AttemptId,
    Batch,
    FindResult,
    Limits,
    Rejected,
    SubmitResult,
    Throttled,
    Unsure,
    Urgency,
)
from longshore.contract.service import Unreachable
from longshore.errors import ConfigError
from longshore.services.batch.answers import SubmitOutcome
from longshore.services.batch.client import BatchClient, PollSchedule
from longshore.services.batch.executor.monitor import BatchMonitor
from longshore.services.batch.jobs import ClusterFacts
from longshore.services.batch.records import BatchRecord, BatchRecords
from longshore.services.batch.script_writer import ScriptWriter
from longshore.system.programs import BackgroundCall, ProgramResult
from longshore.system.sharing import seconds_since_boot

_Number: TypeAlias = int | Unreachable | None

LOG: Final = logging.getLogger("longshore.batch")

_BROKEN_CONNECTION_S: Final = 15.0
"""Seconds a batch may take to appear after a broken connection: what was received is there by then or never."""
_MIN_BACK_OFF_S: Final = 2.0
_MAX_BACK_OFF_S: Final = 60.0
"""Longest pause after a refused batch; the pause doubles each time."""
_OF_SUCH_JOBS: Final = frozenset({SubmitOutcome.CLOSED, SubmitOutcome.UNEXPLAINED, SubmitOutcome.TOO_LARGE})
"""Refusals that say nothing of jobs with other settings."""
_SMALLER_BATCH_PAUSE_S: Final = 1.0
"""Pause before a smaller batch is tried where a larger one was too large."""
_REPLY_WAIT_S: Final = 1.0
"""Seconds to wait for the reply before the engine goes on; a later reply is read when the batch is looked up."""


class _Refusals:
    """Refusals without an acceptance between them; `since` is when those without an explanation began, since boot."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.pause_s = _MIN_BACK_OFF_S

    def next_pause_s(self) -> float:
        """Return the pause before the next try, which doubles each time."""
        pause_s, self.pause_s = self.pause_s, min(2 * self.pause_s, _MAX_BACK_OFF_S)
        return pause_s


class BatchSubmitter:
    """Submits the batches of one run.

    `facts` describe the cluster. `limits` are the site's: submission rate and batch size.
    """

    def __init__(
        self,
        *,
        client: BatchClient,
        scripts: ScriptWriter,
        records: BatchRecords,
        monitor: BatchMonitor,
        schedule: PollSchedule,
        facts: ClusterFacts | None,
        limits: Limits,
    ) -> None:
        self._client = client
        self._title = client.dialect.title
        self._program = client.dialect.programs.submit
        self._scripts = scripts
        self._records = records
        self._monitor = monitor
        self._schedule = schedule
        self._accounting = bool(facts and facts.accounting)
        self._rate_limit = client.submit_rate_limit(limits.submit_per_s) if limits.submit_per_s else None
        self._max_batch = limits.max_batch
        self.max_batch = limits.max_batch
        """Members of a batch: fewer than the site allows while larger ones are refused."""
        self._refusals: dict[str, _Refusals] = {}
        """Per kind of batches (`_kind_of`), and under an empty key of the manager as a whole."""
        self._latest_kind = ""
        self._stops_run = scripts.stops_run
        self._lookup_since: dict[str, float] = {}
        """Since when a batch is being looked up, in seconds since boot."""
        self._submit_call: BackgroundCall[ProgramResult] = BackgroundCall()
        self._latest_record: BatchRecord | None = None
        """The batch of the latest submission."""
        self._lookup_call: BackgroundCall[tuple[str, _Number]] = BackgroundCall()

    def free_submissions(self) -> int | None:
        """Number of batches that may be submitted now; ``None`` for any number."""
        if self._submit_call.is_busy:
            return 0
        return self._rate_limit.count_available() if self._rate_limit else None

    def submit(self, batch: Batch) -> SubmitResult:
        """Submit a batch as one array."""
        if self._schedule.failure:
            # Another query, of up to half a minute, would block the engine.
            return Throttled(f"the workload manager does not answer: {self._schedule.failure}", _MIN_BACK_OFF_S)
        if self._submit_call.is_busy and self._latest_record:
            return Throttled(
                f"{self._program} has not answered yet for the batch '{self._latest_record.tag}'", _REPLY_WAIT_S
            )
        if self._rate_limit and (wait_s := self._rate_limit.acquire()):
            return Throttled("other runs of this user submit as often as this site allows", wait_s)
        try:
            script = self._scripts.text(batch)
        except ConfigError as error:
            return Rejected(error.message, for_all=self._stops_run, hopeless=True)
        batch_record = BatchRecord(
            tag=batch.tag,
            name=self._scripts.name(batch.tag),
            members=tuple((member.job, member.attempt) for member in batch.members),
            at=time.time(),
            memory_b=batch.request.memory_b,
            walltime_s=batch.request.walltime_s,
            max_wait_s=self._scripts.max_wait_s(batch),
            hopeless_after_s=self._scripts.hopeless_after_s(batch),
        )
        try:
            self._records.write(batch_record, batch.members)
        except OSError as error:
            return Throttled(f"the batch cannot be recorded: {error.strerror}", _MIN_BACK_OFF_S)
        self._latest_record, self._latest_kind = batch_record, _kind_of(batch)
        self._submit_call.start(partial(self._client.submit, script))
        answer = self._take_reply(batch_record, timeout_s=_REPLY_WAIT_S)
        return answer or Unsure(f"{self._program} has not answered yet for the batch '{batch_record.tag}'")

    def _take_reply(self, batch_record: BatchRecord, *, timeout_s: float = 0.0) -> SubmitResult | None:
        """Return the result for the latest batch; ``None`` while it is pending."""
        for answer in self._submit_call.take_result(timeout_s=timeout_s):
            return self._classify_result(batch_record, answer)
        return None

    def _classify_result(self, batch_record: BatchRecord, answer: ProgramResult) -> SubmitResult:
        reply = self._client.dialect.submit_reply(answer)
        if reply.id is not None:
            self._record_acceptance(batch_record, reply.id)
            self._refusals.pop("", None)
            self._refusals.pop(self._latest_kind, None)
            self.max_batch = min(self._max_batch, max(self.max_batch, 2 * len(batch_record.members)))
            return Accepted(str(reply.id))
        match reply.outcome:
            case SubmitOutcome.UNSURE | SubmitOutcome.BROKEN | SubmitOutcome.ACCEPTED:
                if reply.outcome is SubmitOutcome.BROKEN:
                    # If that cannot be recorded, the batch is only waited for longer.
                    with suppress(OSError):
                        self._records.write(msgspec.structs.replace(batch_record, may_appear_s=_BROKEN_CONNECTION_S))
                return Unsure(f"{self._program} returned no id: {answer.why}")
            case SubmitOutcome.REFUSED:
                self._records.remove(batch_record.tag)
                return Rejected(f"{self._title} refuses it: {answer.why}", for_all=self._stops_run, hopeless=True)
            case outcome:
                self._records.remove(batch_record.tag)
                return self._put_off(batch_record, outcome, answer.why)

    def _put_off(self, batch_record: BatchRecord, outcome: SubmitOutcome, why: str) -> Throttled | Rejected:
        """Return the result for a batch that was not taken for a reason beside its request: no attempt is spent."""
        if outcome is SubmitOutcome.TOO_LARGE and len(batch_record.members) > 1:
            # An array is accepted as a whole or not at all: a smaller one may fit under the limit.
            self.max_batch = len(batch_record.members) // 2
            return Throttled(f"{self._title} takes no more at once: {why}", _SMALLER_BATCH_PAUSE_S)
        is_alike = outcome in _OF_SUCH_JOBS
        refusals = self._refusals.setdefault(self._latest_kind if is_alike else "", _Refusals())
        pause_s = refusals.next_pause_s()
        match outcome:
            case SubmitOutcome.UNREACHABLE:
                words = "the workload manager does not answer"
            case SubmitOutcome.CLOSED:
                words = f"{self._title} takes no such jobs for now, and none of their attempts is spent"
            case SubmitOutcome.UNEXPLAINED:
                now, limit_s = seconds_since_boot(), batch_record.hopeless_after_s
                refusals.since = now if refusals.since is None else refusals.since
                left_s = None if limit_s is None else refusals.since + limit_s - now
                if limit_s is not None and left_s is not None and left_s <= 0.0:
                    words = f"{self._title} refuses it, and did so for {limit_s:.0f} s ('hopelessAfter'): {why}"
                    return Rejected(words, for_all=self._stops_run, hopeless=True)
                pause_s = pause_s if left_s is None else min(pause_s, left_s)
                end = "" if limit_s is None else f", and they fail after {limit_s:.0f} s of that ('hopelessAfter')"
                words = f"{self._title} refuses such jobs, which may pass; they are tried again{end}"
            case _:
                words = f"{self._title} takes no more for now"
        if outcome is not SubmitOutcome.UNEXPLAINED:
            refusals.since = None
        return Throttled(f"{words}: {why}", pause_s, alike=is_alike)

    def _record_acceptance(self, batch_record: BatchRecord, number: int) -> BatchRecord:
        accepted = msgspec.structs.replace(batch_record, id=number)
        self._monitor.add_batch(accepted, seconds_since_boot())
        self._schedule.reset_interval()
        try:
            self._records.write(accepted)
        except OSError as error:
            # The job's name finds it again.
            LOG.warning("the id %s of batch '%s' cannot be recorded: %s", number, batch_record.tag, error.strerror)
        return accepted

    def priorities(self, urgencies: Mapping[str, Urgency]) -> dict[int, int]:
        """Return new priorities of waiting batches whose urgency changed, by their ids."""
        values: dict[int, int] = {}
        for tag, urgency in sorted(urgencies.items()):
            priority = self._scripts.priority(urgency)
            batch_record = self._records.read(tag) if priority is not None else None
            if batch_record is not None and batch_record.id is not None and priority is not None:
                values[batch_record.id] = priority
        return values

    def find(self, tags: Iterable[str]) -> FindResult | Unreachable:
        """Look up batches in the batch records, else by name in the queue and in accounting."""
        found_members: dict[str, frozenset[AttemptId]] = {}
        lost: set[str] = set()
        late_results: dict[str, Rejected | Throttled] = {}
        for tag in tags:
            if self._submit_call.is_busy and self._latest_record and self._latest_record.tag == tag:
                reply = self._take_reply(self._latest_record)
                if reply is None:
                    return Unreachable(why=f"{self._program} has not answered yet for the batch '{tag}'")
                if isinstance(reply, Rejected | Throttled):
                    late_results[tag] = reply
                    continue
            found = self._find_batch(tag)
            if isinstance(found, Unreachable):
                return found
            if found is not None:
                found_members[tag] = frozenset(found.members)
                if found.id is None:
                    lost.add(tag)
        return FindResult(found_members, late_results, frozenset(lost))

    def _find_batch(self, tag: str) -> BatchRecord | Unreachable | None:
        """Return the record of a batch that was taken, without an id if only its damage is known; ``None`` if not."""
        known = self._records.read(tag)
        found = known or self._records.restore(tag, self._scripts.name(tag))
        if found is None or found.id is not None:
            return found
        number = self._find_job(found)
        if isinstance(number, Unreachable):
            return number
        if number is not None and not found.members:
            table = self._records.files(tag).table
            return Unreachable(why=f"which jobs {self._title}'s {number} has is not known: '{table}' is damaged")
        if number is not None:
            return self._record_acceptance(found, number)
        if known is not None:
            self._records.remove(tag)
            return None
        # It may have run and be forgotten: what its members recorded counts, others are lost.
        self._monitor.add_batch(found, seconds_since_boot())
        return found

    def _find_job(self, batch_record: BatchRecord) -> _Number:
        """Find the id of a batch whose submission was never answered."""
        if self._schedule.failure:
            return Unreachable(why=self._schedule.failure)
        if not self._lookup_call.is_busy:
            # Only a query begun after the submission's time limit includes its result.
            self._lookup_since.setdefault(batch_record.tag, seconds_since_boot())
            self._lookup_call.start(lambda: (batch_record.tag, self._query_by_name(batch_record)))
        for tag, number in self._lookup_call.take_result(timeout_s=_REPLY_WAIT_S):
            if tag == batch_record.tag:
                return number
        return Unreachable(why=f"'{batch_record.name}' is being looked up: {self._program} did not answer")

    def _query_by_name(self, batch_record: BatchRecord) -> _Number:
        """Find the id of a batch by its name."""
        answer = self._client.queue(
            max_age_s=self._schedule.floor_s,
            not_before=self._lookup_since[batch_record.tag],
            floor_s=self._schedule.floor_s,
        )
        if answer is None or answer.text is None:
            return Unreachable(
                why=answer.why if answer else f"the queue is asked again for '{batch_record.name}' in a moment"
            )
        for row in self._client.rows(answer):
            if row.name == batch_record.name:
                return row.id.job
        if self._accounting:
            since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(batch_record.at - 3600))
            rows = self._client.query_accounting_by_name(batch_record.name, since=since)
            if isinstance(rows, Unreachable):
                return rows
            if rows:
                return min(rows, key=lambda task: task.job).job
        if abs(time.time() - batch_record.at) < batch_record.may_appear_s:
            return Unreachable(
                why=f"{self._program} did not answer, and its job '{batch_record.name}' may still appear"
            )
        return None


def _kind_of(batch: Batch) -> str:
    """Return what a workload manager may judge a batch by, beside the names and the number of its members."""
    return repr((batch.request, sorted(batch.attributes.items()), sorted(batch.settings.items())))
