"""Queries for attempts that failed or left no record, answered only when the outcome is certain."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from longshore.batch.commands.client import BatchClient
from longshore.batch.commands.poll_schedule import PollSchedule
from longshore.batch.executor.batch_monitor import GRACE_S, LiveAttempt
from longshore.batch.executor.classify_end import classify_end
from longshore.batch.jobs import AccountRow, ClusterFacts, QueuePhase, TaskId
from longshore.batch.records import AttemptId, BatchRecords
from longshore.contract.context import Unreachable
from longshore.model.run.event import Ended, Lost
from longshore.model.run.states import Cause
from longshore.world.files.read_file import open_stream
from longshore.world.processes.background_call import BackgroundCall

LOG: Final = logging.getLogger("longshore.batch")

_RECORDING_S: Final = 1.0
"""Seconds the cluster is given to record an end before accounting is queried."""
_LAG_S: Final = 10.0
"""Seconds accounting may lag behind the queue."""
_ANSWER_WAIT_S: Final = 0.5
"""Seconds to wait for an answer before the engine goes on."""
_TAIL_B: Final = 1 << 18
"""Bytes searched at the end of the workload manager's output of a batch."""


class _EndAnswers(msgspec.Struct, frozen=True):
    """Answers about tasks that are over.

    `accounts` has the rows of accounting. `shown` has the controller's answers per task; ``None`` for a task that it no
    longer has.
    """

    accounts: Mapping[TaskId, AccountRow] | Unreachable
    shown: Mapping[TaskId, AccountRow | Unreachable | None]


class EndGatherer:
    """Determines how attempts ended.

    `facts` are those of the cluster. `schedule` says when it is queried and whether it answers. `gathers` says whether
    accounting is queried for successes too.
    """

    def __init__(
        self,
        client: BatchClient,
        records: BatchRecords,
        facts: ClusterFacts | None,
        *,
        schedule: PollSchedule,
        gathers: bool,
    ) -> None:
        self._client = client
        self._dialect = client.dialect
        self._records = records
        self._accounting = bool(facts and facts.accounting)
        self._schedule = schedule
        self.gathers = gathers and self._accounting
        self._queried_at = -1e9
        self._query_call: BackgroundCall[_EndAnswers] = BackgroundCall()
        """The background query about ends: busy accounting may take a minute to answer."""
        self._queried: list[AttemptId] = []

    def of(self, members: list[LiveAttempt], now: float) -> Iterator[Ended | Lost]:
        """Return the ends of those attempts whose outcome is certain by now."""
        # A fresh end is not in accounting yet, and asking twice is worse than asking late.
        due = [member for member in members if not self._accounting or now - member.end_seen_at >= _RECORDING_S]
        if due and not self._query_call.is_busy and now - self._queried_at >= self._schedule.floor_s:
            self._queried_at, self._queried = now, [member.attempt for member in due]
            self._query_call.start(partial(self._query, [(member.task, member.record is None) for member in due]))
        for reply in self._query_call.take_result(timeout_s=_ANSWER_WAIT_S):
            asked = set(self._queried)
            for member in due:
                if member.attempt in asked and (end := self._determine_end(member, reply, now)) is not None:
                    yield end

    def _determine_end(self, member: LiveAttempt, reply: _EndAnswers, now: float) -> Ended | Lost | None:
        """Determine how an attempt ended; ``None`` while that is uncertain."""
        accounts = reply.accounts
        is_accounting_down = isinstance(accounts, Unreachable)
        account = None if isinstance(accounts, Unreachable) or not member.task else accounts.get(member.task)
        if account is not None and not self._is_over(account):
            account = None
        if account is not None and self.gathers and account.is_partial and now - member.end_seen_at < _LAG_S:
            return None
        if member.has_success_record and account is None:
            # Without accounting there is nothing to wait for.
            waits = self._accounting and not is_accounting_down and now - member.end_seen_at < _LAG_S
            return None if waits else self._end(member, "", None)
        state = member.row.state if member.row and member.is_over_in_queue else ""
        if member.record is None and account is None:
            # An attempt that had a record, and so was not queried, is queried next time.
            shown = reply.shown.get(member.task, Unreachable(why="")) if member.task else None
            if isinstance(shown, Unreachable):
                return None
            if shown is None:
                # Accounting may lag behind; an attempt without any trace is waited for, and then lost.
                late = now - (member.end_seen_at or now) > GRACE_S and not is_accounting_down
                return self._lost(member) if late else None
            account, state = shown, shown.state
        elif account is None and self._accounting and now - member.end_seen_at < _LAG_S:
            return None
        return self._end(member, state, account)

    def _is_over(self, account: AccountRow) -> bool:
        return self._dialect.states.phase(account.state) is QueuePhase.OVER

    def _lost(self, member: LiveAttempt) -> Lost:
        why = (
            f"job {member.task or member.batch.name} is gone from {self._dialect.title}, and left no record of its end"
        )
        return Lost(j=member.attempt[0], a=member.attempt[1], why=why)

    def _end(self, member: LiveAttempt, state: str, account: AccountRow | None) -> Ended:
        output = "" if member.has_success_record else _read_tail(self._records.files(member.batch.tag).output)
        raw = (account.raw_id if account else "") or (member.row.raw_id if member.row else "")
        end = classify_end(
            member.attempt,
            self._dialect,
            record=member.record,
            state=state,
            account=account,
            memory_b=member.batch.memory_b,
            out_of_memory=bool(output) and self._dialect.reports_out_of_memory(output, raw),
        )
        return self._as_pending_timeout(end, member) if member.is_expired and member.record is None else end

    def _query(self, wanted: list[tuple[TaskId | None, bool]]) -> _EndAnswers:
        """Query accounting for tasks, and the controller for those without a record or accounting."""
        accounts = self._accounts([task for task, _ in wanted if task])
        shown: dict[TaskId, AccountRow | Unreachable | None] = {}
        for task, is_accounting_down in wanted:
            account = None if isinstance(accounts, Unreachable) or not task else accounts.get(task)
            if task and is_accounting_down and (account is None or not self._is_over(account)):
                found = shown[task] = self._shown(task)
                if isinstance(found, Unreachable):
                    # When one query gets no answer, the others get none either.
                    break
        return _EndAnswers(accounts, shown)

    def _accounts(self, tasks: list[TaskId]) -> Mapping[TaskId, AccountRow] | Unreachable:
        if not self._accounting:
            return {}
        answer = self._client.query_accounting(tasks)
        if isinstance(answer, Unreachable):
            LOG.warning("%s does not answer: %s", self._dialect.programs.accounting, answer.why)
        return answer

    def _shown(self, task: TaskId) -> AccountRow | Unreachable | None:
        """Query the controller for a task."""
        if self._schedule.failure:
            return Unreachable(why=self._schedule.failure)
        shown = self._client.show_job(task)
        if shown is None or isinstance(shown, Unreachable):
            return shown
        return shown if self._is_over(shown) else None

    def _as_pending_timeout(self, end: Ended, member: LiveAttempt) -> Ended:
        """Turn a cancellation into what it was: the end of a wait beyond its limit."""
        if end.cause is not Cause.CANCELLED:
            return end
        reason = f"it waited longer than the {member.batch.max_wait_s:.0f} s of 'maxpendtime'"
        if member.row is not None and member.row.reason:
            reason += f"; {self._dialect.title}'s reason was {member.row.reason}"
        return msgspec.structs.replace(end, cause=Cause.PEND_TIMEOUT, reason=reason, exit=None, signal=None)


def _read_tail(path: Path) -> str:
    """Read the end of the workload manager's output of a batch."""
    try:
        with open_stream(path) as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL_B))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
