"""Operator of a simulated run: submits it, gives the planned orders, and resumes it whenever its engine is gone."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.plan import Order
from tests.simulation.service import SimulatedService
from tests.simulation.universe import Process, Universe

from longshore.contract.context import RunPaths
from longshore.contract.intervention import Intervention, JobSelection, RestartChanges
from longshore.errors import LongshoreError

_LOOK_S = 1.0
_MOST_RESUMES = 300
_RELEASE_S = 60.0
"""Simulated seconds between two orders to go on."""
_SETTLE_S = 400.0
"""Simulated seconds within which a run without further faults must be over."""


class UnfinishedRunError(AssertionError):
    """The run does not come to its end, although nothing disturbs it any more."""


class Operator:
    """A person with a shell: each command is a process of its own, which may die like any other."""

    def __init__(
        self, universe: Universe, service: SimulatedService, run: RunPaths, *, on_start: Callable[[Process], None]
    ) -> None:
        self._universe = universe
        self._service = service
        self._run = run
        self._on_start = on_start
        self._orders = list(universe.plan.orders)
        self._names = [f"{job.label}_{number}" for number, job in enumerate(universe.plan.jobs)]
        self._resumes = 0
        self._began_s = universe.elapsed_s
        self._released_s = 0.0
        self._commands: list[Process] = []
        self._seen_hanging: list[Process] = []

    def work(self) -> None:
        """Work until the run is over and every order was given."""
        self._command("submit", lambda: self._service.submit(self._run))
        quiet_since = self._universe.elapsed_s
        while True:
            self._universe.block(_LOOK_S)
            self._give_due_orders()
            self._commands = [each for each in self._commands if not each.is_dead]
            if self._orders or self._universe.last_fault_s > quiet_since:
                quiet_since = max(self._universe.elapsed_s, self._universe.last_fault_s)
            alive = [engine for engine in self._service.engines if not engine.is_dead]
            if not alive and not self._commands:
                if self._is_finished():
                    if not self._orders:
                        return
                    continue
                self._resume()
                continue
            self._take_over_hanging(alive)
            if not self._orders and self._universe.elapsed_s - self._released_s > _RELEASE_S:
                # Whatever was held must not be what the history waits for.
                self._released_s = self._universe.elapsed_s
                self._order(Order(at_s=0.0, act="unpause"))
                self._order(Order(at_s=0.0, act="release"))
                self._order(Order(at_s=0.0, act="throttle", value="none"))
            if self._universe.elapsed_s - quiet_since > _SETTLE_S:
                raise UnfinishedRunError(f"not over {_SETTLE_S:.0f} s after the last disturbance")

    def _is_finished(self) -> bool:
        return self._service._finished(self._run) is not None

    def _give_due_orders(self) -> None:
        while self._orders and self._universe.elapsed_s - self._began_s >= self._orders[0].at_s:
            self._order(self._orders.pop(0))

    def _resume(self) -> None:
        self._resumes += 1
        if self._resumes > _MOST_RESUMES:
            raise UnfinishedRunError(f"not over after {_MOST_RESUMES} resumes")
        by_force = self._resumes % 4 == 0
        self._command("resume", lambda: self._service.resume(self._run, force=by_force))

    def _take_over_hanging(self, alive: list[Process]) -> None:
        """Take the run over, now and then, when its engine hangs."""
        hanging = [engine for engine in alive if engine.is_stopped and engine not in self._seen_hanging]
        if hanging:
            self._seen_hanging += hanging
            if self._universe.lot.random() < 0.7:
                self._order(Order(at_s=0.0, act="take-over"))

    def _order(self, order: Order) -> None:
        service, run = self._service, self._run
        selection = JobSelection(jobs=tuple(self._names[job] for job in order.jobs if job < len(self._names)))
        match order.act:
            case "cancel":
                self._command("cancel", lambda: service.cancel(run, selection))
            case "resume":
                # Two at once.
                self._command("resume", lambda: service.resume(run))
                self._command("resume", lambda: service.resume(run))
            case "take-over":
                self._command("take-over", lambda: service.resume(run, take_over=True))
            case "restart":
                self._command("restart", lambda: service.restart(run, RestartChanges()))
            case _:
                values = {"throttle": {"max": "1"} if order.value != "none" else {}, "set": {"requestMemory": "1024"}}
                self._command(
                    order.act,
                    lambda: service.steer(
                        run, Intervention(act=order.act, selection=selection, set=values.get(order.act, {}))
                    ),
                )

    def _command(self, name: str, act: Callable[[], object]) -> None:
        def main() -> None:
            try:
                act()
            except (LongshoreError, OSError) as error:
                self._universe.note(f"refused: {error}")

        process = self._universe.spawn("user", main, name=name)
        self._commands.append(process)
        self._on_start(process)
