"""Classification of an attempt's end from the job's own record, the queue and accounting (pure functions)."""

from __future__ import annotations

import signal
from typing import Final

import msgspec

from longshore.batch.dialect import Dialect
from longshore.batch.jobs import AccountRow
from longshore.batch.records import AttemptId
from longshore.engine.job_wrapper import FENCED, REQUEUED, RUN_ONCE, UNREADY, EndRecord, signal_in
from longshore.model.event import Ended
from longshore.model.states import Cause
from longshore.model.wording import signal_name

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
