"""Wait reasons: why the workload manager does not start submitted jobs, kept for reports in a disposable file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from longshore.contract.executor import WaitReasons
from longshore.contract.service import RunPaths
from longshore.engine.state.job_codes import JobCode
from longshore.engine.state.run_state import RunState
from longshore.rundir.run_directory import write_waiting


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
        """Message for people about jobs that are held or can never start; empty without any."""
        return "; ".join(filter(None, (self._held_note, *hopeless_notes(self._newest, self._state.code))))

    @property
    def _held_note(self) -> str:
        held = len(self.held)
        if not held:
            return ""
        reasons = ", ".join(sorted(self._newest.held))
        hint = f"; {self._newest.hint}" if self._newest.hint else ""
        jobs = "1 job is" if held == 1 else f"{held} jobs are"
        return f"{jobs} held by the workload manager ({reasons}){hint}"


def find_held_jobs(waiting: WaitReasons, code: Sequence[int]) -> frozenset[int]:
    """Return the jobs that the manager holds and that have not changed their state since it answered."""
    return frozenset(job for reason in waiting.held for job in _waiting_jobs(waiting, reason, code))


def hopeless_notes(waiting: WaitReasons, code: Sequence[int]) -> list[str]:
    """Return a message per reason for jobs that can never start, with the change that mends it."""
    numbers = {reason: len(_waiting_jobs(waiting, reason, code)) for reason in sorted(waiting.hopeless)}
    return [
        f"{'1 job' if number == 1 else f'{number} jobs'} can never start ({reason}): {waiting.hopeless[reason]}"
        for reason, number in numbers.items()
        if number
    ]


def _waiting_jobs(waiting: WaitReasons, reason: str, code: Sequence[int]) -> list[int]:
    jobs = waiting.reasons.get(reason, ())
    return [job for job in jobs if job < len(code) and code[job] == code_of_waiting(waiting, job)]


def code_of_waiting(waiting: WaitReasons, job: int) -> JobCode:
    """Return the state of a job that still waits: one that was requeued runs, until its attempt ends."""
    return JobCode.RUNNING if job in waiting.requeued else JobCode.PENDING
