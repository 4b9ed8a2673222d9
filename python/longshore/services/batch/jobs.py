"""Jobs of a workload manager as the kit knows them: ids, states, rows of the queue and of accounting."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

import msgspec

from longshore.model.states import Cause


class TaskId(msgspec.Struct, frozen=True):
    """The workload manager's id of an attempt: job id, and position in its array from 0; ``None`` for a single job."""

    job: int
    index: int | None = None

    @classmethod
    def from_text(cls, text: str) -> TaskId:
        """Return the id that `str` wrote."""
        job, _, index = text.partition("_")
        return cls(int(job), int(index) if index else None)

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

    `waiting` and `running` are the states of jobs that are not over. `causes` has the cause of failure per final state,
    ``None`` for a success. `ordinary` are final states that say no more than the exit status. `suspended` are the
    states of waiting in which a job that began is still there. `held_reasons` are the reasons of waiting that only a
    person can clear. `hopeless_reasons` are those that waiting never clears, each with the change that mends it.
    """

    waiting: tuple[str, ...]
    running: tuple[str, ...]
    causes: Mapping[str, Cause | None]
    ordinary: frozenset[str] = frozenset()
    suspended: frozenset[str] = frozenset()
    held_reasons: frozenset[str] = frozenset()
    hopeless_reasons: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def phases(self) -> dict[str, QueuePhase]:
        """Phase per state, in the order of the table."""
        return {state: self.phase(state) for state in (*self.waiting, *self.running, *self.causes)}

    def phase(self, state: str) -> QueuePhase:
        """Return the phase of a state."""
        if state in self.waiting:
            return QueuePhase.WAITING
        if state in self.running:
            return QueuePhase.RUNNING
        return QueuePhase.OVER if state in self.causes else QueuePhase.UNKNOWN

    def cause(self, state: str) -> Cause | None:
        """Return the cause of failure that a final state means; ``None`` for a success, or without a state."""
        return self.causes.get(state, Cause.EXIT) if state else None

    @property
    def cancelled(self) -> str:
        """The workload manager's word for a cancelled job; empty if it has none."""
        return next((state for state, cause in self.causes.items() if cause is Cause.CANCELLED), "")

    def mend(self, reason: str) -> str:
        """Return the change that lets a job start which waits for a reason; empty if it may start as it is."""
        # A reason may have details behind a comma: "ReqNodeNotAvail, UnavailableNodes:n3".
        return self.hopeless_reasons.get(reason) or self.hopeless_reasons.get(reason.partition(",")[0].strip(), "")


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
    removed_by: int | None = None
    """Number of the user who removed it, where that is known."""
    exit: int | None
    """Exit code; ``None`` where the scheduler does not tell it."""
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

    def ran_within(self, other: AccountRow) -> bool:
        """Whether it ran while another one did, and shorter; false where a time is unknown."""
        times = (self.started_at, self.ended_at, other.started_at, other.ended_at)
        if None in times:
            return False
        began, ended, first, last = (at or 0.0 for at in times)
        return first <= began <= ended <= last and ended - began < last - first


_Row = TypeVar("_Row", QueueRow, AccountRow)


def find_row(rows: Mapping[TaskId, _Row], task: TaskId, states: StateTable) -> _Row | None:
    """Return the row of a task that never started: its own, else that of its array once that is over.

    A workload manager may fold members that were cancelled before their start into one row of the array.
    """
    own = rows.get(task)
    if own is not None or task.index is None:
        return own
    whole = rows.get(TaskId(task.job))
    return whole if whole is not None and states.phase(whole.state) is QueuePhase.OVER else None


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a cluster from its controller; ``None`` and empty for what it does not say."""

    version: str = ""
    name: str = ""
    max_array: int | None = None
    """Most members of an array."""
    max_jobs: int | None = None
    max_user_jobs: int | None = None
    min_job_age_s: float | None = None
    """Seconds for which the controller remembers jobs that are over."""
    accounting: bool = False
    """Whether accounting is asked (`Dialect.accounting_calls`)."""
    enforced: tuple[str, ...] = ()
    """What it enforces of its accounts, such as ``limits``; empty where it does not."""
    priority_parameters: str = ""
    licences: tuple[str, ...] = ()
    gres: tuple[str, ...] = ()
    byte_resources: tuple[str, ...] = ()
    """Resources whose plain numbers are bytes."""
