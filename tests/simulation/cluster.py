"""Simulated cluster: a batch system with allocations, whose pilots are processes on nodes of their own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum
from pathlib import Path
from typing import Final

from tests.simulation.disk import Disk
from tests.simulation.machine import Machine
from tests.simulation.plan import Plan
from tests.simulation.universe import Process, Universe

from longshore.contract.service import RunPaths, Unreachable
from longshore.keeper.program.kernel import become_subreaper
from longshore.services.batch.pilots.allocations import (
    AllocationNews,
    PilotSettings,
    mail_path,
    margin_s,
    numbers_of_mailboxes,
)
from longshore.services.batch.pilots.program.pilot import Pilot
from longshore.system.folder import make_folders

_QUEUE_S: Final = (0.0, 0.0, 0.3, 4.0)
"""Times that allocations wait."""
_CLEAN_UP_S: Final = 0.1
"""Time after which the cluster ends what a pilot left on its node."""
_NEWS_S: Final = (0.0, 0.0, 0.5, 3.0)
"""Delays after which the cluster tells of a start or an end."""
_CANCEL_S: Final = (0.0, 0.2, 2.0)
"""Times that a cancellation takes."""
_WARNING_S: Final = 2.0
"""Time between the signal that announces an end and the end."""
_REQUEUED: Final = 0.2
"""Share of allocations that the cluster starts again when their node is lost."""
_GOOD_ENDS: Final = frozenset({"idle", "ordered", "terminated"})


def settings_of(plan: Plan) -> PilotSettings:
    """Return the settings of the pilots of a history; their times are short, as those of its jobs."""
    return PilotSettings(
        cpus=plan.cpus,
        memory_b=1 << 40,
        walltime_s=plan.walltime_s or 1e6,
        count=2,
        idle_s=15.0,
        lease_s=8.0,
        margin_s=4.0,
        settle_s=2.0 + plan.late_s,
    )


class AllocationState(Enum):
    """What the cluster does with an allocation."""

    PENDING = "pending"
    RUNNING = "running"
    GONE = "gone"


class Allocation:
    """An allocation of one node; `told` is how the cluster tells that it stands, which may be late."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.state = self.told = AllocationState.PENDING
        self.starts = 0
        self.process: Process | None = None
        self.pilot: Pilot | None = None
        self.why = ""

    @property
    def node(self) -> str:
        """Name of its node, another one for each start."""
        return f"node{self.number}.{self.starts}"


class SimulatedCluster:
    """The batch system, which outlives all engines; `run` is the run whose pilots it starts."""

    def __init__(self, universe: Universe, machine: Machine, disk: Disk, run: RunPaths) -> None:
        self.universe = universe
        self.plan = universe.plan
        self.settings = settings_of(self.plan)
        self.home = RunPaths(run.pilots)
        self.allocations: dict[int, Allocation] = {}
        self.silent_until_s = 0.0
        self._machine = machine
        self._disk = disk
        universe.on_silence = self.stop_answering
        universe.on_node_loss = self.lose_node

    @property
    def is_empty(self) -> bool:
        """Whether all allocations are gone."""
        return all(each.state is AllocationState.GONE for each in self.allocations.values())

    def stop_answering(self, seconds: float) -> None:
        """Answer no question for a while."""
        self.silent_until_s = self.universe.elapsed_s + seconds

    def submit(self, number: int) -> None:
        """Take an allocation into the queue."""
        self.allocations[number] = allocation = Allocation(number)
        self.universe.note(f"allocation {number} is submitted")
        self.universe.at(self.universe.lot.choice(_QUEUE_S), lambda: self._start(allocation))

    # --------------------------------------------------------------------------------------------------------- pilots

    def _start(self, allocation: Allocation) -> None:
        if allocation.state is not AllocationState.PENDING:
            return
        allocation.starts += 1
        allocation.state = AllocationState.RUNNING
        node = allocation.node
        process = self.universe.spawn("pilot", lambda: self._run_pilot(allocation), name=f"pilot[{node}]", node=node)
        allocation.process = process
        self._machine.adopt(process, name="python")
        process.at_exit.append(lambda: self._disk.close_files_of(process))
        process.at_exit.append(lambda: self.universe.at(_CLEAN_UP_S, lambda: self._clean_up(allocation, node)))
        self._tell_later(allocation)
        if self.plan.walltime_s:
            self.universe.at(self.plan.walltime_s, lambda: self._end(allocation, node))

    def _run_pilot(self, allocation: Allocation) -> None:
        settings, home = self.settings, self.home
        walltime_s = self.plan.walltime_s
        until = str(walltime_s - margin_s(walltime_s)) if walltime_s else "-"
        amounts = (settings.cpus, settings.memory_b, until, settings.lease_s, settings.idle_s)
        become_subreaper()
        allocation.pilot = pilot = Pilot([str(mail_path(home, allocation.number, 0)), "0", *map(str, amounts)])
        status = 1
        try:
            status = pilot.run()
        finally:
            if status or pilot.why not in _GOOD_ENDS:
                # What ran is ended, and may be told as lost.
                self.universe.kills.append((self.universe.elapsed_s, "pilot"))

    def _clean_up(self, allocation: Allocation, node: str) -> None:
        if allocation.node == node and allocation.state is AllocationState.RUNNING:
            self._machine.lose_node(node)
            self._finish(allocation, "the allocation ended")

    def _finish(self, allocation: Allocation, why: str) -> None:
        allocation.state, allocation.why = AllocationState.GONE, why
        self._tell_later(allocation)

    def _tell_later(self, allocation: Allocation) -> None:
        state = allocation.state

        def tell() -> None:
            if allocation.told is not AllocationState.GONE:
                allocation.told = state

        self.universe.at(self.universe.lot.choice(_NEWS_S), tell)

    def _end(self, allocation: Allocation, node: str) -> None:
        """End an allocation, half of the time with a warning."""
        if allocation.state is not AllocationState.RUNNING or allocation.node != node:
            return
        pilot, process = allocation.pilot, allocation.process
        if pilot is not None and process is not None and not process.is_dead and self.universe.lot.random() < 0.5:
            pilot.terminate()
            self.universe.at(_WARNING_S, lambda: self._clean_up(allocation, node))
        else:
            self._clean_up(allocation, node)

    def cancel(self, numbers: Collection[int]) -> None:
        """End allocations, by and by."""
        for number in numbers:
            if allocation := self.allocations.get(number):
                self.universe.note(f"allocation {number} is cancelled")
                self.universe.at(self.universe.lot.choice(_CANCEL_S), lambda each=allocation: self._cancel(each))  # type: ignore[misc]

    def _cancel(self, allocation: Allocation) -> None:
        if allocation.state is AllocationState.PENDING:
            self._finish(allocation, "the allocation was cancelled")
        else:
            self._end(allocation, allocation.node)

    def lose_node(self, node: str) -> None:
        """End all that runs on a node; the cluster may start its allocation again on another."""
        allocation = next((each for each in self.allocations.values() if each.node == node), None)
        if allocation is None or allocation.state is not AllocationState.RUNNING:
            return
        self.universe.note(f"{node} is lost")
        self._machine.lose_node(node)
        if self.universe.lot.random() < _REQUEUED:
            allocation.state = AllocationState.PENDING
            self.universe.at(1.0, lambda: self._start(allocation))

    def lose_power(self) -> None:
        """End all allocations that run; those that wait go on to wait."""
        for allocation in self.allocations.values():
            if allocation.state is AllocationState.RUNNING:
                self._finish(allocation, "its node failed")


class SimulatedAllocations:
    """The cluster as the engine of one life sees it; each call is one at which a fault may strike."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._universe = cluster.universe
        self._run = RunPaths(Path())
        self._requested = 0
        self._gone: dict[int, str] = {}
        """Allocations that were never submitted, or whose end was told."""

    def open(self, run: RunPaths, life: int) -> None:
        """Find the numbers that were taken and never submitted."""
        self._run = run
        for number in numbers_of_mailboxes(self._cluster.home) - self._cluster.allocations.keys():
            self._gone[number] = "it was never submitted"

    def request(self, count: int) -> None:
        """Ask for allocations, which the next poll submits."""
        self._requested += count

    def _submit(self) -> None:
        while self._requested:
            number = max((*numbers_of_mailboxes(self._cluster.home), *self._cluster.allocations), default=0) + 1
            make_folders(self.mailboxes(number)[0], below=self._run.root, durable=True)
            self._requested -= 1
            fault = self._universe.call("act", f"submit allocation {number}")
            self._cluster.submit(number)
            self._universe.finish(fault)

    def poll(self) -> AllocationNews | Unreachable:
        """Return how the allocations stand."""
        fault = self._universe.call("act", "poll allocations")
        self._universe.finish(fault)
        if self._universe.elapsed_s < self._cluster.silent_until_s:
            return Unreachable(why="the cluster is silent")
        note = ""
        try:
            self._submit()
        except OSError as error:
            note = str(error)
        told = {state: [] for state in AllocationState}  # type: dict[AllocationState, list[int]]
        for allocation in self._cluster.allocations.values():
            told[allocation.told].append(allocation.number)
        gone = {number: self._cluster.allocations[number].why for number in told[AllocationState.GONE]}
        return AllocationNews(
            pending=told[AllocationState.PENDING],
            running=told[AllocationState.RUNNING],
            gone={**self._gone, **gone},
            note=note,
        )

    def cancel(self, numbers: Collection[int]) -> None:
        """End allocations."""
        fault = self._universe.call("act", "cancel allocations")
        self._cluster.cancel(numbers)
        self._universe.finish(fault)

    def mailboxes(self, number: int) -> Sequence[Path]:
        """Return the mailbox of the only node."""
        return [mail_path(self._cluster.home, number, 0)]

    def close(self) -> None:
        """Do nothing: allocations go on."""
