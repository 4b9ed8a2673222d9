"""Converts the state of a run into the snapshot that other processes read; pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from longshore.engine.state.job_codes import UNBLOCKED, JobCode, count_states
from longshore.engine.state.run_state import RunState
from longshore.model.event import Life
from longshore.model.report import Snapshot
from longshore.model.states import JobState


def make_snapshot(
    state: RunState,
    labels: Sequence[str],
    *,
    life: Life,
    number: int,
    now: float,
    note: str,
    held: Collection[int] = (),
) -> Snapshot:
    """Return the snapshot of a run.

    Parameters
    ----------
    number
        Number of the newest event that the state has applied.
    now
        This moment, in seconds since the epoch.
    note
        Why the engine waits; empty if it does not.
    held
        Jobs at the workload manager that only a person can release.
    """
    overall = state.compute_state()
    rows = [count_states(row) for row in state.counts]
    count_held(rows, state, held)
    if held and is_stuck(state, held):
        overall = JobState.HELD
    if not state.finish_event and overall not in (JobState.UNKNOWN, JobState.HELD):
        overall = JobState.RUNNING
    return Snapshot(
        life=life.life,
        n=number,
        at=now,
        pid=life.pid,
        host=life.host,
        boot=life.boot,
        state=overall,
        counts={name: sum(row[name] for row in rows) for name in JobState},
        labels=dict(zip(labels, rows, strict=True)),
        finished=state.finish_event is not None,
        note=note,
    )


def count_held(rows: Sequence[dict[JobState, int]], state: RunState, held: Collection[int]) -> None:
    """Count jobs that the workload manager holds as held, per label."""
    for job in held:
        is_requeued = state.code[job] == JobCode.RUNNING
        rows[state.labels[job]][JobState.RUNNING if is_requeued else JobState.PENDING] -= 1
        rows[state.labels[job]][JobState.HELD] += 1


def is_stuck(state: RunState, held: Collection[int]) -> bool:
    """Return whether nothing of a run moves until a person releases the jobs that the workload manager holds."""
    return (
        bool(held)
        and not state.is_cancelled
        and sum(row[code] for row in state.counts for code in UNBLOCKED) == len(held)
    )
