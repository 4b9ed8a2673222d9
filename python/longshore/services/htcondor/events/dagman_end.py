"""Turns the log of DAGMan's own job into how it ended, and why."""

from __future__ import annotations

from pathlib import Path

import msgspec

from longshore.services.htcondor.event_codes import Kind
from longshore.services.htcondor.events.log_reader import EventLog
from longshore.services.htcondor.events.parse_record import terminated, words_of


class End(msgspec.Struct, frozen=True, kw_only=True):
    """DAGMan is over.

    Attributes
    ----------
    at
        When.
    removed
        Whether somebody removed it, or it is gone without a word.
    reason
        Why it was removed, or by which signal it ended; empty where it ended by itself or nobody says.
    exit
        Its exit code; ``None`` where it has none, or nobody says.
    """

    at: float
    removed: bool
    reason: str = ""
    exit: int | None = None


def last_word(path: Path, cluster: int) -> End | None:
    """How DAGMan's own job ended, as its log tells.

    Parameters
    ----------
    path
        The log.
    cluster
        Its number: the log may have that of an earlier submission.
    """
    end: End | None = None
    for record in EventLog(path).read():
        if record.cluster != cluster:
            continue
        if record.kind == Kind.TERMINATED:
            ending = terminated(record.body)
            reason = (ending.reason or "") if ending.exit is None else ""
            end = End(at=record.at, removed=ending.exit is None, reason=reason, exit=ending.exit)
        elif record.kind == Kind.ABORTED:
            end = End(at=record.at, removed=True, reason=words_of(record.body))
        elif record.kind == Kind.EXECUTE:
            end = None
    return end
