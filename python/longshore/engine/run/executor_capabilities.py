"""Calls optional capabilities of an executor, with a default for each that it lacks."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from longshore.contract.executor import (
    AttemptId,
    BatchSizing,
    EndRetention,
    Executor,
    LateFactSource,
    NewsWait,
    ProcessCleanup,
    Reprioritisable,
    ResourceProbe,
    SubmitWindow,
    Urgency,
)
from longshore.contract.service import PingReport
from longshore.model.event import AttemptFacts


def probe_resources(executor: Executor) -> PingReport:
    """Return the resources of the workload manager; an empty report without a probe."""
    if isinstance(executor, ResourceProbe):
        return executor.probe()
    return PingReport(service="", ok=True, message="it has no probe")


def wait_for_news(executor: Executor, timeout_s: float) -> None:
    """Wait until something may be new, at most `timeout_s` seconds."""
    if isinstance(executor, NewsWait):
        executor.wait(timeout_s)
    else:
        time.sleep(timeout_s)


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
