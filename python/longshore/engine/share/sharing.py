"""Sharing with the user's other runs: keeps a run to its share of the machine and of concurrency limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from longshore.engine.rundir.runtime_history import RuntimeHistory
from longshore.engine.schedule.concurrency_limits import ConcurrencyLimits
from longshore.engine.schedule.scheduler import Scheduler
from longshore.engine.share.pool_share import Demand, PoolShare, compute_demand, limit_resources, machine_resources
from longshore.model.run.claim import ResourceClaim
from longshore.world.clock import Clock


class RunShares:
    """Shares of one run in the machine and in concurrency limits.

    Parameters
    ----------
    claim
        Identity of the run and of its keeper.
    scheduler
        Starts its jobs.
    limits
        The limits and categories of its jobs.
    history
        Estimates its end.
    machine
        Whether it shares the machine.
    clock
        The time.
    log_line
        Takes a line for the engine's log.
    """

    def __init__(
        self,
        claim: ResourceClaim,
        scheduler: Scheduler,
        limits: ConcurrencyLimits,
        history: RuntimeHistory,
        *,
        machine: bool,
        clock: Clock,
        log_line: Callable[[str], None],
    ) -> None:
        self._scheduler = scheduler
        self._concurrency_limits = limits
        self._history = history
        self._clock = clock
        self._machine_share: PoolShare | None = None
        self._limit_share: PoolShare | None = None
        if machine and scheduler.pool:
            self._machine_share = PoolShare(claim, scheduler.pool, machine_resources(), clock=clock, log_line=log_line)
        if limits.limits.capacity:
            self._limit_share = PoolShare(claim, limits.limits, limit_resources(), clock=clock, log_line=log_line)

    def negotiate(self) -> Iterator[str]:
        """Negotiate shares with other runs; yield the reasons why jobs wait for them."""
        if self._machine_share:
            self._machine_share.negotiate(lambda: compute_demand(self._scheduler, self._history, self._clock.now()))
            if self._machine_share.is_idle:
                yield "your other runs use this machine"
        if self._limit_share:
            self._limit_share.negotiate(self._demand)
        if self._concurrency_limits.pools:
            yield from self._concurrency_limits.describe_full(self._scheduler.blocked_amounts())

    def _demand(self) -> Demand:
        scheduler = self._scheduler
        wants, next_amounts = scheduler.compute_pool_demand(self._concurrency_limits.limits, self._clock.now())
        rest_s = self._history.rest_s(scheduler.state, max(1, len(scheduler.state.active)))
        return Demand(wants=wants, next=next_amounts, rest_s=rest_s)

    def claim_starts(self) -> None:
        """Write the resources of jobs about to start to the claims."""
        for share in filter(None, (self._machine_share, self._limit_share)):
            share.claim_starts()

    def release(self) -> None:
        """Leave all shared resources to the other runs."""
        for share in filter(None, (self._machine_share, self._limit_share)):
            share.release()
