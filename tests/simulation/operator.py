"""Operator of a simulated run: submits it, gives the planned orders, and resumes it whenever its engine is gone."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.commands import Commands
from tests.simulation.plan import DamagePlan, Order
from tests.simulation.service import SimulatedService
from tests.simulation.universe import Process, Universe

from longshore.contract.service import RunPaths
from longshore.errors import LongshoreError
from longshore.rundir.journal import END_SEAL

_LOOK_S = 1.0
_MOST_RESUMES = 300
_MOST_TRIES = 400
_RELEASE_S = 60.0
"""Simulated seconds between two orders to go on."""
_SETTLE_S = 400.0
"""Simulated seconds within which a run without further faults must be over."""


class UnfinishedRunError(AssertionError):
    """The run does not come to its end, although nothing disturbs it any more."""


class LostRunError(AssertionError):
    """The directory of a run is gone that an engine began with."""


class FalseDamageError(AssertionError):
    """Damage is told of a run directory that only kills, failing calls and losses of power went through."""


class Operator:
    """A person with a shell: each command is a process of its own, which may die like any other."""

    def __init__(
        self,
        universe: Universe,
        service: SimulatedService,
        run: RunPaths,
        *,
        prepare: Callable[[], None],
        on_start: Callable[[Process], None],
        go_through_damage: Callable[[DamagePlan, Commands], None],
    ) -> None:
        self._universe = universe
        self._service = service
        self._run = run
        self._prepare = prepare
        self._on_start = on_start
        self._go_through_damage = go_through_damage
        self._damage = universe.plan.damage
        self._orders = list(universe.plan.orders)
        names = [f"{job.label}_{number}" for number, job in enumerate(universe.plan.jobs)]
        self._do = Commands(service, run, names)
        self._resumes = 0
        self._began_s = universe.elapsed_s
        self._released_s = 0.0
        self._commands: list[Process] = []
        self._seen_hanging: list[Process] = []

    def work(self) -> None:
        """Work until the run is over and every order was given."""
        self._prepare_run()
        self._command("submit", self._do.submit)
        quiet_since = self._universe.elapsed_s
        while True:
            self._universe.block(_LOOK_S)
            self._give_due_orders()
            self._commands = [each for each in self._commands if not each.is_dead]
            if self._orders or self._universe.last_fault_s > quiet_since:
                quiet_since = max(self._universe.elapsed_s, self._universe.last_fault_s)
            alive = [engine for engine in self._service.engines if not engine.is_dead]
            if not alive and not self._commands:
                if not self._damage_now():
                    if self._is_finished() and not self._lacks_seal():
                        if not self._orders:
                            return
                        continue
                    self._continue()
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

    def _prepare_run(self) -> None:
        """Prepare the run, as often as it takes; a directory with its name is a whole run."""
        tries = 0
        while not self._run.root.exists():
            if tries == _MOST_TRIES:
                raise UnfinishedRunError(f"not prepared in {tries} tries")
            tries += 1
            process = self._command("prepare", self._prepare)
            self._wait_for(process)
            # A disk that is full stays so for a while.
            self._universe.block(_LOOK_S)
        self._expect_no_damage()

    def _wait_for(self, process: Process) -> None:
        self._universe.block(_SETTLE_S, lambda: process.is_dead)

    def _expect_no_damage(self) -> None:
        """Check that `verify` tells of no damage; after one whose loss was accepted, records stay as they are."""
        if self._damage != self._universe.plan.damage:
            return
        if damages := self._do.verify().damages:
            raise FalseDamageError(f"nothing was damaged, and verify tells: {damages[0]}")

    def _damage_now(self) -> bool:
        """Damage a file if it is time; return whether it was."""
        damage = self._damage
        if damage is None or not self._run.root.exists():
            return False
        if not any(self._run.journal.iterdir()) or self._is_finished() != damage.is_over:
            return False
        self._damage = None
        self._go_through_damage(damage, self._do)
        return True

    def _is_finished(self) -> bool:
        return self._service._finished(self._run) is not None

    def _lacks_seal(self) -> bool:
        """Return whether `verify` says that the end is to be sealed by `resume`, as its engine could not."""
        if self._damage != self._universe.plan.damage:
            return False
        return [damage.path for damage in self._do.verify().damages] == [str(self._run.journal / END_SEAL)]

    def _give_due_orders(self) -> None:
        while self._orders and self._universe.elapsed_s - self._began_s >= self._orders[0].at_s:
            self._order(self._orders.pop(0))

    def _continue(self) -> None:
        """Submit the run, or resume it if it was submitted."""
        self._resumes += 1
        if self._resumes > _MOST_RESUMES:
            raise UnfinishedRunError(f"not over after {_MOST_RESUMES} resumes")
        if not self._run.root.exists():
            # A power failure may remove the name of a prepared run, but not once an engine may start jobs.
            if self._service.engines:
                raise LostRunError(f"'{self._run.root}' is gone, although an engine of it began")
            self._prepare_run()
        if not self._lacks_seal():
            self._expect_no_damage()
        if not any(self._run.journal.iterdir()):
            self._command("submit", self._do.submit)
            return
        by_force = self._resumes % 4 == 0
        self._command("resume", lambda: self._do.resume(force=by_force))

    def _take_over_hanging(self, alive: list[Process]) -> None:
        """Take the run over, now and then, when its engine hangs."""
        hanging = [engine for engine in alive if engine.is_stopped and engine not in self._seen_hanging]
        if hanging:
            self._seen_hanging += hanging
            if self._universe.lot.random() < 0.7:
                self._order(Order(at_s=0.0, act="take-over"))

    def _order(self, order: Order) -> None:
        # Two at once, now and then.
        for _ in range(2 if order.act == "resume" else 1):
            self._command(order.act, lambda: self._do.carry_out(order))

    def _command(self, name: str, act: Callable[[], object]) -> Process:
        def main() -> None:
            try:
                act()
            except (LongshoreError, OSError) as error:
                self._universe.note(f"refused: {error}")

        process = self._universe.spawn("user", main, name=name)
        self._commands.append(process)
        self._on_start(process)
        return process
