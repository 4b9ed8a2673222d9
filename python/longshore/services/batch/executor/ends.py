"""How attempts ended: by their own records, the queue and accounting, and only when the outcome is certain.

An attempt that failed or left no record costs queries. Facts that accounting adds to an end which is recorded already
are asked for in batches, and never waited for; the reason is in decision 0097.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.executor import AttemptId
from longshore.contract.service import Unreachable
from longshore.model.event import AttemptFacts, Ended, Lost
from longshore.model.states import Cause
from longshore.model.wording import signal_name
from longshore.rundir.batch_records import FENCED, REQUEUED, RUN_ONCE, UNREADY, EndRecord, signal_in
from longshore.services.batch.client import AccountingAnswer, BatchClient, PollSchedule
from longshore.services.batch.dialect import Dialect
from longshore.services.batch.executor.copies import CopyWatch
from longshore.services.batch.executor.monitor import GRACE_S, LiveAttempt
from longshore.services.batch.jobs import AccountRow, ClusterFacts, QueuePhase, StateTable, TaskId, find_row
from longshore.services.batch.records import BatchRecords
from longshore.system.programs import BackgroundCall
from longshore.system.reading import open_stream
from longshore.system.sharing import seconds_since_boot

# What an end was, by what is known of it.


_SIGKILL: Final = int(signal.SIGKILL)
_OOM_SHARE: Final = 0.95
"""Share of the memory request above which a killed job most likely ran out of memory."""


def classify_end(
    attempt: AttemptId,
    dialect: Dialect,
    *,
    record: EndRecord | None,
    state: str = "",
    account: AccountRow | None = None,
    memory_b: int | None = None,
    out_of_memory: bool = False,
) -> Ended:
    """Classify how an attempt ended.

    `record` is ``None`` when the job left none. `state` is the scheduler's; empty when it gave none. `account` is the
    row of accounting. `memory_b` is the request. `out_of_memory` says that messages report too much memory.
    """
    final_state = (account.state if account else "") or state
    code, number = _status(record, account)
    peak = account.peak_memory_b if account else None
    is_at_limit = peak is not None and memory_b is not None and peak >= memory_b * _OOM_SHARE
    cause = dialect.states.cause(final_state)
    if record is not None and record.fenced:
        cause = Cause.LOST
    elif record is not None and record.unready:
        cause = Cause.SUBMIT
    elif record is not None and not record.refused and record.status == 0 and cause not in _OVERRIDING_CAUSES:
        cause = None
    elif _is_out_of_memory(cause, number, is_at_limit=is_at_limit, is_reported=out_of_memory):
        cause = Cause.OOM
    elif record is not None and record.refused:
        cause = Cause.PREEMPTED
    elif cause in (None, Cause.EXIT) and (code or number):
        cause = Cause.SIGNAL if number else Cause.EXIT
    if record is None and cause is Cause.LOST:
        # The scheduler's own placeholder: the machine failed, and the job has no exit status.
        code = number = None
    return Ended(
        j=attempt[0],
        a=attempt[1],
        exit=code if number is None else None,
        signal=number,
        cause=cause,
        reason=_reason(cause, number, record, _said(dialect, final_state, account)),
        host=(record.host if record else "") or (account.node if account else "") or None,
        start=record.start if record else account.started_at if account else None,
        end=record.end if record else account.ended_at if account else None,
        run_s=record.run if record else account.run_s if account else None,
        cpu_s=account.cpu_s if account else None,
        rss_b=peak,
        queue_s=account.queue_s if account else None,
        outputs=record.findings if record else None,
        stamps=record.stamps if record else (),
        extra=account.gathered if account else {},
    )


def classify_requeued(attempt: AttemptId, dialect: Dialect, record: EndRecord | None) -> Ended:
    """Classify how an attempt ended whose job went back into the queue after it had begun.

    What became of the job there says nothing of the attempt.
    """
    end = classify_end(attempt, dialect, record=record)
    if record is not None and (record.is_own_end or record.fenced or end.cause in (None, Cause.PREEMPTED)):
        return end
    return msgspec.structs.replace(end, cause=Cause.PREEMPTED, reason=REQUEUED)


def needs_accounting(dialect: Dialect, record: EndRecord, state: str, *, is_cancelled: bool) -> bool:
    """Whether only accounting can tell how an attempt ended that left a record.

    `state` is the queue's; empty when it no longer has the attempt. `is_cancelled` says that the engine cancelled it.
    """
    if not record.was_run or record.fenced or is_cancelled:
        return False
    if not state:
        return True
    cause = dialect.states.cause(state)
    if cause in (None, Cause.EXIT):
        # It may have been killed because it used too much memory.
        return signal_in(record.status) == _SIGKILL
    # Memory for a retry grows from the peak; who cancelled a job is told by accounting alone.
    return cause in (Cause.OOM, Cause.CANCELLED)


_OVERRIDING_CAUSES: Final = frozenset({Cause.WALLTIME, Cause.OOM})
"""Causes that override a job's own success: it caught the signal, but its time was over."""


def _status(record: EndRecord | None, account: AccountRow | None) -> tuple[int | None, int | None]:
    """Return the exit code, and the signal if there was one."""
    if record is not None and record.was_run:
        return record.status, signal_in(record.status)
    if account is not None:
        if account.signal:
            return None, account.signal
        return account.exit, signal_in(account.exit)
    return None, None


def _is_out_of_memory(cause: Cause | None, number: int | None, *, is_at_limit: bool, is_reported: bool) -> bool:
    if is_reported:
        return cause in (None, Cause.EXIT, Cause.CANCELLED)
    # A job that a person removes is killed as well, however much memory it has.
    return cause in (None, Cause.EXIT) and number == _SIGKILL and is_at_limit


def _said(dialect: Dialect, state: str, account: AccountRow | None) -> str | None:
    """Return what the workload manager says of an end beyond its exit status; ``None`` for nothing."""
    if not state or state in dialect.states.ordinary:
        return None
    return f"{dialect.title} says {(account.state_text if account else '') or state}"


def _reason(cause: Cause | None, number: int | None, record: EndRecord | None, said: str | None) -> str | None:
    if cause is None:
        return None
    if record is not None and record.refused:
        return RUN_ONCE
    if record is not None and record.unready:
        return UNREADY
    if record is not None and record.fenced:
        return FENCED[record.fenced]
    return f"killed by {signal_name(number)}" if cause is Cause.SIGNAL and number is not None else said


# Queries.


LOG: Final = logging.getLogger("longshore.batch")

_RECORDING_S: Final = 1.0
"""Seconds the cluster is given to record an end before accounting is queried."""
_LAG_S: Final = 10.0
"""Seconds accounting may lag behind the queue."""
_LOOK_S: Final = 0.5
"""Least time between two looks for an answer that another process may have."""
_ANSWER_WAIT_S: Final = 0.5
"""Seconds to wait for an answer before the engine goes on."""
_SHOWN_JOBS: Final = 4
"""Jobs for which the controller is asked in one round, an array being one job."""
_TAIL_B: Final = 1 << 18
"""Bytes searched at the end of the workload manager's output of a batch."""


_STILL_THERE: Final = Unreachable(why="the controller has the job, and not its end")


class _EndAnswers(msgspec.Struct, frozen=True):
    """Answers about tasks that are over.

    `tasks` are those that were asked for. `accounts` has the rows of accounting. `shown` has the controller's answers
    per task; ``None`` for a task that it no longer has.
    """

    tasks: frozenset[TaskId]
    accounts: Mapping[TaskId, AccountRow] | Unreachable
    shown: Mapping[TaskId, AccountRow | Unreachable | None]


class _Question(msgspec.Struct, frozen=True):
    """Question about one attempt; `ended_at` is the time at which its end was seen, in seconds since boot."""

    task: TaskId | None
    has_no_record: bool
    ended_at: float

    @classmethod
    def of(cls, member: LiveAttempt) -> _Question:
        return cls(member.task, member.record is None, member.end_seen_at)


class EndGatherer:
    """Determines how attempts ended.

    `facts` are those of the cluster. `schedule` says when it is queried and whether it answers.
    `copies` holds back ends while a copy of an attempt may live.
    """

    def __init__(
        self,
        client: BatchClient,
        records: BatchRecords,
        facts: ClusterFacts | None,
        *,
        schedule: PollSchedule,
        copies: CopyWatch,
    ) -> None:
        self._client = client
        self._dialect = client.dialect
        self._records = records
        self._accounting = bool(facts and facts.accounting)
        self._schedule = schedule
        self._copies = copies
        self._share = client.accounting_share("ends")
        self._query_at = -1e9
        """When the next query may begin."""
        self._query_call: BackgroundCall[_EndAnswers | None] = BackgroundCall()
        """The background query about ends: busy accounting may take a minute to answer."""
        self._shown_at: dict[int, float] = {}
        """When the controller was last asked for a job."""

    def of(self, members: list[LiveAttempt], now: float) -> Iterator[Ended | Lost]:
        """Return the ends of those attempts whose outcome is certain by now."""
        open_members: list[LiveAttempt] = []
        for member in members:
            if self._copies.is_held(member) and not member.has_end_record:
                yield from self._copies.release(member, now)
            elif self._is_told_by_record(member):
                yield from self._unless_held(member, self._end(member, _state_of(member), None), now)
            # A fresh end is not in accounting yet, and asking twice is worse than asking late.
            elif not self._accounting or now - member.end_seen_at >= _RECORDING_S:
                open_members.append(member)
        if open_members and not self._query_call.is_busy and now >= self._query_at:
            self._query_at = now + (_LOOK_S if self._accounting else self._schedule.floor_s)
            self._query_call.start(partial(self._query, [_Question.of(member) for member in open_members]))
        for reply in self._query_call.take_result(timeout_s=_ANSWER_WAIT_S):
            if reply is None:
                continue
            self._query_at = now + self._schedule.floor_s
            asked = [member for member in open_members if member.task is None or member.task in reply.tasks]
            yield from self._determine_ends(asked, reply, now)
        if not members:
            self._share.withdraw()

    def _determine_ends(self, members: Iterable[LiveAttempt], reply: _EndAnswers, now: float) -> Iterator[Ended | Lost]:
        """Yield the ends that an answer tells."""
        for member in members:
            end = self._determine_end(member, reply, now)
            if end is not None:
                yield from self._unless_held(member, end, now)

    def _unless_held(self, member: LiveAttempt, end: Ended | Lost, now: float) -> Iterator[Ended | Lost]:
        """Yield an end, unless a copy of the attempt holds it back."""
        if not self._copies.holds(member, end, now):
            yield end

    def _is_told_by_record(self, member: LiveAttempt) -> bool:
        """Whether an attempt's own record and the queue tell all that decides what follows."""
        record = member.record
        if record is None:
            return False
        is_cancelled = member.is_cancelled or member.is_requeued
        return not self._accounting or not needs_accounting(
            self._dialect, record, _state_of(member), is_cancelled=is_cancelled
        )

    def _determine_end(self, member: LiveAttempt, reply: _EndAnswers, now: float) -> Ended | Lost | None:
        """Determine how an attempt ended; ``None`` while that is uncertain."""
        accounts = reply.accounts
        is_accounting_down = isinstance(accounts, Unreachable)
        account = None if isinstance(accounts, Unreachable) else self._account_of(member, accounts)
        if account is not None and not self._is_over(account):
            account = None
        if member.has_success_record and account is None:
            # Without accounting there is nothing to wait for.
            waits = self._accounting and not is_accounting_down and now - member.end_seen_at < _LAG_S
            return None if waits else self._end(member, "", None)
        state = _state_of(member)
        if member.record is None and account is None:
            # An attempt that had a record, and so was not queried, is queried next time.
            shown = reply.shown.get(member.task, Unreachable(why="")) if member.task else None
            if isinstance(shown, Unreachable):
                return None
            if shown is None and self._is_cancelled_unseen(member, state):
                # A record of a job that did start may be late, and so may accounting.
                may_know_more = _is_removed(member) or (self._accounting and not is_accounting_down)
                waits = may_know_more and now - member.end_seen_at < _LAG_S
                return None if waits else self._end_as_cancelled(member)
            if shown is None:
                # Accounting may lag behind; an attempt without any trace is waited for, and then lost.
                late = now - (member.end_seen_at or now) > GRACE_S and not is_accounting_down
                return self._lost(member) if late else None
            account, state = shown, shown.state
        elif account is None and self._accounting and now - member.end_seen_at < _LAG_S:
            return None
        return self._end(member, state, account)

    def _account_of(self, member: LiveAttempt, accounts: Mapping[TaskId, AccountRow]) -> AccountRow | None:
        if member.task is None:
            return None
        is_new = _never_started(member)
        return find_row(accounts, member.task, self._dialect.states) if is_new else accounts.get(member.task)

    def _is_cancelled_unseen(self, member: LiveAttempt, state: str) -> bool:
        """Whether an attempt was cancelled and left no trace, as a task of an array that waited.

        Without accounting, one that was killed leaves none either.
        """
        if member.is_requeued or (member.is_cancelled and not self._accounting):
            return True
        is_cancelled = member.is_expired or bool(member.hopeless_reason) or member.is_cancelled
        # A job that was deleted by hand is gone without a word on some workload managers, and a task of an array on
        # others. Where nothing of its job is left, the workload manager may have lost it.
        is_forgotten = self._dialect.forgets_unstarted or member.is_singled_out
        is_cancelled = is_cancelled or (is_forgotten and _is_removed(member))
        is_cancelled = is_cancelled or (bool(state) and state == self._dialect.states.cancelled)
        return is_cancelled and _never_started(member)

    def _end_as_cancelled(self, member: LiveAttempt) -> Ended:
        end = self._end(member, self._dialect.states.cancelled, None)
        return end if end.cause is not None else msgspec.structs.replace(end, cause=Cause.CANCELLED)

    def _is_over(self, account: AccountRow) -> bool:
        return self._dialect.states.phase(account.state) is QueuePhase.OVER

    def _lost(self, member: LiveAttempt) -> Lost:
        name = self._dialect.task_name(member.task) if member.task else member.batch.name
        why = f"job {name} is gone from {self._dialect.title}, and left no record of its end"
        return Lost(j=member.attempt[0], a=member.attempt[1], why=why)

    def _end(self, member: LiveAttempt, state: str, account: AccountRow | None) -> Ended:
        files = self._records.files(member.batch.tag)
        if not member.is_cancelled and (member.is_requeued or files.was_started_again(member.attempt)):
            return classify_requeued(member.attempt, self._dialect, member.record)
        output = "" if member.has_success_record else _read_tail(files.output)
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
        is_end_of_wait = member.record is None and (member.is_expired or member.hopeless_reason)
        return self._as_end_of_wait(end, member) if is_end_of_wait else end

    def _query(self, wanted: list[_Question]) -> _EndAnswers | None:
        """Query accounting for tasks, and the controller for those without a record or accounting."""
        found = self._accounts({each.task: each.ended_at + _RECORDING_S for each in wanted if each.task is not None})
        if found is None:
            return None
        known = {} if isinstance(found.rows, Unreachable) else found.rows
        to_show = [
            each.task
            for each in wanted
            if each.task is not None
            and each.task in found.tasks
            and each.has_no_record
            and ((account := known.get(each.task)) is None or not self._is_over(account))
        ]
        return _EndAnswers(found.tasks, found.rows, self._shown(to_show))

    def _accounts(self, wanted: Mapping[TaskId, float]) -> AccountingAnswer | None:
        """Query accounting; return ``None`` while no answer is there."""
        if not self._accounting or not wanted:
            return AccountingAnswer(frozenset(wanted), {})
        answer = self._client.ask_accounting(self._share, wanted, min_interval_s=self._schedule.floor_s)
        if answer is not None and isinstance(answer.rows, Unreachable):
            LOG.warning("%s does not answer: %s", self._dialect.programs.accounting, answer.rows.why)
        return answer

    def _shown(self, tasks: list[TaskId]) -> dict[TaskId, AccountRow | Unreachable | None]:
        """Query the controller for tasks."""
        if self._schedule.failure:
            return {}
        # Few at a time and in turn: each call waits for the pace of the site, and the others must not wait for all.
        jobs = sorted({task.job for task in tasks}, key=lambda job: self._shown_at.get(job, -1.0))[:_SHOWN_JOBS]
        self._shown_at |= dict.fromkeys(jobs, seconds_since_boot())
        shown = self._client.show_jobs(task for task in tasks if task.job in jobs)
        return {
            task: _STILL_THERE if isinstance(row, AccountRow) and not self._is_over(row) else row
            for task, row in shown.items()
        }

    def _as_end_of_wait(self, end: Ended, member: LiveAttempt) -> Ended:
        """Turn a cancellation into what it was: the end of a wait that was too long, or had no end."""
        if end.cause is not Cause.CANCELLED:
            return end
        if member.hopeless_reason:
            why = f"{self._dialect.title} can never start it ({member.hopeless_reason})"
            mend = self._dialect.states.mend(member.hopeless_reason)
            reason = f"{why}: {mend}" if mend else why
            return msgspec.structs.replace(
                end, cause=Cause.SUBMIT, reason=reason, exit=None, signal=None, hopeless=True
            )
        reason = f"it waited longer than the {member.batch.max_wait_s:.0f} s of 'maxpendtime'"
        if member.row is not None and member.row.reason:
            reason += f"; {self._dialect.title}'s reason was {member.row.reason}"
        return msgspec.structs.replace(end, cause=Cause.PEND_TIMEOUT, reason=reason, exit=None, signal=None)


def _state_of(member: LiveAttempt) -> str:
    """Return the state in which the queue has an attempt that is over; empty without one."""
    return member.row.state if member.row and member.is_over_in_queue else ""


def _is_removed(member: LiveAttempt) -> bool:
    """Whether an attempt was removed from the queue by others while it waited."""
    is_ours = member.is_cancelled or member.is_expired or bool(member.hopeless_reason)
    return not is_ours and member.row is not None and not member.is_over_in_queue and _never_started(member)


def _never_started(member: LiveAttempt) -> bool:
    return not member.started and member.record is None


def _read_tail(path: Path) -> str:
    """Read the end of the workload manager's output of a batch."""
    try:
        with open_stream(path) as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL_B))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


# Later facts.


LAG_S: Final = 1.5
"""Seconds that accounting is given to learn of an end."""
INTERVAL_S: Final = 10.0
"""Least time between two questions of all runs while they go on: nothing depends on the answer."""
LAST_INTERVAL_S: Final = 3.0
"""As `INTERVAL_S`, for a run that is over: its engine stays for some seconds only."""
PATIENCE_S: Final = 60.0
"""Seconds after which what accounting has of an attempt is taken as all."""
LAST_PATIENCE_S: Final = 8.0
"""As `PATIENCE_S`, for a run that is over."""
_LOOK_FOR_FACTS_S: Final = 1.0
"""Least time between two looks for an answer that another process may have."""


class AwaitedAttempt(msgspec.Struct, frozen=True):
    """An attempt whose end is recorded; `ended_at` is when that was seen, in seconds since boot."""

    attempt: AttemptId
    task: TaskId
    ended_at: float


def choose_due(awaited: Collection[AwaitedAttempt], now: float) -> dict[TaskId, float]:
    """Return the tasks to ask for at a moment, each with the earliest moment of a useful question."""
    return {each.task: each.ended_at + LAG_S for each in awaited if now >= each.ended_at + LAG_S}


def is_settled(row: AccountRow | None, states: StateTable, *, age_s: float, is_last: bool) -> bool:
    """Whether nothing more is expected of accounting on an attempt that has this row there.

    `age_s` is the time since its end; `is_last` says that the run is over.
    """
    if age_s >= (LAST_PATIENCE_S if is_last else PATIENCE_S):
        return True
    return row is not None and states.phase(row.state) is QueuePhase.OVER and not row.is_partial


def facts_of(attempt: AttemptId, row: AccountRow) -> AttemptFacts:
    """Return what accounting has of an attempt."""
    return AttemptFacts(
        j=attempt[0],
        a=attempt[1],
        queue_s=row.queue_s,
        cpu_s=row.cpu_s,
        rss_b=row.peak_memory_b,
        extra=row.gathered,
    )


class FactCollector:
    """Collects facts of attempts that ended. Without `is_active`, there are none to collect."""

    def __init__(self, client: BatchClient, *, is_active: bool) -> None:
        self._client = client
        self._states = client.dialect.states
        self._is_active = is_active
        self._share = client.accounting_share("facts")
        self._awaited: dict[AttemptId, AwaitedAttempt] = {}
        self._partial: dict[TaskId, AccountRow] = {}
        """What accounting has so far of tasks that it does not have whole."""
        self._call: BackgroundCall[AccountingAnswer | None] = BackgroundCall()
        self._looked_at = -_LOOK_FOR_FACTS_S
        self.is_last = False
        """Whether the run is over."""
        self.given_up: list[AttemptId] = []
        """Attempts of which accounting knows nothing, until the caller clears them."""

    @property
    def attempts(self) -> Collection[AttemptId]:
        """Attempts whose facts are awaited."""
        return self._awaited.keys()

    @property
    def is_asking(self) -> bool:
        """Whether a question is under way."""
        return self._call.is_busy

    def add(self, attempt: AttemptId, task: TaskId | None, now: float) -> None:
        """Await the facts of an attempt that ended at a moment (seconds since boot)."""
        if self._is_active and task is not None:
            self._awaited[attempt] = AwaitedAttempt(attempt, task, now)

    def take(self, now: float) -> list[AttemptFacts]:
        """Return the facts that arrived by a moment (seconds since boot), and ask for others when that is due."""
        if not self._awaited:
            return []
        if not self.is_asking and now - self._looked_at >= _LOOK_FOR_FACTS_S:
            self._look(now)
        rows: Mapping[TaskId, AccountRow] = {}
        for answer in self._call.take_result():
            if answer is None:
                continue
            if isinstance(answer.rows, Unreachable):
                LOG.warning("%s does not answer: %s", self._client.dialect.programs.accounting, answer.rows.why)
            else:
                rows = answer.rows
        return list(self._settle(rows, now))

    def _look(self, now: float) -> None:
        self._looked_at = now
        if due := choose_due(self._awaited.values(), now):
            interval_s = LAST_INTERVAL_S if self.is_last else INTERVAL_S
            self._call.start(partial(self._client.ask_accounting, self._share, due, min_interval_s=interval_s))

    def _settle(self, rows: Mapping[TaskId, AccountRow], now: float) -> Iterator[AttemptFacts]:
        for each in list(self._awaited.values()):
            row = rows.get(each.task) or self._partial.get(each.task)
            if not is_settled(row, self._states, age_s=now - each.ended_at, is_last=self.is_last):
                if row is not None:
                    self._partial[each.task] = row
            else:
                del self._awaited[each.attempt]
                self._partial.pop(each.task, None)
                if row is None:
                    self.given_up.append(each.attempt)
                else:
                    yield facts_of(each.attempt, row)
        if not self._awaited:
            self._share.withdraw()
