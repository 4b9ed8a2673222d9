"""Executor: six methods that submit single jobs, find, poll and cancel them; and optional capabilities.

An executor submits batches, reports starts and ends of their members, and cancels. It never decides what runs next. No
answer never means that a job failed: the executor returns `Unreachable`, and the engine calls again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from longshore.contract.batch import AttemptId, Batch, FindResult, Limits, PollResult, SubmitResult, Urgency
from longshore.contract.context import Mark, PingReport, RunPaths, Unreachable
from longshore.contract.intervention import CancelOutcome
from longshore.model.run.event import AttemptFacts
from longshore.model.tasks.task import Scalar
from longshore.model.workflow.request import Request


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
        """Let attempts hold their `BatchMember.units` by locks on a file (see `longshore.engine.keeper.units`).

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
