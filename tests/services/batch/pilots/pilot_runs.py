"""A run whose pilots are processes of this machine, and jobs that mark their starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec
from tests.services.batch.pilots.local_allocations import LocalAllocations

from longshore.contract.executor import BatchMember
from longshore.contract.service import RunPaths
from longshore.model.event import Ended, Lost
from longshore.services.batch.pilots.allocations import PilotSettings
from longshore.services.batch.pilots.executor import PilotExecutor
from longshore.testing.conformance.executor import ExecutorDriver

SETTINGS = PilotSettings(cpus=2, memory_b=1 << 30, count=2, lease_s=4.0, margin_s=1.0, settle_s=0.2, idle_s=60.0)


class PilotRun:
    """A run directory, its allocations, and the engines that follow each other."""

    def __init__(self, root: Path, settings: PilotSettings = SETTINGS) -> None:
        self.run = RunPaths(root)
        self.settings = settings
        self.allocations = LocalAllocations(root, settings)
        self.life = 0

    def begin_life(self) -> ExecutorDriver:
        """Open an executor; an earlier one is left as if its engine was killed."""
        self.life += 1
        return ExecutorDriver(PilotExecutor(self.allocations, self.settings), self.run, self.life, timeout_s=60.0)


def marking(driver: ExecutorDriver, seconds: float = 0.0, *, previous: BatchMember | None = None) -> BatchMember:
    """Return an attempt that leaves a line in the file of its job when it starts."""
    member = driver.member("true", previous=previous)
    line = f"echo {member.attempt} >> mark{member.job}{f'; exec sleep {seconds}' if seconds else ''}"
    return msgspec.structs.replace(member, command=("/bin/sh", "-c", line))


def starts(run: RunPaths, member: BatchMember) -> list[int]:
    """Return the numbers of the attempts of a job that started, in their sequence."""
    path = run.root / f"mark{member.job}"
    return list(map(int, path.read_text("utf-8").split())) if path.exists() else []


def marks(run: RunPaths, member: BatchMember) -> int:
    """Return how often an attempt started."""
    return starts(run, member).count(member.attempt)


class RetryingRun:
    """Jobs whose lost attempts are tried again, as an engine does, until each has ended or its budget is spent."""

    def __init__(self, driver: ExecutorDriver, seconds: Sequence[float], *, budget: int) -> None:
        self.driver = driver
        self.budget = budget
        self.attempts = [[marking(driver, each)] for each in seconds]
        """Attempts of each job."""
        self._seconds = seconds
        self._open = set(range(len(seconds)))
        driver.submit(*(members[0] for members in self.attempts))

    @property
    def is_over(self) -> bool:
        """Whether every job is over."""
        return not self._open

    def step(self, pause_s: float = 0.05) -> None:
        """Take news, and try lost jobs again."""
        driver = self.driver
        driver.poll()
        again: list[BatchMember] = []
        for number in sorted(self._open):
            newest = self.attempts[number][-1]
            ends = driver.ends.get((newest.job, newest.attempt))
            if ends is None:
                continue
            if isinstance(ends[0], Lost) and newest.attempt <= self.budget:
                again.append(marking(driver, self._seconds[number], previous=newest))
                self.attempts[number].append(again[-1])
            else:
                self._open.discard(number)
        if again:
            driver.submit(*again)
        driver.executor.wait(pause_s)  # type: ignore[attr-defined]

    def check(self) -> int:
        """Check that each attempt has one end, agrees with its marks, and ran once; return how many were lost."""
        lost = 0
        for members in self.attempts:
            ends = [self.driver.ends[member.job, member.attempt] for member in members]
            assert [len(each) for each in ends] == [1] * len(members), "each attempt has one end"
            began = starts(self.driver.run, members[-1])
            assert len(began) == len(set(began)), f"job {members[0].job} started {began}"
            for member, (end,) in zip(members, ends, strict=True):
                # What is lost may have started; what ended has.
                assert isinstance(end, Lost) or member.attempt in began
            assert all(isinstance(end, Lost) for (end,) in ends[:-1])
            assert isinstance(ends[-1][0], Ended), f"job {members[0].job} spent its budget: {ends}"
            lost += len(members) - 1
        assert not self.driver.never_started
        return lost


class Killer:
    """Kills pilots at random moments, `most` in all, on average every `every_s`."""

    def __init__(self, allocations: LocalAllocations, seed: int, *, most: int, every_s: float) -> None:
        self.kills = 0
        self._allocations = allocations
        self._random = Random(seed)
        self._most = most
        self._every_s = every_s
        self._due_at = 0.0

    def strike(self, now: float) -> None:
        """Kill a pilot if it is time."""
        if not self._due_at:
            self._due_at = now + self._random.uniform(0, 2 * self._every_s)
        alive = self._allocations.alive()
        if self.kills < self._most and now >= self._due_at and alive:
            self._allocations.kill(self._random.choice(alive))
            self.kills += 1
            self._due_at = now + self._random.uniform(0, 2 * self._every_s)
