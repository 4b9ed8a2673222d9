"""``status.json``: where a run stood when its engine last looked up."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from longshore.model.run.state import JobState


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The newest state an engine wrote down; the journal alone is the truth.

    Attributes
    ----------
    life, n
        The last event it knows of: life of the engine, and number in that life.
    at
        Seconds since the epoch (UTC) on the engine's clock.
    pid, host, boot
        The engine's process.
    counts, labels
        Number of jobs per state, in all and per label.
    finished
        Whether nothing of the run can move any more.
    note
        Why the engine waits, if it does.
    """

    life: int
    n: int
    at: float
    pid: int
    host: str
    boot: str
    state: JobState
    counts: Mapping[JobState, int]
    labels: Mapping[str, Mapping[JobState, int]]
    finished: bool = False
    note: str = ""
