"""Reads how and why DAGMan ended, from the log of its own job."""

from __future__ import annotations

from pathlib import Path

import msgspec

from longshore.services.htcondor.event_codes import Kind
from longshore.services.htcondor.events.log_reader import EventLog
from longshore.services.htcondor.events.parse_record import terminated, words_of


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The end of DAGMan's job."""

    at: float
    removed: bool
    """Whether it was removed, or vanished without a record."""
    reason: str = ""
    """Reason of the removal, or the signal that ended it; empty if it exited, or if no reason is known."""
    exit: int | None = None
    """Exit code; ``None`` if it has none, or if it is not known."""


def last_word(path: Path, cluster: int) -> End | None:
    """The end of DAGMan's job `cluster` by its log, which may contain earlier submissions; ``None`` if not over."""
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
