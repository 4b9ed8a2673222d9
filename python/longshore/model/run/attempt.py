"""An attempt, one execution of a job, in one form for all services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from longshore.model.run.event import OutputFinding, StagedFiles
from longshore.model.run.states import Cause, JobState
from longshore.model.workflow.request import Request


class AttemptMeasures(msgspec.Struct, frozen=True, gc=False):
    """Identity and measures of an attempt; its fields have the names of `Attempt`.

    It is made in a quarter of the time, and takes half of the memory.
    """

    job: int
    number: int
    wms_id: str | None
    host: str | None
    requested: Request | None
    submitted_at: float | None
    started_at: float | None
    ended_at: float | None
    wait_s: float | None
    run_s: float | None
    cpu_s: float | None
    peak_memory_b: int | None
    exit_code: int | None
    cause: Cause | None

    @property
    def is_success(self) -> bool:
        """Whether it ended without a cause of failure."""
        return self.cause is None and self.ended_at is not None


class Attempt(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One execution of a job; ``None`` means unknown.

    Times are seconds since the epoch (UTC) on the clock named by `clock`; durations are measured on one clock and never
    subtract the clocks of two hosts.
    """

    job: int
    """Index of the job in ``workflow.jsonl``."""
    number: int
    """Counted from 1."""
    wms_id: str | None = None
    """The workload manager's id of it."""
    host: str | None = None
    requested: Request | None = None
    granted: Request | None = None
    submitted_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    clock: Literal["engine", "host", "scheduler"] = "engine"
    queue_s: float | None = None
    """Seconds in the queue, on the workload manager's clock."""
    seen_wait_s: float | None = None
    """Seconds from the submission to the news of the start, on the engine's clock."""
    run_s: float | None = None
    cpu_s: float | None = None
    peak_memory_b: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    cause: Cause | None = None
    """Why it failed; ``None`` for a success, and while it runs."""
    reason: str | None = None
    """The cause as text."""
    log: str | None = None
    """Path of its log, relative to the run directory."""
    outputs: tuple[OutputFinding, ...] = ()
    """Declared outputs that are missing, stale or empty."""
    staged: StagedFiles | None = None
    """Transfers of its files; ``None`` if it was not staged."""
    extra: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Fields specific to the scheduler."""
    is_abandoned: bool = False
    """Whether nothing drives its run any more, so that its end may never become known."""

    @property
    def measures(self) -> AttemptMeasures:
        """Identity and measures of this attempt."""
        return AttemptMeasures(*[getattr(self, name) for name in AttemptMeasures.__struct_fields__])

    @property
    def wait_s(self) -> float | None:
        """Seconds from its submission to its start: the workload manager's figure, else what the engine saw."""
        return self.seen_wait_s if self.queue_s is None else self.queue_s

    @property
    def is_success(self) -> bool:
        """Whether it ended without a cause of failure."""
        return self.cause is None and self.ended_at is not None

    @property
    def state(self) -> JobState:
        """SUCCEEDED, FAILED, DELETED, RUNNING or PENDING; UNKNOWN if it was abandoned without an end."""
        if self.ended_at is None:
            if self.is_abandoned:
                return JobState.UNKNOWN
            return JobState.PENDING if self.started_at is None else JobState.RUNNING
        if self.is_success:
            return JobState.SUCCEEDED
        return JobState.DELETED if self.cause is Cause.CANCELLED else JobState.FAILED
