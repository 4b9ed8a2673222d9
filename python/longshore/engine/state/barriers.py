"""Barriers: hold jobs behind the groups that run before theirs, and count the jobs still missing; pure.

A barrier is not a job: nothing is started for it and no state counts it. It is passed at the moment when the last job
before it is over. The reason is in decision 0040.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from longshore.engine.state.job_codes import BAD_ENDS, OVER, JobCode
from longshore.model.workflow import Barrier


class Barriers:
    """Barriers of a run, and the jobs that each still waits for.

    Attributes
    ----------
    all
        The barriers.
    barriers_after
        Numbers of the barriers that wait for a job, per job that ends a group.
    barriers_before
        Numbers of the barriers that a job waits for, per job that begins a group.
    ended_jobs
        Jobs that are over since this list was last taken.
    """

    def __init__(self, barriers: Sequence[Barrier]) -> None:
        self.all = tuple(barriers)
        self.barriers_after: dict[int, list[int]] = {}
        self.barriers_before: dict[int, list[int]] = {}
        for number, barrier in enumerate(self.all):
            for job in barrier.after:
                self.barriers_after.setdefault(job, []).append(number)
            for job in barrier.before:
                self.barriers_before.setdefault(job, []).append(number)
        self._left = [len(barrier.after) for barrier in self.all]
        self._shut: set[int] = set()
        self.ended_jobs: list[int] = []

    def __bool__(self) -> bool:
        """Return whether the run has barriers."""
        return bool(self.all)

    def record_end(self, job: int, code: int) -> Iterator[tuple[Barrier, bool]]:
        """Yield the barriers that open (true), or shut for good (false), because a job ended with a code."""
        for number in self.barriers_after.get(job, ()):
            barrier = self.all[number]
            if barrier.blocking and code != JobCode.SUCCEEDED:
                if number not in self._shut:
                    self._shut.add(number)
                    yield barrier, False
                continue
            self._left[number] -= 1
            if not self._left[number]:
                yield barrier, True

    def is_shut(self, job: int) -> bool:
        """Return whether a job waits for a group that has failed."""
        return any(number in self._shut for number in self.barriers_before.get(job, ()))

    def find_blocking(self, job: int) -> list[Barrier]:
        """Return the barriers that keep a job from starting."""
        return [self.all[number] for number in self.barriers_before.get(job, ()) if self._left[number]]

    def recount(self, code: Sequence[int]) -> Iterator[tuple[Barrier, int]]:
        """Recount missing jobs after a restart, from the code per job; yield each changed barrier and its change.

        The change is by how much more each job behind the barrier waits now.
        """
        self.ended_jobs.clear()
        self._shut.clear()
        for number, barrier in enumerate(self.all):
            done = (JobCode.SUCCEEDED,) if barrier.blocking else OVER
            left = sum(code[job] not in done for job in barrier.after)
            if barrier.blocking and any(code[job] in BAD_ENDS for job in barrier.after):
                self._shut.add(number)
            before, self._left[number] = self._left[number], left
            if bool(before) != bool(left):
                yield barrier, bool(left) - bool(before)
