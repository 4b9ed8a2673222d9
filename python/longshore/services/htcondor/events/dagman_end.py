"""Reads how and why DAGMan ended, from the log of its own job."""

from __future__ import annotations

from pathlib import Path

import msgspec

from longshore.services.htcondor.event_codes import EventType
from longshore.services.htcondor.events.log_reader import UserLog
from longshore.services.htcondor.events.parse_record import parse_reason, parse_termination


class DagmanEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of DAGMan's job."""

    at: float
    is_removed: bool
    """Whether it was removed, or vanished without a record."""
    reason: str = ""
    """Reason of the removal, or the signal that ended it; empty if it exited, or if no reason is known."""
    exit: int | None = None
    """Exit code; ``None`` if it has none, or if it is not known."""


def read_dagman_end(path: Path, cluster: int) -> DagmanEnd | None:
    """The end of DAGMan's job `cluster` by its log, which may contain earlier submissions; ``None`` if not over."""
    end: DagmanEnd | None = None
    for record in UserLog(path).read_records():
        if record.cluster != cluster:
            continue
        if record.event_type == EventType.TERMINATED:
            ending = parse_termination(record.body)
            reason = (ending.reason or "") if ending.exit is None else ""
            end = DagmanEnd(at=record.at, is_removed=ending.exit is None, reason=reason, exit=ending.exit)
        elif record.event_type == EventType.ABORTED:
            end = DagmanEnd(at=record.at, is_removed=True, reason=parse_reason(record.body))
        elif record.event_type == EventType.EXECUTE:
            end = None
    return end
