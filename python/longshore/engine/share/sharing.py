"""Keeps a run to its part of what the runs of one user share: the machine, and limits on jobs that run at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from longshore.engine.rundir.runtime_history import RunHistory
from longshore.engine.schedule.concurrency_limits import Bounds
from longshore.engine.schedule.scheduler import Scheduler
from longshore.engine.share.pool_share import Demand, PoolShare, demand_of, job_limits, this_machine
from longshore.model.run.claim import Claim
from longshore.world.clock import Clock


class Sharing:
    """What one run shares with others.

    Parameters
    ----------
    claim
        The run's mark and keeper.
    scheduler
        What starts its jobs.
    bounds
        The limits and categories of its jobs.
    history
        What tells how long it will go on.
    machine
        Whether it shares the machine.
    clock
        The time.
    say
        Takes a line for the engine's log.
    """

    def __init__(
        self,
        claim: Claim,
        scheduler: Scheduler,
        bounds: Bounds,
        history: RunHistory,
        *,
        machine: bool,
        clock: Clock,
        say: Callable[[str], None],
    ) -> None:
        self._scheduler = scheduler
        self._bounds = bounds
        self._history = history
        self._clock = clock
        self._machine: PoolShare | None = None
        self._limits: PoolShare | None = None
        if machine and scheduler.pool:
            self._machine = PoolShare(claim, scheduler.pool, this_machine(), clock=clock, say=say)
        if bounds.limits.capacity:
            self._limits = PoolShare(claim, bounds.limits, job_limits(), clock=clock, say=say)

    def turn(self) -> Iterator[str]:
        """Agree with the others on who has how much; yield why jobs wait because of it."""
        if self._machine:
            self._machine.turn(lambda: demand_of(self._scheduler, self._history, self._clock.now()))
            if self._machine.idle:
                yield "other runs of yours have this machine"
        if self._limits:
            self._limits.turn(self._demand)
        if self._bounds.pools:
            yield from self._bounds.full(self._scheduler.kept_back())

    def _demand(self) -> Demand:
        scheduler = self._scheduler
        wants, following = scheduler.wanted_of(self._bounds.limits, self._clock.now())
        rest_s = self._history.rest_s(scheduler.state, max(1, len(scheduler.state.active)))
        return Demand(wants=wants, next=following, rest_s=rest_s)

    def note_starts(self) -> None:
        """Say, before they start, what jobs will hold."""
        for share in filter(None, (self._machine, self._limits)):
            share.note_starts()

    def release(self) -> None:
        """Leave everything to the others."""
        for share in filter(None, (self._machine, self._limits)):
            share.release()
