"""What a living engine tells of its run: snapshots, which are its heartbeat, why it waits, and why its jobs wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from longshore.contract.executor import WaitReasons
from longshore.contract.service import RunPaths
from longshore.model.report import Snapshot
from longshore.rundir.journal import Journal
from longshore.rundir.run_directory import write_snapshot, write_waiting
from longshore.runstate.run_state import JobCode, RunState
from longshore.system.host import Clock

# Wait notes: collects why the engine waits, round by round, and logs each reason once while it lasts.


_REPEAT_S: Final = 60.0
"""Time after which an absent reason has passed, so that it is logged again when it comes back."""


class WaitNotes:
    """Reasons why the engine waits, as of this round; `log_line` takes a line for the engine's log."""

    def __init__(self, clock: Clock, log_line: Callable[[str], None]) -> None:
        self._clock = clock
        self._log_line = log_line
        self._now: list[str] = []
        self._logged_at: dict[str, float] = {}
        """Monotonic time at which each reason last held."""

    def __str__(self) -> str:
        return "; ".join(self._now)

    def begin(self, *notes: str) -> None:
        """Begin a round with the reasons that still hold."""
        self._now = []
        for note in filter(None, notes):
            self.add(note)

    def add(self, why: str) -> None:
        """Show a reason, and log it if it is new."""
        if why not in self._now:
            self._now.append(why)
        now = self._clock.elapsed()
        # Several may hold by turns, four times a second and for days.
        self._logged_at = {each: at for each, at in self._logged_at.items() if now - at < _REPEAT_S}
        if why not in self._logged_at:
            self._log_line(why)
        self._logged_at[why] = now


# Wait reasons: why the workload manager does not start submitted jobs, kept for reports in a disposable file.


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


# Snapshot writer: writes ``status.json`` soon after news, and at intervals as the engine's heartbeat.


_MIN_INTERVAL_S: Final = 1.0
"""Time between two snapshots while there is news."""
_HEARTBEAT_S: Final = 10.0
"""Time between two snapshots without news."""


class SnapshotWriter:
    """Writer of the snapshots of one life; its journal is never behind a snapshot."""

    def __init__(self, run: RunPaths, journal: Journal, clock: Clock) -> None:
        self._run = run
        self._journal = journal
        self._clock = clock
        self._written_at = -_HEARTBEAT_S
        self._written_number = -1
        self._note = ""

    def is_due(self, notes: WaitNotes) -> bool:
        """Return whether it is time for another snapshot, which would carry these notes."""
        age = self._clock.elapsed() - self._written_at
        news = self._journal.number != self._written_number or str(notes) != self._note
        return age >= _HEARTBEAT_S or (news and age >= _MIN_INTERVAL_S)

    def write(self, snapshot: Snapshot) -> None:
        """Write a snapshot.

        Raises
        ------
        OSError
            It cannot be written; the next is due as if it had been.
        """
        self._written_at, self._written_number, self._note = self._clock.elapsed(), self._journal.number, snapshot.note
        self._journal.flush()
        write_snapshot(self._run, snapshot)
