"""Simulated machine: one thread of control, one clock, and processes that take turns.

A process is a greenlet. It gives way only inside a call of the simulation: it waits there, is stopped, or dies. What a
dead process still tries in its `finally` clauses raises as well, so it has no effect.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Final, NamedTuple, NoReturn

from greenlet import getcurrent, greenlet
from tests.simulation.plan import Fault, Plan

CALL_S: Final = 2e-5
"""Seconds that a call takes."""
SYNC_S: Final = 1e-3
"""Seconds that waiting for the disk takes."""
MAX_CALLS: Final = 400_000
"""Calls after which a history is given up as endless."""
EPOCH_S: Final = 1_763_630_000.0
_FILE_OPS: Final = frozenset({"open", "read", "write", "sync", "rename", "stat", "lock"})
_DRAFT: Final = re.compile(r"\.[0-9a-f]{12}\.draft$")
"""End of a draft's name, which is another one each time."""


class Killed(BaseException):
    """The process is dead: nothing that it does has an effect."""


class EndlessHistoryError(AssertionError):
    """The history does not come to an end."""


class Process:
    """A simulated process: engine, keeper, guard, pilot, or command of a user; or a thread of one."""

    def __init__(self, pid: int, kind: str, name: str, started_s: float) -> None:
        self.pid = pid
        self.kind = kind
        self.name = name
        self.label = f"{name}({pid})"
        self.started_s = started_s
        self.fiber: greenlet | None = None
        self.calls = 0
        self.checked_at = -1_000
        """Number of its call by which it last looked whether a newer engine has begun."""
        self.is_dead = False
        self.is_killed = False
        self.is_stopped = False
        self.wake_s = 0.0
        """When it goes on at the latest."""
        self.is_ready: Callable[[], bool] | None = None
        """Whether what it waits for is there."""
        self.error: BaseException | None = None
        """What ended it, beside a kill."""
        self.node = ""
        """The node that it runs on; empty on the host of engines and users."""
        self.threads: list[Process] = [self]
        """Itself and all other threads of the process, which share its fate."""
        self.at_exit: list[Callable[[], None]] = []
        """What the kernel does when it is gone, such as closing its files."""

    def __repr__(self) -> str:
        return self.label


class Happening(NamedTuple):
    """A call `op`, or something that happened: when, in which process, and what.

    `about` is the path, the file number or the words of a call. It becomes text only when somebody reads it: a
    history has a thousand calls.
    """

    at_s: float
    process: str
    op: str
    about: int | str | bytes | os.PathLike[str]

    def describe(self) -> str:
        """Return what happened; of a path, the name of the file."""
        about = "" if isinstance(self.about, int) else os.fsdecode(self.about)
        if self.op in _FILE_OPS:
            about = _DRAFT.sub(".draft", about.rpartition("/")[2])
        return f"{self.op} {about}" if self.op else about


class Universe:
    """Clock, processes and faults of one history.

    `trace` has all calls and happenings.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.lot = Random(f"{plan.seed} chance")
        self.elapsed_s = 100.0
        self.jump_s = 0.0
        self.boot = 1
        self.booted_s = 0.0
        self.calls = 0
        self.trace: list[Happening] = []
        self.processes: list[Process] = []
        self.current: Process | None = None
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()
        self._pids = count(1000)
        self._faults = list(plan.faults)
        self._until_fault = self._faults[0].after if self._faults else -1
        self.full_until_s = 0.0
        """Until when the disk is full."""
        self.last_fault_s = 0.0
        self.kills: list[tuple[float, str]] = []
        """When a process of which kind was killed, or the machine lost its power."""
        self.on_power_loss: Callable[[], None] = lambda: None
        self.on_silence: Callable[[float], None] = lambda _seconds: None
        self.on_node_loss: Callable[[str], None] = lambda _node: None
        self.cut_off: dict[str, tuple[float, bool]] = {}
        """Nodes that do not reach the shared files: until when, and whether calls fail instead of hanging."""
        self._main = getcurrent()

    # ------------------------------------------------------------------------------------------------------------ clock

    def now(self) -> float:
        """Return the time of day, with all jumps."""
        return EPOCH_S + self.elapsed_s + self.jump_s

    def elapsed(self) -> float:
        """Return the time on the clock that never jumps."""
        return self.elapsed_s

    def since_boot(self) -> float:
        """Return the seconds since the machine was started."""
        return self.elapsed_s - self.booted_s

    def at(self, seconds: float, call: Callable[[], object]) -> None:
        """Schedule a call."""
        heappush(self._due, (self.elapsed_s + seconds, next(self._numbers), call))

    def _run_due(self) -> None:
        while self._due and self._due[0][0] <= self.elapsed_s:
            heappop(self._due)[2]()

    # -------------------------------------------------------------------------------------------------------- processes

    def spawn(self, kind: str, main: Callable[[], object], *, name: str = "", node: str = "") -> Process:
        """Start a process, by default on the node of its maker; it first runs when its maker waits."""
        process = Process(next(self._pids), kind, name or kind, self.since_boot())
        process.node = node or (self.current.node if self.current else "")

        def body() -> None:
            try:
                main()
            except Killed:
                pass
            except BaseException as error:  # noqa: BLE001 - whatever ends a process is its own affair
                process.error = error
            if not process.is_dead:
                self._bury(process)

        process.fiber = greenlet(body, self._main)
        self.processes.append(process)
        self.note(f"{process} begins")
        return process

    def kill(self, process: Process) -> None:
        """Kill a process with its threads, at once."""
        if process.is_dead:
            return
        self.kills.append((self.elapsed_s, process.kind))
        victims = [each for each in process.threads if not each.is_dead]
        for victim in victims:
            victim.is_killed = True
            self._bury(victim)
        if self.current in victims:
            raise Killed
        if getcurrent() is self._main:
            for victim in victims:
                self._unwind(victim)

    def start_thread(self, main: Callable[[], object]) -> Process:
        """Start a thread of the current process; it ends with the process."""
        owner = self.current
        assert owner is not None
        thread = self.spawn(owner.kind, main, name=f"thread of {owner.name}")
        thread.threads = owner.threads
        owner.threads.append(thread)
        owner.at_exit.append(lambda: None if thread.is_dead else self._bury(thread))
        return thread

    def _bury(self, process: Process) -> None:
        process.is_dead = True
        why = ""
        if process.error is not None:
            why = f" ({type(process.error).__name__}: {process.error})"
            # Nothing of its functions may outlive it: their objects close files.
            process.error = process.error.with_traceback(None)
            process.error.__context__ = process.error.__cause__ = None
        self.note(f"{process} is gone{why}")
        for each in process.at_exit:
            each()

    def _unwind(self, process: Process) -> None:
        """Let a dead process leave its functions; whatever they call raises."""
        fiber, process.fiber = process.fiber, None
        if fiber:  # false for one that has not begun, or is over
            before, self.current = self.current, process
            fiber.throw(Killed)
            self.current = before

    def end(self) -> None:
        """Kill all processes, once the history is over."""
        for process in self.processes:
            process.is_dead = True
            self._unwind(process)
        self.processes.clear()
        self._due.clear()
        self.current = None

    def block(self, timeout_s: float, is_ready: Callable[[], bool] | None = None) -> None:
        """Let the current process wait for something, or for the timeout."""
        process = self.current
        assert process is not None
        if process.is_dead:
            raise Killed
        process.wake_s, process.is_ready = self.elapsed_s + timeout_s, is_ready
        self._main.switch()
        if process.is_dead:
            raise Killed

    def run(self, is_over: Callable[[], bool], *, until_s: float) -> bool:
        """Let the processes run until something holds; return whether it did before the time was over."""
        while not is_over():
            process = self._next()
            if process is not None:
                self._resume(process)
                continue
            if self.elapsed_s > until_s or not self._advance():
                return False
        return True

    def _next(self) -> Process | None:
        for process in list(self.processes):
            if process.is_dead:
                self._unwind(process)
                self.processes.remove(process)
                continue
            if not process.is_stopped and (
                process.wake_s <= self.elapsed_s or (process.is_ready is not None and process.is_ready())
            ):
                return process
        return None

    def _resume(self, process: Process) -> None:
        # The one that ran goes to the end of the queue, so that all take turns.
        self.processes.remove(process)
        self.processes.append(process)
        process.is_ready = None
        self.current = process
        assert process.fiber is not None
        process.fiber.switch()
        self.current = None

    def _advance(self) -> bool:
        """Move the clock to the next moment at which something happens."""
        moments = [each.wake_s for each in self.processes if not each.is_stopped and not each.is_dead]
        if self._due:
            moments.append(self._due[0][0])
        moment = min((each for each in moments if each < float("inf")), default=None)
        if moment is None:
            return False
        self.elapsed_s = max(self.elapsed_s, moment)
        self._run_due()
        return True

    # ------------------------------------------------------------------------------------------------------------ calls

    def note(self, what: str) -> None:
        """Add a happening to the trace."""
        self.trace.append(Happening(self.elapsed_s, self.current.label if self.current else "world", "", what))

    def call(self, op: str, about: int | str | bytes | os.PathLike[str] = "") -> Fault | None:
        """Let a call of the current process begin; return a fault of the call itself, for the caller to carry out."""
        process = self.current
        if process is None or process.kind == "operator":
            return None
        if process.is_dead:
            raise Killed
        self.calls += 1
        process.calls += 1
        if self.calls > MAX_CALLS:
            raise EndlessHistoryError(f"no end after {MAX_CALLS} calls")
        self.trace.append(Happening(self.elapsed_s, process.label, op, about))
        self.elapsed_s += SYNC_S if op == "sync" else CALL_S
        if self._due and self._due[0][0] <= self.elapsed_s:
            self._run_due()
        fault = self._due_fault(process, op) if self._faults else None
        return self._strike(process, fault) if fault else None

    def _due_fault(self, process: Process, op: str) -> Fault | None:
        fault = self._faults[0]
        if fault.at not in ("any", process.kind) or fault.op not in ("any", op):
            return None
        self._until_fault -= 1
        if self._until_fault >= 0:
            return None
        if fault.kind in ("error", "short") and op not in ("write", "sync", "rename", "open", "read"):
            return None
        self._faults.pop(0)
        self._until_fault = self._faults[0].after if self._faults else -1
        return fault

    def _strike(self, process: Process, fault: Fault) -> Fault | None:
        self.last_fault_s = self.elapsed_s
        self.note(f"FAULT {fault.kind} {fault.hits if fault.hits != 'any' else ''} {fault.seconds or fault.number}")
        match fault.kind:
            case "clock":
                self.jump_s += fault.seconds
            case "full":
                self.full_until_s = self.elapsed_s + fault.seconds
                self.last_fault_s = self.full_until_s
            case "silence":
                self.on_silence(fault.seconds)
                self.last_fault_s += fault.seconds
            case "stop":
                self._stop(process, fault)
            case "partition":
                self._cut_off(process, fault)
            case "power" | "kill" if not fault.late:
                self.finish(fault)
            case _:
                return fault
        return None

    def finish(self, fault: Fault | None) -> None:
        """Carry out what a fault does after the call had its effect."""
        if fault is None or self.current is None:
            return
        if fault.kind == "power":
            self.lose_power()
        elif fault.kind == "kill":
            victims = self._victims(self.current, fault)
            if fault.hits == "node":
                self.on_node_loss(self._node_of(self.current))
            for victim in victims:
                if self.current not in victim.threads:
                    self.kill(victim)
            if self.current in victims:
                self.kill(self.current)

    def _victims(self, process: Process, fault: Fault) -> list[Process]:
        if fault.hits == "any":
            return [process]
        if fault.hits == "node":
            node = self._node_of(process)
            return [each for each in self.processes if node and each.node == node]
        return [each for each in self.processes if fault.hits in ("all", each.kind) and each.kind != "operator"]

    def _node_of(self, process: Process) -> str:
        """Return the node that a fault of a process hits: its own, or that of the oldest process on any."""
        return process.node or next((each.node for each in self.processes if each.node and not each.is_dead), "")

    def _cut_off(self, process: Process, fault: Fault) -> None:
        if node := self._node_of(process):
            until_s = self.elapsed_s + fault.seconds
            self.note(f"{node} does not reach the shared files")
            self.cut_off[node] = until_s, fault.late
            # A pilot that cannot write ends what runs.
            self.kills.append((until_s, "partition"))
            self.last_fault_s = until_s

    def _stop(self, process: Process, fault: Fault) -> None:
        for victim in dict.fromkeys(each for found in self._victims(process, fault) for each in found.threads):
            victim.is_stopped = True

            def go_on(victim: Process = victim) -> None:
                victim.is_stopped = False
                self.note(f"{victim} goes on")

            self.at(fault.seconds, go_on)
        self.last_fault_s += fault.seconds
        if process.is_stopped:
            self.block(0.0)

    def lose_power(self) -> NoReturn:
        """End every process, and what the disk had not been made to keep."""
        self.note("POWER LOSS")
        self.kills.append((self.elapsed_s, "power"))
        for process in list(self.processes):
            if process.kind != "operator" and not process.is_dead:
                self._bury(process)
        self.boot += 1
        self.booted_s = self.elapsed_s
        self.on_power_loss()
        raise Killed
