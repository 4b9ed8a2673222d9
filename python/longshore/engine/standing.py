"""Turns the state of a run into the snapshot that others read of it; pure."""

from __future__ import annotations

from collections.abc import Sequence

from longshore.engine.fold import RunState, shown_counts
from longshore.model.event import Life
from longshore.model.snapshot import Snapshot
from longshore.model.state import JobState


def snapshot_of(state: RunState, labels: Sequence[str], *, life: Life, number: int, now: float, note: str) -> Snapshot:
    """Where a run stands.

    Parameters
    ----------
    state
        The state.
    labels
        Names of the labels.
    life
        The engine's life.
    number
        Number of the newest event that the state has taken in.
    now
        This moment, in seconds since the epoch.
    note
        Why the engine waits, if it does.
    """
    overall = state.overall()
    if not state.finished and overall not in (JobState.UNKNOWN, JobState.HELD):
        overall = JobState.RUNNING
    return Snapshot(
        life=life.life,
        n=number,
        at=now,
        pid=life.pid,
        host=life.host,
        boot=life.boot,
        state=overall,
        counts=state.totals(),
        labels={label: shown_counts(row) for label, row in zip(labels, state.counts, strict=True)},
        finished=state.finished is not None,
        note=note,
    )
