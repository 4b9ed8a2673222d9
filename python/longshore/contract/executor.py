"""What the engine drives: a manager of single jobs.

An executor takes batches, says what became of their members, and cancels. It never decides what runs next, and it never
turns "no answer" into "job failed". Words for its answers:

* **taken** `Accepted`, **refused for good** `Refused`, **not now** `Throttled` (costs no attempt), **perhaps** `Unsure`
  (the engine looks the batch's tag up with `find` and never submits blindly again).
* An answer to `poll` names members by (job, attempt). Silence about a member means that nothing is new.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from longshore.contract.context import Context, PingReport, RenderedFile, RunPaths, Unreachable
from longshore.model.event import Ended, Lost, Started
from longshore.model.request import Request
from longshore.model.rules import Keep
from longshore.model.task import Command, Scalar

Mark: TypeAlias = str
"""How far an executor or service has been read; opaque to all but itself, and empty for the beginning."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How a guest behaves at a workload manager."""

    max_batch: int = 1
    """Members of one batch (an array's size)."""
    submit_per_s: float | None = None
    """Batches per second."""
    poll_floor_s: float = 0.0
    """Least time between two polls, in seconds."""
    max_waiting: int | None = None
    """Members handed over and not yet running."""
    max_waiting_alike: int | None = None
    """The same, of those whose requests are much alike: equal when rounded up to four steps per octave."""
    max_active: int | None = None
    """Members handed over and not yet over."""
    look_ahead_s: float = 0.0
    """Seconds of work that the manager may be given beyond what there is room for: it starts such members itself, in
    order, as others of their lane end, so that no slot waits for the engine. See `Batch.lane`."""


class MemberLimits(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What an attempt may use before it is ended; ``None`` is no limit. A manager with limits of its own holds those.

    Attributes
    ----------
    memory_b, asked_b
        Bytes it may use, and bytes it asked for: the one may lie beyond the other.
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
    keep_tmp: Keep = Keep.NONE


class Member(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One attempt of one job in a batch."""

    job: int
    attempt: int
    name: str
    command: Command
    environment: Mapping[str, str]
    working_directory: str
    log: str
    """Path of its log, relative to the run directory."""
    shared: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Values of `environment` that many attempts have alike; the same object every time, so it need be sent once."""
    limits: MemberLimits | None = None


class Urgency(msgspec.Struct, frozen=True, kw_only=True):
    """How much a run waits for some of its jobs.

    Attributes
    ----------
    pressure_s
        Expected seconds of the longest chain of jobs that begins with the most urgent of them, its own included.
    end_at
        When the run is expected to be over, in seconds since the epoch.
    """

    pressure_s: float
    end_at: float


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Attempts with one and the same request, handed over together."""

    id: str
    tag: str
    """Unique among all batches of all runs; how a batch is found again when its submission's answer was lost."""
    request: Request
    members: tuple[Member, ...]
    lane: str | None = None
    """Members of all batches of one lane have equal requests, and start in order as there are slots; ``None``: each
    starts at once."""
    slots: int = 0
    """How many members of the lane may run at once, those of earlier batches included, from here on."""
    attributes: Mapping[str, Scalar] = msgspec.field(default_factory=dict)
    """Attributes that all services may know, such as ``queue``; see `longshore.model.job.JobSettings`."""
    settings: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """The service's own map as far as these jobs have one: it wins over that of the site."""
    urgency: Urgency | None = None
    """Where the manager may be told which jobs go first."""


class Accepted(msgspec.Struct, frozen=True):
    """The batch is taken."""

    id: str


class Refused(msgspec.Struct, frozen=True):
    """The batch was not taken and will not be."""

    why: str
    for_all: bool = False
    """Whether the run is to be given up for it: what is not over yet is cancelled."""
    hopeless: bool = False
    """Whether the same would be refused again: its jobs are not tried again."""


class Throttled(msgspec.Struct, frozen=True):
    """The batch was not taken; ask again later."""

    why: str
    retry_after_s: float


class Unsure(msgspec.Struct, frozen=True):
    """Nobody can say whether the batch was taken."""

    why: str


SubmitAnswer: TypeAlias = Accepted | Refused | Throttled | Unsure
MemberEvent: TypeAlias = Started | Ended | Lost


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Why the manager does not start what it has.

    Attributes
    ----------
    reasons
        Jobs per reason, in the manager's own words.
    held
        Those of the reasons that only a person takes away.
    hint
        How a person does that.
    """

    reasons: Mapping[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    held: frozenset[str] = frozenset()
    hint: str = ""


class Polled(msgspec.Struct, frozen=True, kw_only=True):
    """What is new since a mark.

    Attributes
    ----------
    events
        Starts and ends.
    never
        Members (job, attempt) that were taken, never started, and never will be: they cost no attempt. Each is told
        once: an attempt of the same number that is handed over later is another.
    again
        Tags of batches to look up with `find` once more, because members of theirs were not started after all.
    busy
        Why nothing can be started for now, if that is so.
    note
        What people should know for as long as it is told, such as that the manager does not answer.
    waiting
        Why members wait that were handed over; ``None`` where nothing is new about that.
    """

    events: Sequence[MemberEvent]
    mark: Mark
    never: Sequence[tuple[int, int]] = ()
    again: frozenset[str] = frozenset()
    busy: Throttled | None = None
    note: str = ""
    waiting: Waiting | None = None


class Found(msgspec.Struct, frozen=True):
    """What became of batches that were looked up by tag."""

    taken: Mapping[str, frozenset[tuple[int, int]]]
    """Per tag, the members (job, attempt) that reached the manager. A tag or member that is absent never did, and never
    will: an executor that cannot be certain of that answers `Unreachable`."""
    late: Mapping[str, Refused | Throttled] = msgspec.field(default_factory=dict)
    """Per tag of a batch that was not taken, what the manager said of it after `submit` had answered `Unsure`; it
    counts as if it had been said then."""


class CancelOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a cancellation achieved."""

    ended: int
    """Attempts that were running or waiting and are gone."""
    alive: tuple[str, ...] = ()
    """What is still there, in words a user can act on."""


class Executor(ABC):
    """The manager of single jobs under an engine."""

    limits: Limits = Limits()

    @abstractmethod
    def open(self, run: RunPaths, life: int) -> None:
        """Get ready to serve one life of a run's engine; called once, before anything else."""

    @abstractmethod
    def script(self, batch: Batch, ctx: Context) -> RenderedFile | None:
        """Return what is handed over for a batch (pure), or ``None`` where nothing has to be written."""

    def most_in_batch(self, own: Mapping[str, Any]) -> int:
        """Return how many members a batch of jobs may have whose `Batch.settings` are these."""
        return self.limits.max_batch

    @abstractmethod
    def submit(self, batch: Batch) -> SubmitAnswer:
        """Hand a batch over."""

    @abstractmethod
    def find(self, tags: Iterable[str]) -> Found | Unreachable:
        """Look batches up whose submission was never answered."""

    @abstractmethod
    def poll(self, since: Mark) -> Polled | Unreachable:
        """Return all that is new since a mark, for the whole run, in one call."""

    @abstractmethod
    def cancel(self, attempts: Iterable[tuple[int, int]], *, grace_s: float) -> CancelOutcome:
        """End attempts (job, attempt): TERM, then KILL after the grace. `poll` tells their ends; twice is no error."""

    def openings(self) -> int | None:
        """Return how many batches may be handed over at this moment; ``None`` for any number."""
        return None

    def reprioritise(  # noqa: B027 - a manager that knows no order has nothing to change
        self, urgencies: Mapping[str, Urgency]
    ) -> None:
        """Have waiting batches, by their tags, started in another order; nothing hangs on its success."""

    def settled(  # noqa: B027 - an executor that keeps nothing has nothing to do
        self, attempts: Iterable[tuple[int, int]]
    ) -> None:
        """Take note that the ends of these attempts are durable: what was kept only to tell them again may go."""

    def sweep(self) -> CancelOutcome:
        """End what jobs of a cancelled run left behind, where the manager does not see to that itself."""
        return CancelOutcome(ended=0)

    def elsewhere(self, run: RunPaths) -> str:
        """Return what of a run may live on a host that cannot be seen from here, in words; empty where all is seen."""
        return ""

    @abstractmethod
    def probe(self) -> PingReport:
        """Return whether jobs can be handed over, and what the manager has."""

    @abstractmethod
    def wait(self, timeout_s: float) -> None:
        """Return when something may be new, or after `timeout_s` seconds."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything held for the engine; jobs that run go on."""
