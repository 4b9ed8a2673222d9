"""Submission of batches, each at most once: an unanswered submission is looked up before any retry."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

import msgspec

from longshore.contract.batch import (
    Accepted,
    Batch,
    FindResult,
    Limits,
    Rejected,
    SubmitResult,
    Throttled,
    Unsure,
    Urgency,
)
from longshore.contract.context import Unreachable
from longshore.errors import ConfigError
from longshore.services.slurm.arrays.batch_monitor import BatchMonitor
from longshore.services.slurm.batch_records import AttemptId, BatchRecord, BatchRecords
from longshore.services.slurm.commands.client import SlurmClient
from longshore.services.slurm.commands.parse import (
    ClusterFacts,
    SubmitFailure,
    classify_submit_error,
    is_connection_broken,
    is_permanent_refusal,
    is_size_refusal,
    queue_rows,
    submitted_id,
)
from longshore.services.slurm.commands.poll_interval import PollSchedule
from longshore.services.slurm.render.batch_script import ScriptWriter
from longshore.world.processes.background_call import BackgroundCall
from longshore.world.processes.query_cache import seconds_since_boot
from longshore.world.processes.shell import ProgramResult

_Number: TypeAlias = int | Unreachable | None

LOG: Final = logging.getLogger("longshore.slurm")

_BROKEN_S: Final = 15.0
"""Seconds a batch may take to appear after a broken connection: what Slurm received is there by then or never."""
_BACK_OFF_S: Final = 2.0
_MOST_BACK_OFF_S: Final = 60.0
"""Longest pause after a refused batch; the pause doubles each time."""
_SMALLER_S: Final = 1.0
"""Pause before a smaller batch is tried where a larger one was too large."""
_MOMENT_S: Final = 1.0
"""Seconds to wait for sbatch before the engine goes on; a later reply is read when the batch is looked up."""


class BatchSubmitter:
    """Submits the batches of one run.

    `facts` describe the cluster. `limits` are the site's: submission rate and batch size.
    """

    def __init__(
        self,
        *,
        client: SlurmClient,
        scripts: ScriptWriter,
        records: BatchRecords,
        watch: BatchMonitor,
        schedule: PollSchedule,
        facts: ClusterFacts | None,
        limits: Limits,
    ) -> None:
        self._client = client
        self._scripts = scripts
        self._records = records
        self._watch = watch
        self._schedule = schedule
        self._accounting = bool(facts and facts.accounting)
        self._turns = client.turns(limits.submit_per_s) if limits.submit_per_s else None
        self._largest = limits.max_batch
        self.max_batch = limits.max_batch
        """Members of a batch: fewer than the site allows while Slurm refuses larger ones."""
        self._back_off_s = _BACK_OFF_S
        self._stops_run = scripts.stops_run
        self._asked: dict[str, float] = {}
        """Since when a batch is being looked up, in seconds since boot."""
        self._handing_over: BackgroundCall[ProgramResult] = BackgroundCall()
        self._handed: BatchRecord | None = None
        """The batch of the latest call of sbatch."""
        self._looking_up: BackgroundCall[tuple[str, _Number]] = BackgroundCall()

    def free_submissions(self) -> int | None:
        """Number of batches that may be submitted now; ``None`` for any number."""
        if self._handing_over.is_busy:
            return 0
        return self._turns.count_available() if self._turns else None

    def submit(self, batch: Batch) -> SubmitResult:
        """Submit a batch as one array."""
        if self._schedule.failure:
            # Another query, of up to half a minute, would block the engine.
            return Throttled(f"the workload manager does not answer: {self._schedule.failure}", _BACK_OFF_S)
        if self._handing_over.is_busy and self._handed:
            return Throttled(f"sbatch has not answered yet for the batch '{self._handed.tag}'", _MOMENT_S)
        if self._turns and (wait_s := self._turns.acquire()):
            return Throttled("other runs of yours submit as often as this site allows", wait_s)
        try:
            script = self._scripts.text(batch)
        except ConfigError as error:
            return Rejected(error.message, for_all=self._stops_run, hopeless=True)
        book = BatchRecord(
            tag=batch.tag,
            name=self._scripts.name(batch.tag),
            members=tuple((member.job, member.attempt) for member in batch.members),
            at=time.time(),
            memory_b=batch.request.memory_b,
            max_wait_s=self._scripts.max_wait_s(batch),
        )
        try:
            self._records.write(book, batch.members)
        except OSError as error:
            return Throttled(f"the batch cannot be written down: {error.strerror}", _BACK_OFF_S)
        self._handed = book
        self._handing_over.start(partial(self._client.submit, script))
        answer = self._hear(book, timeout_s=_MOMENT_S)
        return answer or Unsure(f"sbatch has not answered yet for the batch '{book.tag}'")

    def _hear(self, book: BatchRecord, *, timeout_s: float = 0.0) -> SubmitResult | None:
        """Return sbatch's result for the latest batch; ``None`` while it is pending."""
        for answer in self._handing_over.take_result(timeout_s=timeout_s):
            return self._judge(book, answer)
        return None

    def _judge(self, book: BatchRecord, answer: ProgramResult) -> SubmitResult:
        found = submitted_id(answer.out) if answer.ok else None
        if found:
            self._taken(book, found[0])
            self._back_off_s = _BACK_OFF_S
            self.max_batch = min(self._largest, max(self.max_batch, 2 * len(book.members)))
            return Accepted(str(found[0]))
        if answer.status is None or answer.ok:
            return Unsure(f"sbatch gave no id: {answer.why}")
        match classify_submit_error(answer.err or answer.out):
            case SubmitFailure.UNSURE:
                if is_connection_broken(answer.err or answer.out):
                    # If that cannot be recorded, the batch is only waited for longer.
                    with suppress(OSError):
                        self._records.write(msgspec.structs.replace(book, may_appear_s=_BROKEN_S))
                return Unsure(answer.why)
            case SubmitFailure.THROTTLED:
                self._records.remove(book.tag)
                if is_size_refusal(answer.err or answer.out) and len(book.members) > 1:
                    # Slurm accepts an array as a whole or not at all: a smaller one may fit under the limit.
                    self.max_batch = len(book.members) // 2
                    return Throttled(f"Slurm takes no more at once: {answer.why}", _SMALLER_S)
                pause_s, self._back_off_s = self._back_off_s, min(2 * self._back_off_s, _MOST_BACK_OFF_S)
                return Throttled(f"Slurm takes no more for now: {answer.why}", pause_s)
            case _:
                self._records.remove(book.tag)
                hopeless = is_permanent_refusal(answer.err or answer.out)
                return Rejected(f"Slurm refuses it: {answer.why}", for_all=self._stops_run, hopeless=hopeless)

    def _taken(self, book: BatchRecord, number: int) -> None:
        known = msgspec.structs.replace(book, id=number)
        self._watch.follow(known, seconds_since_boot())
        self._schedule.reset_interval()
        try:
            self._records.write(known)
        except OSError as error:
            # The job's name finds it again.
            LOG.warning("the id %s of batch '%s' cannot be written down: %s", number, book.tag, error.strerror)

    def renice(self, urgencies: Mapping[str, Urgency]) -> dict[int, int]:
        """Return new nice values of waiting batches whose urgency changed."""
        values: dict[int, int] = {}
        for tag, urgency in sorted(urgencies.items()):
            nice = None if self._scripts.has_own_nice else self._scripts.nice(urgency)
            book = self._records.read(tag) if nice is not None else None
            if book is not None and book.id is not None and nice is not None:
                values[book.id] = nice
        return values

    def find(self, tags: Iterable[str]) -> FindResult | Unreachable:
        """Look up batches in the batch records, else by name in the queue and in accounting."""
        taken: dict[str, frozenset[AttemptId]] = {}
        late: dict[str, Rejected | Throttled] = {}
        for tag in tags:
            if self._handing_over.is_busy and self._handed and self._handed.tag == tag:
                said = self._hear(self._handed)
                if said is None:
                    return Unreachable(why=f"sbatch has not answered yet for the batch '{tag}'")
                if isinstance(said, Rejected | Throttled):
                    late[tag] = said
                    continue
            book = self._records.read(tag)
            if book is None:
                continue
            if book.id is None:
                number = self._look_up(book)
                if isinstance(number, Unreachable):
                    return number
                if number is None:
                    self._records.remove(tag)
                    continue
                self._taken(book, number)
            taken[tag] = frozenset(book.members)
        return FindResult(taken, late)

    def _look_up(self, book: BatchRecord) -> _Number:
        """Find Slurm's id of a batch whose submission was never answered."""
        if self._schedule.failure:
            return Unreachable(why=self._schedule.failure)
        if not self._looking_up.is_busy:
            # Only a query begun after sbatch's time limit includes the result of sbatch.
            self._asked.setdefault(book.tag, seconds_since_boot())
            self._looking_up.start(lambda: (book.tag, self._searched(book)))
        for tag, number in self._looking_up.take_result(timeout_s=_MOMENT_S):
            if tag == book.tag:
                return number
        return Unreachable(why=f"'{book.name}' is being looked up, for sbatch did not answer")

    def _searched(self, book: BatchRecord) -> _Number:
        """Find Slurm's id of a batch by its name."""
        told = self._client.queue(
            max_age_s=self._schedule.floor_s, not_before=self._asked[book.tag], floor_s=self._schedule.floor_s
        )
        if told is None or told.text is None:
            return Unreachable(why=told.why if told else f"the queue is asked again for '{book.name}' in a moment")
        for row in queue_rows(told.text):
            if row.name == book.name:
                return row.id.job
        if self._accounting:
            since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(book.at - 3600))
            rows = self._client.query_accounting_by_name(book.name, since=since)
            if isinstance(rows, Unreachable):
                return rows
            if rows:
                return min(rows, key=lambda task: task.job).job
        if abs(time.time() - book.at) < book.may_appear_s:
            return Unreachable(why=f"sbatch did not answer, and its job '{book.name}' may still appear")
        return None
