"""Jobs of a workload manager as the kit knows them: ids, states, rows of the queue and of accounting."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from longshore.model.run.states import Cause


class TaskId(msgspec.Struct, frozen=True):
    """The workload manager's id of an attempt: job id and index in its array; ``None`` for a single job."""

    job: int
    index: int | None = None

    def __str__(self) -> str:
        return str(self.job) if self.index is None else f"{self.job}_{self.index}"


class QueuePhase(StrEnum):
    """Phase of an attempt by the workload manager's state."""

    WAITING = "waiting"
    RUNNING = "running"
    OVER = "over"
    UNKNOWN = "unknown"
    """An unknown state: shown, warned of, and queried again."""


class StateTable(msgspec.Struct, frozen=True, kw_only=True):
    """States of a workload manager, and what each means.

    `phases` has the phase per state; `causes` has the cause of failure per final state, ``None`` for a success.
    `ordinary` are final states that say no more than the exit status. `held_reasons` are the reasons of waiting that
    only a person can clear.
    """

    phases: Mapping[str, QueuePhase]
    causes: Mapping[str, Cause | None]
    ordinary: frozenset[str] = frozenset()
    held_reasons: frozenset[str] = frozenset()

    def phase(self, state: str) -> QueuePhase:
        """Return the phase of a state."""
        return self.phases.get(state, QueuePhase.UNKNOWN)

    def cause(self, state: str) -> Cause | None:
        """Return the cause of failure that a final state means; ``None`` for a success, or without a state."""
        return self.causes.get(state, Cause.EXIT) if state else None


class QueueRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One task of a job in the queue."""

    id: TaskId
    raw_id: str
    """The id in the workload manager's own messages: a task that has started may have an id of its own."""
    state: str
    reason: str
    """Why it waits; empty without a reason."""
    started_at: float | None
    node: str
    name: str


class AccountRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Accounting of one task, with the peak of its steps."""

    id: TaskId
    raw_id: str = ""
    state: str
    state_text: str
    """The state as written, such as ``CANCELLED by 1000``."""
    exit: int
    signal: int
    started_at: float | None = None
    ended_at: float | None = None
    run_s: float | None = None
    cpu_s: float | None = None
    peak_memory_b: int | None = None
    node: str = ""
    reason: str = ""
    queue_s: float | None = None
    """Seconds from submission to start, on the scheduler's clock."""
    gathered: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Fields that are stored as they are."""
    is_partial: bool = False
    """Whether accounting has the task's end but not yet its start."""


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a cluster from its controller; ``None`` and empty for what it does not say."""

    version: str = ""
    name: str = ""
    max_array: int | None = None
    """Most members of an array."""
    max_jobs: int | None = None
    min_job_age_s: float | None = None
    """Seconds for which the controller remembers jobs that are over."""
    accounting: bool = False
    priority_parameters: str = ""
    licences: tuple[str, ...] = ()
    gres: tuple[str, ...] = ()
