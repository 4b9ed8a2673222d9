"""One history: a run from its submission to its end, under the faults and orders of a plan."""

from __future__ import annotations

import fcntl
import gc
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Final

import msgspec
from tests.doors import replace_calls
from tests.simulation.checker import Witness, check_history
from tests.simulation.clocks import simulated_time
from tests.simulation.cluster import SimulatedAllocations, SimulatedCluster
from tests.simulation.commands import Commands
from tests.simulation.damaged_run import DamagedRun
from tests.simulation.disk import Disk
from tests.simulation.doors import SimulatedSystem, simulated_machine
from tests.simulation.machine import Machine
from tests.simulation.manager import SimulatedExecutor, SimulatedManager
from tests.simulation.operator import Operator
from tests.simulation.plan import DamagePlan, Plan
from tests.simulation.service import SimulatedService
from tests.simulation.truth import Truth
from tests.simulation.universe import EndlessHistoryError, Happening, Process, Universe

from longshore.contract.executor import Executor
from longshore.contract.service import RunPaths
from longshore.engine.run import engine_service
from longshore.keeper.program import keeper
from longshore.keeper.program.guard import Guard, guard_path
from longshore.keeper.program.kernel import system
from longshore.services.batch.pilots.executor import PilotExecutor
from longshore.services.local.executor import LocalExecutor
from longshore.system.files import files
from longshore.testing.fakes import ContractViolationError
from longshore.testing.runs import write_run

MEMORY: Final = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path(tempfile.gettempdir())
"""Where the files of a history are: it is written a thousand times a minute."""
LONGEST_S: Final = 3600.0
"""Simulated seconds after which a history is given up."""
LEFT_S: Final = 200.0
"""Simulated seconds after a run in which its allocations end."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a history: the promises that were broken, and what happened."""

    plan: Plan
    broken: tuple[str, ...]
    folder: str
    happenings: tuple[Happening, ...]
    lives: int = 0

    @property
    def trace(self) -> tuple[tuple[float, str, str], ...]:
        """Time, process and words of each call and happening."""
        return tuple((each.at_s, each.process, each.describe().replace(self.folder, "")) for each in self.happenings)


def run_history(plan: Plan) -> Outcome:
    """Carry out a plan, and check what came of it."""
    # The same each time: its name is in files, and checksums depend on it.
    folder = MEMORY / f"longshore-simulation-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        return _run_in(folder, plan)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Setting:
    """Everything in which one history takes place."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        runs = folder / "runs"
        runs.mkdir()
        self.run = RunPaths(runs / "run")
        if not plan.prepares:
            prepare(self.run, plan)
        self.universe = universe = Universe(plan)
        self.disk = Disk(universe, runs)
        self.truth = Truth(universe)
        self.machine = Machine(universe, self.disk, self.truth)
        self.machine.programs["guard"] = self._run_guard
        self.temporary = temporary = folder / "tmp"
        temporary.mkdir()
        self.door = SimulatedSystem(self.machine, temporary)
        self.cluster: SimulatedCluster | None = None
        self.service = SimulatedService(universe, self._executors(plan, temporary))
        self.service.on_start = self._adopt
        self.operator = Operator(
            universe,
            self.service,
            self.run,
            prepare=lambda: prepare(self.run, plan),
            on_start=self._adopt,
            go_through_damage=self._go_through_damage,
        )
        universe.on_power_loss = self._lose_power

    def _executors(self, plan: Plan, temporary: Path) -> Callable[[], Executor]:
        if plan.world == "local":
            pool = {"cpus": plan.cpus, "memory": 1 << 40, "gpus": 0}
            return lambda: LocalExecutor({"pool": pool, "scratch": str(temporary)})
        if plan.world == "pilots":
            self.cluster = cluster = SimulatedCluster(self.universe, self.machine, self.disk, self.run)
            return lambda: PilotExecutor(SimulatedAllocations(cluster), cluster.settings)
        manager = SimulatedManager(self.universe, self.truth)
        return lambda: SimulatedExecutor(manager)

    def _run_guard(self, words: list[str]) -> None:
        """Do what the guard's program does: it forks the keeper, and waits for it and its orphans."""
        own = self.machine.own_task()
        assert own is not None
        assert own.process is not None
        own.is_subreaper = True
        file = self.door.open(guard_path(words[0]), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_EXCL, 0o644)
        self.disk.flock(file, fcntl.LOCK_EX)
        keeper_process = self.machine.fork("keeper", lambda: run_keeper(words))
        self.machine.pipes.close_all_of(own.process)
        is_bound = words[4:] == ["bound"]
        if is_bound:
            self.machine.bind(own)
        guard = Guard(keeper_process.pid, words[0], file, is_bound=is_bound)
        while guard.wait():
            pass

    def _go_through_damage(self, damage: DamagePlan, do: Commands) -> None:
        DamagedRun(self.universe, self.disk, self.truth, self.run, do).go_through(damage)

    def _adopt(self, process: Process) -> None:
        self.machine.adopt(process)
        process.at_exit.append(lambda: self.disk.close_files_of(process))

    def _lose_power(self) -> None:
        self.machine.lose_power()
        self.disk.lose_power()
        if self.cluster is not None:
            self.cluster.lose_power()


def run_keeper(words: list[str]) -> None:
    """Do what the keeper's program does."""
    loop = keeper.begin(words)
    while not loop.is_over():
        loop.serve(system.select(loop.inputs, [], [], loop.attempts.compute_timeout())[0])
    loop.clean_up()


def _run_in(folder: Path, plan: Plan) -> Outcome:
    world = Setting(folder, plan)
    universe, service = world.universe, world.service
    broken: list[str] = []
    with _simulated(world):
        process = universe.spawn("operator", world.operator.work)
        try:
            if not universe.run(lambda: process.is_dead, until_s=LONGEST_S):
                broken.append(f"no end after {LONGEST_S:.0f} s")
            broken += _check_allocations(world)
        except (EndlessHistoryError, ContractViolationError) as error:
            broken.append(str(error))
        finally:
            universe.end()
            # Objects of dead processes may close files when they go: before the numbers are free again.
            gc.collect()
            world.disk.close_all()
    if process.error is not None:
        broken.append(f"{type(process.error).__name__}: {process.error}")
    broken += service.errors
    if not broken:
        broken += check_history(
            Witness(plan=plan, run=world.run, truth=world.truth, disk=world.disk, service=service, universe=universe)
        )
    return Outcome(
        plan=plan,
        broken=tuple(dict.fromkeys(each.replace(str(folder), "") for each in (*broken, *world.truth.broken))),
        folder=str(folder),
        happenings=tuple(universe.trace),
        lives=len(service.engines),
    )


def _check_allocations(world: Setting) -> Iterator[str]:
    """Check that no allocation outlives a run for long."""
    cluster = world.cluster
    if cluster is not None and not world.universe.run(
        lambda: cluster.is_empty, until_s=world.universe.elapsed_s + LEFT_S
    ):
        yield f"an allocation is left {LEFT_S:.0f} s after the end of the run"


def prepare(run: RunPaths, plan: Plan) -> None:
    """Write the directory of a run."""
    names = [f"{job.label}_{number}" for number, job in enumerate(plan.jobs)]
    parents = {name: [names[parent] for parent in job.parents] for name, job in zip(names, plan.jobs, strict=True)}
    profile = {"number_of_retries": plan.retries}
    write_run(
        run.root,
        parents,
        final="last" if plan.final else None,
        profiles=dict.fromkeys(("a", "b", "last"), profile),
        engine={"retries_on_lost": plan.retries_on_lost, "grace_s": plan.grace_s},
    )


@contextmanager
def _simulated(world: Setting) -> Iterator[None]:
    """Put the universe in the place of the system."""
    namespace = vars(engine_service)
    real = namespace["kill_local_engine"]
    namespace["kill_local_engine"] = world.service.kill_newest_engine
    was_enabled = gc.isenabled()
    gc.disable()
    # A collection looks at the objects of this history alone: those of all modules are many more.
    gc.freeze()
    try:
        with (
            _variable("XDG_STATE_HOME", str(world.temporary)),
            replace_calls(files, world.disk),
            simulated_machine(world.door),
            simulated_time(world.universe),
            redirect_stderr(_Log(world.universe)),
        ):
            yield
    finally:
        namespace["kill_local_engine"] = real
        gc.unfreeze()
        if was_enabled:
            gc.enable()


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """Set an environment variable while the body runs."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


class _Log(io.TextIOBase):
    """Engines' logs: lines go to the trace."""

    def __init__(self, universe: Universe) -> None:
        self._universe = universe

    def write(self, text: str) -> int:
        if self._universe.current is not None:
            self._universe.note(f"says: {text.strip()}")
        elif text.strip():
            sys.__stderr__.write(text) if sys.__stderr__ else None
        return len(text)
