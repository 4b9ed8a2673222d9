"""What the engine hands to an executor, and how an executor answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from longshore.contract.context import Mark
from longshore.model.run.event import Ended, Lost, Started
from longshore.model.tasks.task import Command, Scalar
from longshore.model.workflow.attempt_rules import KeepPolicy
from longshore.model.workflow.request import Request

AttemptId: TypeAlias = tuple[int, int]
"""Index of a job in ``workflow.jsonl``, from 0, and number of its attempt, from 1."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much the engine asks of a workload manager."""

    max_batch: int = 1
    """Members of one batch (the size of an array)."""
    submit_per_s: float | None = None
    """Batches per second."""
    poll_floor_s: float = 0.0
    """Least time between two polls, in seconds."""
    max_waiting: int | None = None
    """Members submitted and not yet running."""
    max_waiting_alike: int | None = None
    """The same, of those with similar requests: equal when rounded up to four steps per octave."""
    max_active: int | None = None
    """Members submitted and not yet over."""
    look_ahead_s: float = 0.0
    """Seconds of work that may be submitted beyond the room there is. The executor starts such members in order, as
    others of their lane end, so that no slot waits for the engine. See `Batch.lane`."""


class AttemptLimits(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What an attempt may use before it is ended; ``None`` is no limit. A workload manager may enforce its own instead.

    Attributes
    ----------
    memory_b, asked_b
        Bytes it may use, and bytes it requested, which may be fewer.
    walltime_s
        Seconds it may run.
    log_b
        Bytes its log may have.
    keep_tmp
        Whether its temporary directory is kept.
    """

    memory_b: int | None = None
    asked_b: int | None = None
    walltime_s: float | None = None
    log_b: int | None = None
    keep_tmp: KeepPolicy = KeepPolicy.NONE


class BatchMember(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One attempt of one job in a batch."""

    job: int
    attempt: int
    name: str
    command: Command
    """A line for ``/bin/sh``, or the words of a command that are passed on exactly."""
    environment: Mapping[str, str]
    working_directory: str
    log: str
    """Path of its log, relative to the run directory. Output and errors go there."""
    shared: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Values of `environment` that many attempts have in common; the same object each time, so it can be sent once."""
    limits: AttemptLimits | None = None


class Urgency(msgspec.Struct, frozen=True, kw_only=True):
    """How much a run waits for some of its jobs.

    Attributes
    ----------
    pressure_s
        Expected seconds of the longest chain of jobs that begins with the most urgent of them.
    end_at
        When the run is expected to end, in seconds since the epoch.
    """

    pressure_s: float
    end_at: float


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Attempts with one request that are submitted together."""

    id: str
    tag: str
    """Unique among all batches of all runs; by it a batch is found again whose submission was not answered."""
    request: Request
    members: tuple[BatchMember, ...]
    lane: str | None = None
    """Members of all batches of one lane have equal requests and start in order as slots become free; ``None``: each
    starts at once."""
    slots: int = 0
    """How many members of the lane may run at once from now on, earlier batches included."""
    attributes: Mapping[str, Scalar] = msgspec.field(default_factory=dict)
    """Attributes that all services may know, such as ``queue``; see `longshore.model.workflow.job.JobSettings`."""
    settings: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """The service's own map as these jobs have it; wins over the site's."""
    urgency: Urgency | None = None
    """For a workload manager with priorities."""


class Accepted(msgspec.Struct, frozen=True):
    """The batch was taken."""

    id: str
    """The workload manager's id of the batch, for users."""


class Rejected(msgspec.Struct, frozen=True):
    """The batch was not taken and will not be."""

    why: str
    for_all: bool = False
    """Whether the run is given up for it: all jobs that are not over are cancelled."""
    hopeless: bool = False
    """Whether the same batch would be rejected again: its jobs are not retried."""


class Throttled(msgspec.Struct, frozen=True):
    """The batch was not taken for now; costs no attempt."""

    why: str
    retry_after_s: float


class Unsure(msgspec.Struct, frozen=True):
    """Whether the batch was taken is unknown. The engine looks its tag up and never submits it blindly again."""

    why: str


SubmitResult: TypeAlias = Accepted | Rejected | Throttled | Unsure
MemberEvent: TypeAlias = Started | Ended | Lost


class WaitReasons(msgspec.Struct, frozen=True, kw_only=True):
    """Why the workload manager does not start what it has.

    Attributes
    ----------
    reasons
        Indices of jobs per reason, in the workload manager's own words.
    held
        Those of the reasons that last until a person acts.
    hint
        How a person does that.
    """

    reasons: Mapping[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    held: frozenset[str] = frozenset()
    hint: str = ""


class PollResult(msgspec.Struct, frozen=True, kw_only=True):
    """What is new since a mark. A member that is not named has no news.

    Attributes
    ----------
    events
        Starts and ends, each told once, a start before its end.
    mark
        What the next poll continues from.
    never_started
        Members that were taken and will never start: they cost no attempt. Told once.
    recheck
        Tags of batches to look up with `Executor.find` again, because members of theirs did not start after all.
    busy
        Why nothing can be started for now.
    note
        What users should know as long as it is told, such as that the workload manager does not answer.
    waiting
        Why submitted members wait; ``None`` if that has not changed.
    """

    events: Sequence[MemberEvent]
    mark: Mark
    never_started: Sequence[AttemptId] = ()
    recheck: frozenset[str] = frozenset()
    busy: Throttled | None = None
    note: str = ""
    waiting: WaitReasons | None = None


class FindResult(msgspec.Struct, frozen=True):
    """Which of the batches that were looked up by tag were taken.

    Attributes
    ----------
    taken
        Per tag, the members that the workload manager has or had. A tag or member that is missing was not taken and
        never will be; an executor that is not certain answers `Unreachable`.
    late
        Per tag of a batch that was not taken, the answer that came after `Executor.submit` had returned `Unsure`.
    """

    taken: Mapping[str, frozenset[AttemptId]]
    late: Mapping[str, Rejected | Throttled] = msgspec.field(default_factory=dict)
