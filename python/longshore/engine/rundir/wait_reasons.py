"""Keeps why the workload manager does not start what it has: shown by reports, kept where it may be thrown away."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from longshore.contract.batch import WaitReasons
from longshore.contract.context import RunPaths
from longshore.engine.state.job_codes import Code
from longshore.engine.state.run_state import RunState
from longshore.world.runs.run_directory import write_waiting


class WaitingJobs:
    """Why jobs wait that were handed over, as of the manager's newest answer.

    Parameters
    ----------
    run
        The run directory, where readers find it.
    state
        Where the jobs stand.
    """

    def __init__(self, run: RunPaths, state: RunState) -> None:
        self._run = run
        self._state = state
        self._newest = WaitReasons()

    def take(self, waiting: WaitReasons) -> None:
        """Take in what the manager says, and leave it to readers where it is new."""
        if waiting == self._newest:
            return
        self._newest = waiting
        # Nobody's decision hangs on it: a disk that is full says so elsewhere.
        with suppress(OSError):
            write_waiting(self._run, waiting)

    @property
    def held(self) -> frozenset[int]:
        """Jobs that only a person lets go."""
        return held_jobs(self._newest, self._state.code)

    @property
    def note(self) -> str:
        """What to tell people of those that are held; empty where none is."""
        held = len(self.held)
        if not held:
            return ""
        reasons = ", ".join(sorted(self._newest.held))
        hint = f"; {self._newest.hint}" if self._newest.hint else ""
        jobs = "1 job is" if held == 1 else f"{held} jobs are"
        return f"{jobs} held by the workload manager ({reasons}){hint}"


def held_jobs(waiting: WaitReasons, code: Sequence[int]) -> frozenset[int]:
    """The jobs that the manager holds and that have not moved since.

    Parameters
    ----------
    waiting
        What the manager said.
    code
        Where each job stands.
    """
    named = (job for reason in waiting.held for job in waiting.reasons.get(reason, ()))
    return frozenset(job for job in named if job < len(code) and code[job] == Code.PENDING)
