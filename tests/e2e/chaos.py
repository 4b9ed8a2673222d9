"""Drives a run with real engines, keepers and jobs, and kills them at chosen moments until it ends.

``python chaos.py RUN PLAN``: every life of the engine is a forked process that runs the real `LocalService.drive` under
a profiler, which sees each system call that changes the world and each event that is appended. PLAN is JSON::

    {"seed": 7, "deaths": 12, "orders": 1}      die at random moments, and take so many random orders
    {"seed": 7, "deaths": 12, "victims": ["both"]}      the same, with a choice of victims
    {"at": ["append:Ended"], "deaths": 3}        die at the first such moment of each of the first lives

Of several moments each life has its own; the last holds for all that follow.

Prints what it did as JSON. It is a program of its own because it forks, stops and reaps, which pytest must not.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from longshore.contract.service import RunPaths
from longshore.model.states import JobState
from longshore.rundir.interventions import InterventionRecord, read_interventions, write_intervention
from longshore.rundir.job_table import JobTable
from longshore.rundir.journal import Journal, read_events
from longshore.rundir.run_directory import read_card
from longshore.runstate.replay import replay
from longshore.runstate.run_state import RunState
from longshore.services.local.keeper_file import keeper_files
from longshore.services.local.service import LocalService
from longshore.system.host import is_same_process, processes_with_variable

CALLS = frozenset({"write", "fdatasync", "fsync", "link", "replace", "unlink", "fork_exec"})
"""Functions before and after which a kill may happen."""
FATAL = ("engine", "engine", "engine", "both", "three", "tree", "stop")
OTHERS = ("keeper", "job", "guard", "guard and keeper")
MOST_LIVES = 400
LIFE_S = 60.0


class Fate:
    """Profiler of one engine that kills at planned moments.

    Parameters
    ----------
    run
        The run directory.
    wanted
        The moment at which to die; ``None`` leaves it to the dice.
    dice
        Chooses among moments and victims.
    victims
        Who may die; ``None`` is everybody.
    """

    def __init__(self, run: RunPaths, wanted: str | None, dice: Random, victims: list[str] | None = None) -> None:
        self._victims = victims
        self._run = run
        self._wanted = wanted
        self._dice = dice
        self._left = self._draw()

    def _draw(self) -> int:
        return self._dice.choice((1, 3, 10, 30, 80)) + self._dice.randrange(8)

    def __call__(self, frame: FrameType, what: str, arg: Any) -> None:
        """Count a moment and kill where planned."""
        name = ""
        if what in {"c_call", "c_return"} and arg.__name__ in CALLS:
            name = f"{'before' if what == 'c_call' else 'after'}:{arg.__name__}"
        elif what == "return" and frame.f_code is Journal.append.__code__:
            name = f"append:{type(frame.f_locals['event']).__name__}"
        if not name or (self._wanted and name != self._wanted):
            return
        self._left -= 1
        if self._wanted:
            self._strike(name, "engine")
        elif self._left <= 0:
            self._left = self._draw()
            victims = self._victims or (FATAL if self._dice.random() < 0.6 else OTHERS)
            self._strike(name, self._dice.choice(victims))

    def _strike(self, moment: str, victim: str) -> None:
        with self._run.root.with_name("struck").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"moment": moment, "victim": victim}) + "\n")
        if victim == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
            return
        if victim == "tree":
            for pid, _ in processes_with_variable("LONGSHORE_JOB_RUN_MARK", read_card(self._run).run_token):
                kill(pid)
        doomed = guards(self._run) if victim in {"guard", "guard and keeper", "three"} else []
        doomed += keepers(self._run) if victim in {"both", "three", "tree", "keeper", "guard and keeper"} else []
        for pid in doomed:
            kill(pid)
        if victim == "job":
            jobs = running(self._run)
            if jobs:
                os.killpg(self._dice.choice(jobs), signal.SIGKILL)
        if victim in {"engine", "both", "three", "tree"}:
            kill(os.getpid())


def kill(pid: int) -> None:
    """Kill a process; ignore one that has ended."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def keepers(run: RunPaths) -> list[int]:
    """Return process ids of live keepers."""
    found = []
    for file in keeper_files(run.keeper).values():
        file.read()
        if file.keeper_record and file.is_keeper_alive():
            found.append(file.keeper_record.pid)
    return found


def guards(run: RunPaths) -> list[int]:
    """Return process ids of live guards."""
    found = []
    for file in keeper_files(run.keeper).values():
        file.read()
        if file.keeper_record and file.guard.is_guard_alive():
            found.append(file.keeper_record.guard)
        file.close()
    return found


def running(run: RunPaths) -> list[int]:
    """Return process groups of running jobs."""
    found = []
    for file in keeper_files(run.keeper).values():
        file.read()
        found += [start.pid for start in file.running.values() if is_same_process(start.pid, start.up)]
    return found


def begin(run: RunPaths, by: str, fate: Fate | None) -> int:
    """Fork an engine and return its process id."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        log = os.open(run.engine_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        if fate:
            sys.setprofile(fate)
        LocalService().drive(run, by)
        status = 0
    except Exception as error:  # noqa: BLE001 - one that gave way to another, say
        sys.setprofile(None)
        os.write(2, f"{error!r}\n".encode())
    finally:
        os._exit(status)


def state_of(run: RunPaths) -> RunState:
    """Return the replayed state of the run."""
    return replay(JobTable(run), read_events(run.journal))


def leave_an_order(run: RunPaths, dice: Random) -> None:
    """Cancel, hold, pause or throttle; interventions that block the end are undone later."""
    job = f"job_{dice.randrange(state_of(run).size)}"
    given: dict[str, Any] = dice.choice(
        (
            {"act": "cancel"},
            {"act": "cancel", "jobs": (job,)},
            {"act": "pause"},
            {"act": "hold", "jobs": (job,)},
            {"act": "throttle", "set": {"max": "1"}},
        )
    )
    write_intervention(run, InterventionRecord(who="chaos", **given))


def see_out(run: RunPaths, pids: list[int]) -> bool:
    """Wait until an engine stops or all have ended; return whether one is stopped."""
    deadline = time.monotonic() + LIFE_S
    while pids:
        pid, status = os.waitpid(-1, os.WUNTRACED | os.WNOHANG)
        if pid in pids:
            if os.WIFSTOPPED(status):
                return True
            pids.remove(pid)
        elif not pid:
            if stuck(run):
                for act in ("unpause", "release"):
                    write_intervention(run, InterventionRecord(who="chaos", act=act))
            if time.monotonic() > deadline:
                raise TimeoutError(f"a life of '{run.root}' does not end")
            time.sleep(0.01)
    return False


def stuck(run: RunPaths) -> bool:
    """Return whether the run waits for an intervention."""
    if read_interventions(run):
        return False
    state = state_of(run)
    return bool(state.paused) or state.is_stuck


def main(root: Path, plan: dict[str, Any]) -> None:
    """Drive the run to its success."""
    run = RunPaths(root)
    dice = Random(plan.get("seed", 0))
    deaths, left = plan["deaths"], plan.get("orders", 0)
    moments = plan.get("at", [])
    by = "submit"
    for number in range(MOST_LIVES):
        if left and dice.random() < 0.3:
            left -= 1
            leave_an_order(run, dice)
        wanted = moments[min(number, len(moments) - 1)] if moments else None
        fate = Fate(run, wanted, Random(dice.random()), plan.get("victims")) if number < deaths else None
        pids = [begin(run, by, fate)]
        while see_out(run, pids):
            # One that is suspended is taken for dead, and goes on when another has begun.
            pids.append(begin(run, "take-over", None))
            time.sleep(dice.choice((0.0, 0.02, 0.2)))
            for pid in pids[:-1]:
                os.kill(pid, signal.SIGCONT)
        state = state_of(run)
        if state.finish_event and state.finish_event.state is JobState.SUCCEEDED:
            sys.stdout.write(json.dumps({"lives": number + 1}) + "\n")
            return
        by = "restart" if state.finish_event else "resume"
    raise TimeoutError(f"'{root}' does not come to its end")


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
