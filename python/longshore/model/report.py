"""The state of a run, summed up once, for every way of showing it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from longshore.model.state import Cause, JobState


class JobReport(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one job; times are seconds since the epoch (UTC), ``None`` is unknown or not yet."""

    name: str
    label: str
    state: JobState
    cause: Cause | None = None
    reason: str | None = None
    attempts: int = 0
    exit_code: int | None = None
    signal: int | None = None
    host: str | None = None
    started_at: float | None = None
    finished_at: float | None = None
    run_s: float | None = None
    cpu_s: float | None = None
    peak_memory_b: int | None = None
    log: str | None = None
    """Path of the newest attempt's log."""


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one run."""

    id: str
    name: str
    path: str
    service: str
    state: JobState
    expected: int
    counts: Mapping[JobState, int]
    """Number of jobs per state; adds up to `expected`, or the state is UNKNOWN and `notes` says why."""
    labels: Mapping[str, Mapping[JobState, int]]
    """The same per label, in the order of the pipeline."""
    operator: str = ""
    project: str = ""
    campaign: str = ""
    payload: str = ""
    site: str = ""
    user: str = ""
    submitted_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    notes: tuple[str, ...] = ()
    """What a reader must know, such as that the engine is not running."""
    jobs: tuple[JobReport, ...] | None = None
    """Every job, where details were asked for."""

    @property
    def percent_succeeded(self) -> int | None:
        """Whole percent of jobs that succeeded, rounded down as BPS does; ``None`` for a run without jobs."""
        return 100 * self.counts.get(JobState.SUCCEEDED, 0) // self.expected if self.expected else None
