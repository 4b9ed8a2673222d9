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
from typing import TypeAlias

import msgspec

from longshore.contract.context import Context, PingReport, RenderedFile, RunPaths, Unreachable
from longshore.model.event import Ended, Lost, Started
from longshore.model.request import Request
from longshore.model.task import Command

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
    max_active: int | None = None
    """Members handed over and not yet over."""


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


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Attempts with one and the same request, handed over together."""

    id: str
    tag: str
    """Unique among all batches of all runs; how a batch is found again when its submission's answer was lost."""
    request: Request
    members: tuple[Member, ...]
    attributes: Mapping[str, str | int | float | bool] = msgspec.field(default_factory=dict)


class Accepted(msgspec.Struct, frozen=True):
    """The batch is taken."""

    id: str


class Refused(msgspec.Struct, frozen=True):
    """The batch was not taken and will not be."""

    why: str


class Throttled(msgspec.Struct, frozen=True):
    """The batch was not taken; ask again later."""

    why: str
    retry_after_s: float


class Unsure(msgspec.Struct, frozen=True):
    """Nobody can say whether the batch was taken."""

    why: str


SubmitAnswer: TypeAlias = Accepted | Refused | Throttled | Unsure
MemberEvent: TypeAlias = Started | Ended | Lost


class Polled(msgspec.Struct, frozen=True, kw_only=True):
    """What is new since a mark.

    Attributes
    ----------
    events
        Starts and ends.
    never
        Members (job, attempt) that were taken, never started, and never will be: they cost no attempt.
    """

    events: Sequence[MemberEvent]
    mark: Mark
    never: Sequence[tuple[int, int]] = ()


class Found(msgspec.Struct, frozen=True):
    """What became of batches that were looked up by tag."""

    taken: Mapping[str, frozenset[tuple[int, int]]]
    """Per tag, the members (job, attempt) that reached the manager. A tag or member that is absent never did, and never
    will: an executor that cannot be certain of that answers `Unreachable`."""


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

    def sweep(self) -> CancelOutcome:
        """End what jobs of a cancelled run left behind, where the manager does not see to that itself."""
        return CancelOutcome(ended=0)

    @abstractmethod
    def probe(self) -> PingReport:
        """Return whether jobs can be handed over, and what the manager has."""

    @abstractmethod
    def wait(self, timeout_s: float) -> None:
        """Return when something may be new, or after `timeout_s` seconds."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything held for the engine; jobs that run go on."""
