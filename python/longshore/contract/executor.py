"""An executor: six methods that submit single jobs, find, poll and cancel them; its batches; optional capabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from longshore.contract.service import CancelOutcome, Mark, PingReport, RunPaths, Unreachable
from longshore.model.event import AttemptFacts, Ended, Lost, Started
from longshore.model.tasks import Command, Scalar
from longshore.model.workflow import KeepPolicy, Request

# Reasons why submitted jobs wait, as an executor tells them and as readers of a run show them.


class WaitReasons(msgspec.Struct, frozen=True, kw_only=True):
    """Reasons why submitted jobs wait.

    Attributes
    ----------
    reasons
        Indices of jobs per reason, in the workload manager's own words.
    held
        Those of the reasons that last until a person acts.
    hint
        How a person does that.
    hopeless
        Those of the reasons for which no job ever starts as it is, each with the change that mends it, in words.
    requeued
        Indices of those jobs that wait again, after they had begun.
    """

    reasons: Mapping[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    held: frozenset[str] = frozenset()
    hint: str = ""
    hopeless: Mapping[str, str] = msgspec.field(default_factory=dict)
    requeued: frozenset[int] = frozenset()


# Batches that the engine submits to an executor, and the executor's answers: accepted, rejected, events, tags.


AttemptId: TypeAlias = tuple[int, int]
"""Index of a job in ``workflow.jsonl``, from 0, and number of its attempt, from 1."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on what the engine submits to a workload manager, and on its polls."""

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
    """Seconds of work that may be submitted beyond the free room. The executor starts such members in order, as
    others of their lane end, so that no slot waits for the engine. See `Batch.lane`."""


class AttemptLimits(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Limits at which an attempt is ended; ``None`` is no limit. A workload manager may enforce its own instead.

    Attributes
    ----------
    memory_b, asked_b
        Bytes it may use, and bytes it requested, which may be fewer.
    walltime_s
        Seconds it may run.
    log_b
        Bytes its log may have; 0 for no limit, ``None`` for the default of the service.
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
    """Path of its log for output and errors, relative to the run directory."""
    shared: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Values of `environment` that many attempts have in common; the same object each time, so it can be sent once."""
    limits: AttemptLimits | None = None
    outputs: tuple[str, ...] = ()
    """Absolute paths of its outputs, which are checked on its host before its end is recorded.

    The findings go into `longshore.model.event.Ended.outputs`, and all are reported, however the attempt ended.
    If none is missing, size and time of each go into `stamps`; without them, a later overwriting is not noticed.
    """
    units: Sequence[tuple[int, int, int]] = ()
    """Units that it holds while it runs: index of a resource, amount, and how many there are; see `UnitHolder`."""
    fresh_outputs: bool = False
    """Whether an output that is empty, or as it was before the attempt, makes it fail."""


class Urgency(msgspec.Struct, frozen=True, kw_only=True):
    """Priority of a batch among the jobs of all runs.

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
    """Unique among all batches of all runs. `Executor.find` looks up a submission without an answer by it."""
    request: Request
    members: tuple[BatchMember, ...]
    lane: str | None = None
    """Members of all batches of one lane have equal requests and start in order as slots become free; ``None``: each
    starts at once."""
    slots: int = 0
    """How many members of the lane may run at once from now on, earlier batches included."""
    attributes: Mapping[str, Scalar] = msgspec.field(default_factory=dict)
    """Attributes that all services may know, such as ``queue``; see `longshore.model.workflow.JobSettings`."""
    settings: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """The service's own map as these jobs have it; wins over the site's."""
    urgency: Urgency | None = None
    """For a workload manager with priorities."""


class Accepted(msgspec.Struct, frozen=True):
    """The workload manager has the batch."""

    id: str
    """The workload manager's id of the batch, for users; never empty. Without an id, an executor answers `Unsure`."""


class Rejected(msgspec.Struct, frozen=True):
    """The workload manager refused the batch."""

    why: str
    for_all: bool = False
    """Whether the run ends: all unfinished jobs are cancelled."""
    hopeless: bool = False
    """Whether the workload manager would reject the same batch again: its jobs are not retried."""


class Throttled(msgspec.Struct, frozen=True):
    """The workload manager refused the batch for now; no attempt is spent."""

    why: str
    retry_after_s: float
    alike: bool = False
    """Whether that holds for jobs with the same request and settings only: others are submitted meanwhile."""


class Unsure(msgspec.Struct, frozen=True):
    """Whether the workload manager has the batch is unknown. The engine looks its tag up before anything else."""

    why: str


SubmitResult: TypeAlias = Accepted | Rejected | Throttled | Unsure
MemberEvent: TypeAlias = Started | Ended | Lost


class PollResult(msgspec.Struct, frozen=True, kw_only=True):
    """Events since a mark. A member without an event has no news.

    Attributes
    ----------
    events
        Starts and ends, each reported once, a start before its end.
    mark
        Position from which the next poll continues.
    never_started
        Members that were accepted and will never start: no attempt is spent. Reported once.
    recheck
        Tags of batches to look up with `Executor.find`, because some of their members did not start after all.
    busy
        Why nothing can be submitted for now.
    note
        Note for users while it lasts, such as that the workload manager does not answer.
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
    """Batches that the workload manager has, by tag.

    Attributes
    ----------
    taken
        Per tag, the members that the workload manager has or had. A tag or member that is missing certainly never
        starts, unless the tag is in `lost`; an executor that does not know for now returns `Unreachable`.
    late
        Per tag of a refused batch, the answer that came after `Executor.submit` had returned `Unsure`.
    lost
        Tags of batches whose members may have run without a record that is left, as after a loss of power: those that
        `taken` lacks are lost.
    """

    taken: Mapping[str, frozenset[AttemptId]]
    late: Mapping[str, Rejected | Throttled] = msgspec.field(default_factory=dict)
    lost: frozenset[str] = frozenset()


# An executor submits batches, reports starts and ends of their members, and cancels. It never decides what runs next.
# No answer never means that a job failed: the executor returns `Unreachable`, and the engine calls again.


class Executor(ABC):
    """Submits single jobs for the engine. The engine calls it from one thread.

    Attributes
    ----------
    limits
        What the engine keeps to; read before each round of submissions.
    """

    limits: Limits = Limits()

    @abstractmethod
    def open(self, run: RunPaths, life: int) -> None:
        """Get ready for one life of a run's engine; called once, before all else but `ResourceProbe.probe`.

        Parameters
        ----------
        run
            The run directory, where an executor may keep files below ``batches/``.
        life
            Number of the life, from 1. Jobs of earlier lives may still run: `poll` reports their ends too.
        """

    @abstractmethod
    def submit(self, batch: Batch) -> SubmitResult:
        """Submit a batch. A failure is an answer, not an exception."""

    @abstractmethod
    def find(self, tags: Iterable[str]) -> FindResult | Unreachable:
        """Look up batches whose submission was not answered, by their tags.

        A batch that is missing in the answer is certainly not there: the engine submits its jobs again.
        """

    @abstractmethod
    def poll(self, since: Mark) -> PollResult | Unreachable:
        """Return the new events of the run, from one query. The first poll of a life has an empty mark."""

    @abstractmethod
    def cancel(self, attempts: Iterable[AttemptId], *, grace_s: float) -> CancelOutcome:
        """End attempts; `poll` reports their ends. A second call is no error.

        Parameters
        ----------
        attempts
            Those to end; attempts that are over or unknown are ignored.
        grace_s
            Seconds between TERM and KILL.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the resources of this life; running jobs go on."""


class ResourceProbe(ABC):
    """Knows the resources of the workload manager. Without it, the engine keeps to `Executor.limits` alone."""

    @abstractmethod
    def probe(self) -> PingReport:
        """Return whether jobs can be submitted, and how much of each resource there is; may be called before `open`."""


class NewsWait(ABC):
    """Waits for news. Without it, the engine sleeps between polls."""

    @abstractmethod
    def wait(self, timeout_s: float) -> None:
        """Return when something may be new, or after ``timeout_s`` seconds."""


class SubmitWindow(ABC):
    """Takes only so many batches at a time."""

    @abstractmethod
    def free_submissions(self) -> int | None:
        """Return how many batches may be submitted now; ``None`` for any number."""


class BatchSizing(ABC):
    """Takes batches of some jobs only up to a size below `Limits.max_batch`."""

    @abstractmethod
    def max_batch_for(self, settings: Mapping[str, Any]) -> int:
        """Return how many members a batch with these `Batch.settings` may have, from 1."""


class JobPacking(ABC):
    """Runs some jobs in allocations of its own. Those jobs do not count for `Executor.limits`: the allocations do.

    Attributes
    ----------
    packed_limits
        Limits on the jobs that run in allocations. `SubmitWindow` and `BatchSizing` are about the others.
    """

    packed_limits: Limits

    @abstractmethod
    def packs(self, attributes: Mapping[str, Scalar], settings: Mapping[str, Any], request: Request) -> bool:
        """Return whether jobs run in allocations whose batches have these values; the same for a whole life."""


class Reprioritisable(ABC):
    """Can change the order in which waiting batches start."""

    @abstractmethod
    def reprioritise(self, urgencies: Mapping[str, Urgency]) -> None:
        """Set how urgent batches are, by their tags. Nothing depends on its success."""


class EndRetention(ABC):
    """Keeps the ends of attempts until the engine has recorded them."""

    @abstractmethod
    def discard_ends(self, attempts: Iterable[AttemptId]) -> None:
        """Forget the ends of these attempts, which the journal has."""


class LateFactSource(ABC):
    """Knows facts of attempts only after their ends, such as the peak memory that accounting has.

    Nothing waits for them. A later life may report an end again whose facts were still awaited. Both methods may be
    called after `Executor.close` as well: the engine collects what arrives in the first seconds after the end of the
    run.
    """

    @abstractmethod
    def take_facts(self) -> Sequence[AttemptFacts]:
        """Return what became known since the last call; `EndRetention.discard_ends` follows once it is recorded."""

    @abstractmethod
    def awaited_facts(self) -> Collection[AttemptId]:
        """Return the ended attempts whose facts may still arrive."""


class UnitHolder(ABC):
    """Its attempts hold units of a machine and of limits while they run, whether or not an engine lives.

    Without it, the engine holds the units of limits until the ends of attempts are known.
    """

    @abstractmethod
    def hold_units(self, file: Path) -> None:
        """Let attempts hold their `BatchMember.units` by locks on a file (see `longshore.keeper.program.units`).

        An attempt whose units another run has is reported as never started. Called once, after `Executor.open`.
        """


class ProcessCleanup(ABC):
    """Can end processes that jobs of a cancelled run left behind."""

    @abstractmethod
    def end_leftovers(self) -> CancelOutcome:
        """End these processes; called when all jobs of the run are over."""


class HostBound(ABC):
    """Starts processes that are visible only from the host they run on."""

    @abstractmethod
    def unseen_processes(self, run: RunPaths) -> str:
        """Describe processes of a run that may live on another host; empty without any. Called without `open`."""


class ExecutorOwner:
    """A service whose runs an engine drives: it submits their jobs one by one, and has an executor for that."""

    def executor(self, settings: Mapping[str, Any]) -> Executor:
        """Return a new executor, not yet opened; see `longshore.engine.run.engine_service.EngineService.executor`."""
        raise NotImplementedError


# Calls of optional capabilities, with a default for each.


def probe_resources(executor: Executor) -> PingReport:
    """Return the resources of the workload manager; an empty report without a probe."""
    if isinstance(executor, ResourceProbe):
        return executor.probe()
    return PingReport(service="", ok=True, message="it has no probe")


def free_submissions(executor: Executor) -> int | None:
    """Return how many batches may be submitted now; ``None`` for any number."""
    return executor.free_submissions() if isinstance(executor, SubmitWindow) else None


def max_batch_for(executor: Executor, settings: Mapping[str, Any]) -> int:
    """Return how many members a batch with these settings may have."""
    return executor.max_batch_for(settings) if isinstance(executor, BatchSizing) else executor.limits.max_batch


def reprioritise(executor: Executor, urgencies: Mapping[str, Urgency]) -> None:
    """Set the urgency of waiting batches, where the workload manager has priorities."""
    if isinstance(executor, Reprioritisable):
        executor.reprioritise(urgencies)


def discard_ends(executor: Executor, attempts: Iterable[AttemptId]) -> None:
    """Let the executor forget ends that are durable."""
    if isinstance(executor, EndRetention):
        executor.discard_ends(attempts)


def take_facts(executor: Executor) -> Sequence[AttemptFacts]:
    """Return what became known of attempts after their ends."""
    return executor.take_facts() if isinstance(executor, LateFactSource) else ()


def awaited_facts(executor: Executor) -> Collection[AttemptId]:
    """Return the attempts whose facts may still arrive."""
    return executor.awaited_facts() if isinstance(executor, LateFactSource) else ()


def end_leftovers(executor: Executor) -> None:
    """End processes that jobs of a cancelled run left behind."""
    if isinstance(executor, ProcessCleanup):
        executor.end_leftovers()
