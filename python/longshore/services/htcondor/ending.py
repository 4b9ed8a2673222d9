"""Turns the log of DAGMan's own job into how that ended."""

from __future__ import annotations

from pathlib import Path

import msgspec

from longshore.services.htcondor.codes import Kind
from longshore.services.htcondor.eventlog import EventLog
from longshore.services.htcondor.parse import terminated


class End(msgspec.Struct, frozen=True, kw_only=True):
    """DAGMan is over.

    Attributes
    ----------
    at
        When.
    removed
        Whether somebody removed it, or it is gone without a word.
    """

    at: float
    removed: bool


def last_word(path: Path, cluster: int) -> End | None:
    """How DAGMan's own job ended, as its log tells."""
    end: End | None = None
    for record in EventLog(path).read():
        if record.cluster != cluster:
            continue
        if record.kind == Kind.TERMINATED:
            ending = terminated(record.body)
            end = End(at=record.at, removed=ending.exit is None)
        elif record.kind == Kind.ABORTED:
            end = End(at=record.at, removed=True)
        elif record.kind == Kind.EXECUTE:
            end = None
    return end
