"""Orphans of a killed keeper, apart so that its guard, which holds them to their limits, loads it only then.

Part of the keeper, beside which it is copied, so that it too needs nothing but the standard library. Before
its keeper is dead, it costs the guard no memory.
"""

from __future__ import annotations

import json
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "orphans":
    from longshore.keeper.program.kernel import find_log, system
    from longshore.keeper.program.processes import Processes
    from longshore.keeper.program.units import HeldUnits, UnitFile
    from longshore.keeper.program.watchdog import Watchdog
else:
    # The copy beside the keeper is not in a package.
    from kernel import find_log, system
    from processes import Processes
    from units import HeldUnits, UnitFile
    from watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Mapping

_CHILD_SIGNALS = (signal.SIGCHLD,)
_NO_CHECK_S = 3600.0


class Orphans:
    """The attempts of a dead keeper, by process number.

    `starts` has their start records as lines. `logs` is the folder of all logs of the run: records of attempts without
    limits do not name theirs. `units` is the file of units that they hold.
    """

    def __init__(self, starts: Mapping[int, bytes], logs: str, units: int | None = None) -> None:
        # So that the end of a child interrupts `wait`, also if it came before.
        system.block_signals(signal.SIG_BLOCK, _CHILD_SIGNALS)
        self.watchdog = Watchdog(Processes())
        self.logs = system.realpath(logs)
        self.units = HeldUnits(UnitFile(units)) if units is not None else None
        for pid, line in starts.items():
            self.begin(pid, line)

    def begin(self, pid: int, line: bytes) -> None:
        """Watch an attempt, unless its number has gone to a process that is none of the guard's."""
        stat = self.watchdog.processes.read_stat(pid)
        if stat is None or stat[0] != system.getpid():
            return
        try:
            start = json.loads(line)
            if self.units and "u" in start:
                self.units.ranges[pid] = start["u"]
            if "lim" in start:
                ran_s = system.clock_gettime(time.CLOCK_BOOTTIME) - start["up"]
                self.watchdog.begin(pid, start["lim"], start["log"], ran=max(0.0, ran_s))
            elif log := find_log(pid, self.logs):
                self.watchdog.unlimited[pid] = log
        except (ValueError, TypeError, KeyError):
            # A damaged record: the ends of the others are still recorded.
            pass

    def check(self) -> None:
        """End attempts that exceed their limits."""
        self.watchdog.check_limits()

    def wait(self) -> None:
        """Wait until a child ends or the next check is due."""
        pause_s = self.watchdog.next_check_s()
        system.wait_for_signal(_CHILD_SIGNALS, _NO_CHECK_S if pause_s is None else pause_s)

    def end(self, pid: int, status: int) -> str:
        """Stop watching an attempt that ended, cut its log, and return more members of its end record as JSON."""
        if self.units:
            self.units.pass_on(pid, None)
        if not self.watchdog.needs_unwatch(pid, status):
            return ""
        notes = self.watchdog.unwatch(pid, status, None)
        return "," + json.dumps(notes, separators=(",", ":"))[1:-1] if notes else ""
