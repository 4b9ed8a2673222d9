"""Wait reasons: why the workload manager does not start submitted jobs, kept for reports in a disposable file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from longshore.contract.batch import WaitReasons
from longshore.contract.context import RunPaths
from longshore.engine.state.job_codes import JobCode
from longshore.engine.state.run_state import RunState
from longshore.world.runs.run_directory import write_waiting


class WaitReasonsWriter:
    """Reasons why submitted jobs wait, as of the manager's newest answer; readers find them in the run directory."""

    def __init__(self, run: RunPaths, state: RunState) -> None:
        self._run = run
        self._state = state
        self._newest = WaitReasons()

    def update(self, waiting: WaitReasons) -> None:
        """Take the manager's reasons, and write them for readers if they are new."""
        if waiting == self._newest:
            return
        self._newest = waiting
        # No decision depends on the file: a full disk is reported elsewhere.
        with suppress(OSError):
            write_waiting(self._run, waiting)

    @property
    def held(self) -> frozenset[int]:
        """Jobs that only a person can release."""
        return find_held_jobs(self._newest, self._state.code)

    @property
    def note(self) -> str:
        """Message about held jobs for people; empty without any."""
        held = len(self.held)
        if not held:
            return ""
        reasons = ", ".join(sorted(self._newest.held))
        hint = f"; {self._newest.hint}" if self._newest.hint else ""
        jobs = "1 job is" if held == 1 else f"{held} jobs are"
        return f"{jobs} held by the workload manager ({reasons}){hint}"


def find_held_jobs(waiting: WaitReasons, code: Sequence[int]) -> frozenset[int]:
    """Return the jobs that the manager holds and that have not changed their state since it answered."""
    named = (job for reason in waiting.held for job in waiting.reasons.get(reason, ()))
    return frozenset(job for job in named if job < len(code) and code[job] == JobCode.PENDING)
