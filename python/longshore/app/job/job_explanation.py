"""Records that explain the state of one job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from longshore.app.job.asked_resources import AskedResources
from longshore.app.job.limits_held import LimitUsage
from longshore.app.job.request_text import RetryBudget
from longshore.model.run.attempt import Attempt
from longshore.model.run.event import Deleted, Event, Failed, Steer
from longshore.model.run.report import TextPrinter
from longshore.model.run.states import JobState
from longshore.model.workflow.request import Request


class RelatedJob(msgspec.Struct, frozen=True, kw_only=True):
    """Related job, with its newest attempt and that attempt's log, if any and relevant."""

    name: str
    state: JobState
    attempt: Attempt | None = None
    log: str | None = None


class PoolUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Free resources of this machine's pool.

    `capacity` and `free` are amounts per resource, `requested` is the job's request, `active` counts
    dispatched jobs that are not over.
    """

    capacity: Mapping[str, int]
    free: Mapping[str, int]
    requested: Mapping[str, int]
    active: int

    @property
    def fits(self) -> bool:
        """Whether the job could start now."""
        return all(amount <= self.free[name] for name, amount in self.requested.items())


class BlockingGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Group of jobs that an ordering puts before this one.

    `title` is its display name. With `must_succeed` all its jobs must succeed, else they only must be over;
    `unfinished` counts those that have not yet done so.
    """

    title: str
    must_succeed: bool
    unfinished: int


class ThrottleUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Throttle: how many jobs may be active at once.

    `label` is ``None`` for the whole run. `active` is the number at the engine's last report.
    """

    label: str | None
    maximum: int
    active: int


class JobExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """Explanation of a job.

    `parents` is their number; `waits_for` are those that have not succeeded, `blocking_groups` block it.
    `causes` are the jobs at the root: what it waits for, or whose failure or cancellation pruned it. `request` is
    that of the newest attempt, or of the next one; `asked` is what that means in the workload manager's own words, if
    it has any. `attempts` are sorted, oldest first; `logs` are paths per attempt number; `events` are those of the job.

    `retries` is the largest number of attempts after the first, of which `used_retries` are spent; `retry_budgets`
    are those of ends with a budget of their own. `not_before` is the earliest time of the next attempt. `note` says
    why the engine waits. `counts` are jobs per state, `throttles` bound similar jobs, both at the engine's last
    report. `is_engine_alive` is ``None`` if that is unknown; `stopped_at` is a dead engine's last sign of life.
    `limits` are given while the job is ready. `manager_reason` is the workload manager's own reason. `pause` says
    why the run is paused, and is empty if it is not.

    `as_of` is the time of the explanation. `reasons` are the reasons for the state, a sentence each, the most important
    first. `text` is the whole explanation as ``longshore explain`` prints it; ``print`` and notebooks show it.
    """

    as_of: float
    run: str
    name: str
    index: int
    label: str
    state: JobState
    is_undecided: bool
    is_final: bool
    parents: int
    waits_for: tuple[RelatedJob, ...]
    causes: tuple[RelatedJob, ...]
    request: Request
    attempts: tuple[Attempt, ...]
    logs: Mapping[int, str]
    events: tuple[tuple[str, Event], ...]
    retries: int
    retry_unless_exit: tuple[int, ...]
    used_retries: int
    not_before: float | None
    note: str
    counts: Mapping[JobState, int] = msgspec.field(default_factory=dict)
    room: PoolUsage | None = None
    throttles: tuple[ThrottleUsage, ...] = ()
    is_engine_alive: bool | None = None
    stopped_at: float | None = None
    is_run_finished: bool = False
    manager_reason: str = ""
    blocking_groups: tuple[BlockingGroup, ...] = ()
    limits: tuple[LimitUsage, ...] = ()
    pause: str = ""
    asked: AskedResources | None = None
    retry_budgets: tuple[RetryBudget, ...] = ()
    reasons: Sequence[str] = ()
    text: str = ""

    def __str__(self) -> str:
        """Return the text."""
        return self.text

    def _repr_pretty_(self, printer: TextPrinter, *_: object) -> None:
        printer.text(self.text)

    @property
    def why_failed(self) -> str | None:
        """Why no attempt was left."""
        reasons = [event.why for _, event in self.events if isinstance(event, Failed)]
        return reasons[-1] if reasons and self.state is JobState.FAILED else None

    @property
    def cancelled_by(self) -> Steer | None:
        """Newest cancel intervention that selected the job."""
        return self._newest_intervention("cancel")

    @property
    def removed_why(self) -> str:
        """What the workload manager says of the removal that deleted the job; empty if an order did."""
        found = [event.why for _, event in self.events if isinstance(event, Deleted)]
        return found[-1] if found and self.state is JobState.DELETED else ""

    @property
    def held_by(self) -> Steer | None:
        """Newest hold intervention that selected the job."""
        return self._newest_intervention("hold")

    def _newest_intervention(self, act: str) -> Steer | None:
        orders = [event for _, event in self.events if isinstance(event, Steer) and event.act == act]
        return orders[-1] if orders else None
