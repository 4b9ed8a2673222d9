"""Keeps a run to its part of what the runs of one user share: the machine, and limits on jobs that run at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from longshore.contract.context import RunPaths
from longshore.engine.concurrency import Bounds
from longshore.engine.decide import Scheduler
from longshore.engine.history import RunHistory
from longshore.engine.tenant import Tenant, Wishes, wishes_of
from longshore.world.claims import limits_folder
from longshore.world.clock import Clock

_LIMITS_S: Final = 0.25
"""Time between two looks at who has how much of a limit: a job that ends should not be followed by a long pause."""


class Sharing:
    """What one run shares with others.

    Parameters
    ----------
    run
        The run directory.
    mark
        The run's mark.
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
        run: RunPaths,
        mark: str,
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
        self._machine: Tenant | None = None
        self._limits: Tenant | None = None
        if machine and scheduler.pool:
            self._machine = Tenant(mark, run.keeper, scheduler.pool, clock=clock, say=say)
        if bounds.limits.capacity:
            self._limits = Tenant(
                mark,
                run.keeper,
                bounds.limits,
                clock=clock,
                say=say,
                what="limits on jobs that run at once are",
                folder=limits_folder(),
                every_s=_LIMITS_S,
            )

    def turn(self) -> Iterator[str]:
        """Agree with the others on who has how much; yield why jobs wait because of it."""
        if self._machine:
            self._machine.turn(lambda: wishes_of(self._scheduler, self._history, self._clock.now()))
            if self._machine.idle:
                yield "other runs of yours have this machine"
        if self._limits:
            self._limits.turn(self._wishes)
        if self._bounds.pools:
            yield from self._bounds.full(self._scheduler.kept_back())

    def _wishes(self) -> Wishes:
        scheduler = self._scheduler
        wants, following = scheduler.wanted_of(self._bounds.limits, self._clock.now())
        rest_s = self._history.rest_s(scheduler.state, max(1, len(scheduler.state.active)))
        return Wishes(wants=wants, next=following, rest_s=rest_s)

    def note_starts(self) -> None:
        """Say, before they start, what jobs will hold."""
        for tenant in (self._machine, self._limits):
            if tenant:
                tenant.note_starts()

    def release(self) -> None:
        """Leave everything to the others."""
        for tenant in (self._machine, self._limits):
            if tenant:
                tenant.release()
