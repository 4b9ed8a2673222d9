"""Many runs on one machine, in simulated time: engines with the real shares, keepers with the real units.

Nothing is real but the code that decides: locks, files, clocks and jobs are simulated, so that ten thousand histories
take minutes. Engines are killed, resumed and stopped; their clocks differ and run at other speeds.
"""

from __future__ import annotations

import errno
import fcntl
import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

import msgspec

from longshore.contract.executor import UnitHolder
from longshore.engine import shares
from longshore.engine.schedule.resource_pool import Pool
from longshore.engine.shares import LIMIT_PREFIX, PATIENCE_S, RunShares, unit_index
from longshore.keeper.program.units import INDEX_SPACE, HeldUnits, UnitFile
from longshore.runstate.run_state import JobCode

_FLOCK: Final = struct.Struct("@hhqqi4x")
_ROUND_S: Final = 0.25
_SETTLED_S: Final = 5.0
"""Seconds after a stop or a kill in which others may still look for the run."""
_SLACK_S: Final = 1.5
"""Seconds within which a run that waits must have seen what is free."""


class Kernel:
    """Files and the locks of open files."""

    def __init__(self, lot: random.Random) -> None:
        self.lot = lot
        self.content = bytearray()
        self.locks: dict[int, list[tuple[int, int]]] = {}
        self._numbers = count(3)

    def open(self, *_: object) -> int:
        number = next(self._numbers)
        self.locks[number] = []
        return number

    def chmod(self, *_: object) -> None:
        """Folders have no permissions."""

    def fstat(self, _: int) -> SimpleNamespace:
        return SimpleNamespace(st_size=len(self.content))

    def close(self, number: int) -> None:
        del self.locks[number]

    def pread(self, _: int, size: int, at: int) -> bytes:
        return bytes(self.content[at : at + size])

    def pwrite(self, _: int, data: bytes, at: int) -> int:
        self.content.extend(bytes(max(0, at + len(data) - len(self.content))))
        self.content[at : at + len(data)] = data
        return len(data)

    def fcntl(self, number: int, command: int, argument: bytes) -> bytes:
        kind, _, start, length, _ = _FLOCK.unpack(argument)
        end = start + length
        others = [
            each
            for other, ranges in self.locks.items()
            if other != number
            for each in ranges
            if each[0] < end and start < each[1]
        ]
        if command == fcntl.F_OFD_GETLK:
            if not others:
                return _FLOCK.pack(fcntl.F_UNLCK, 0, start, length, 0)
            first, after = self.lot.choice(others)
            return _FLOCK.pack(fcntl.F_WRLCK, 0, first, after - first, -1)
        if kind == fcntl.F_WRLCK and others:
            raise OSError(errno.EAGAIN, "taken")
        rest = []
        for first, after in self.locks[number]:
            rest += [piece for piece in ((first, min(after, start)), (max(first, end), after)) if piece[0] < piece[1]]
        self.locks[number] = [*rest, (start, end)] if kind == fcntl.F_WRLCK else rest
        return argument

    def count(self, index: int) -> int:
        """Count the locked units of a resource."""
        base = index * INDEX_SPACE
        return sum(
            after - first
            for ranges in self.locks.values()
            for first, after in ranges
            if base <= first < base + INDEX_SPACE
        )


class Job(msgspec.Struct):
    """A job: what it takes of the machine and of limits, and for how long."""

    amounts: dict[str, int]
    limits: dict[str, int]
    run_s: float
    started_at: float | None = None
    ended_at: float | None = None


class FakeScheduler:
    """Starts jobs in order, and lets smaller ones pass one that does not fit; has what `RunShares` asks for."""

    def __init__(self, jobs: Sequence[Job], capacity: Mapping[str, int], limits: Mapping[str, int]) -> None:
        self.jobs = jobs
        self.pool = Pool(capacity)
        self.limit_pool = Pool({name: most for name, most in limits.items() if any(name in job.limits for job in jobs)})
        self.ready = [number for number, job in enumerate(jobs) if job.started_at is None]
        self.state = SimpleNamespace(active={}, code={}, identities={})
        self.may_look_ahead = True
        for number, job in enumerate(jobs):
            if job.started_at is not None and job.ended_at is None:
                self._begin(number)
                self.state.code[number] = JobCode.RUNNING

    def _begin(self, number: int) -> None:
        self.state.active[number] = "batch"
        self.state.code[number] = JobCode.PENDING
        for pool, amounts in self.amounts_of(number):
            pool.hold(amounts)

    def has_ready(self, _: float) -> bool:
        return bool(self.ready)

    def next_job_demand(self, _: float) -> dict[str, int]:
        return dict(self.jobs[self.ready[0]].amounts) if self.ready else {}

    def compute_limit_demand(self, _pool: Pool, _: float) -> dict[str, int]:
        most: dict[str, int] = {}
        for number in self.ready:
            for name, amount in self.jobs[number].limits.items():
                most[name] = max(amount, most.get(name, 0))
        return most

    def amounts_of(self, number: int) -> list[tuple[Pool, Mapping[str, int]]]:
        job = self.jobs[number]
        return [(self.pool, job.amounts), (self.limit_pool, job.limits)] if number in self.state.active else []

    def blocked_amounts(self) -> list[Mapping[str, int]]:
        return []

    def choose(self) -> list[int]:
        """Choose jobs to start now."""
        chosen = []
        for number in list(self.ready):
            job = self.jobs[number]
            if self.pool.fits(job.amounts) and self.limit_pool.fits(job.limits):
                self.ready.remove(number)
                self._begin(number)
                chosen.append(number)
        return chosen

    def end(self, number: int, *, again: bool = False) -> None:
        """End a job, or take it back."""
        for pool, amounts in self.amounts_of(number):
            pool.give(amounts)
        del self.state.active[number]
        if again:
            self.ready.insert(0, number)


class SimulatedRun:
    """A run: its engine, which may be gone or stopped, and its keepers, which outlive it."""

    def __init__(
        self, world: World, name: str, jobs: list[Job], capacity: dict[str, int], skew: float, speed: float
    ) -> None:
        self.world = world
        self.name = name
        self.jobs = jobs
        self.capacity = capacity
        self.skew, self.speed = skew, speed
        self.shares: RunShares | None = None
        self.scheduler: FakeScheduler
        self.keeper: HeldUnits
        self.news: list[int] = []
        self.life = 0
        self.stopped_until = 0.0
        self.disturbed_at = world.now
        self.waits_since: float | None = None
        self.ticket = 0

    @property
    def is_over(self) -> bool:
        return all(job.ended_at is not None for job in self.jobs)

    def elapsed(self) -> float:
        return self.skew + self.speed * self.world.now

    def now(self) -> float:
        return self.elapsed()

    def begin(self) -> None:
        """Begin a life of the engine."""
        self.life += 1
        self.scheduler = FakeScheduler(self.jobs, self.capacity, self.world.limits)
        self.keeper = HeldUnits(UnitFile(self.world.kernel.open(), self.world.kernel))
        limits = SimpleNamespace(limits=self.scheduler.limit_pool, pools=())
        self.shares = RunShares(
            SimpleNamespace(id=self.name),  # type: ignore[arg-type]
            self.scheduler,  # type: ignore[arg-type]
            limits,  # type: ignore[arg-type]
            executor=_Holder(),  # type: ignore[arg-type]
            machine=True,
            job_name=str,
            clock=self,
            log_line=lambda _: None,
        )
        self.world.at(0.0, self.work, self.life)

    def kill(self) -> None:
        """Kill the engine; the keeper waits for its jobs."""
        if self.shares is not None:
            self.shares.release()
            self.shares = None
            self.news = []
            self.waits_since, self.ticket = None, 0
            self.disturbed_at = self.world.now

    def work(self, life: int) -> None:
        """Do one round of the engine."""
        if self.shares is None or life != self.life:
            return
        if self.world.now < self.stopped_until:
            self.world.at(self.stopped_until - self.world.now, self.work, life)
            return
        self._round(self.shares)
        if self.is_over:
            self.shares.release()
            self.shares = None
            return
        self.world.at(min(_ROUND_S, self.shares.poll_s) * self.world.lot.uniform(0.8, 1.2), self.work, life)

    def _note_wait(self) -> None:
        """Note since when the run waits for others: its own jobs may have all that it knows of."""
        assert self.shares is not None
        number = self.shares._shared[0].number
        if number != self.ticket:
            self.waits_since = self.world.now if number else None
        self.ticket = number

    def start(self, number: int, life: int, since: float | None) -> None:
        """Let the keeper start a job, unless its engine has died since it was decided; then the run waited `since`."""
        if self.shares is None or life != self.life:
            return
        job = self.jobs[number]
        if not self.keeper.take(number, self.shares.units_of(number)):
            self.scheduler.end(number, again=True)
            self.world.races += 1
            return
        self.world.check_start(self, job, self.world.now if since is None else since)
        job.started_at = self.world.now
        self.scheduler.state.code[number] = JobCode.RUNNING
        self.world.at(job.run_s, self.end, number, self.keeper)

    def end(self, number: int, keeper: HeldUnits) -> None:
        """Let the keeper record the end of a job, and wake the engine."""
        self.jobs[number].ended_at = self.world.now
        keeper.pass_on(number, None)
        if self.shares is not None:
            self.news.append(number)
            self.world.at(0.005, self.work_once, self.life)

    def work_once(self, life: int) -> None:
        """Do a round because there is news; the next one is due as it was."""
        if self.shares is not None and life == self.life and self.news and self.world.now >= self.stopped_until:
            self._round(self.shares)

    def _round(self, run_shares: RunShares) -> None:
        scheduler = self.scheduler
        news, self.news = self.news, []
        for number in news:
            if number in scheduler.state.active:
                scheduler.end(number)
        list(run_shares.look())
        chosen = scheduler.choose()
        run_shares.settle([SimpleNamespace()] * len(chosen))  # type: ignore[list-item]
        for number in chosen:
            delay_s = self.world.lot.choice((0.0, self.world.lot.uniform(0, 0.01)))
            self.world.at(delay_s, self.start, number, self.life, self.waits_since)
        self._note_wait()


class _Holder(UnitHolder):
    def hold_units(self, file: Path) -> None:
        pass


def _number_of_runs(lot: random.Random) -> int:
    return 40 if lot.random() < 0.01 else lot.choice((2, 2, 2, 3, 3, 4, 6))


class World:
    """One machine, its runs, and what must hold at any moment."""

    def __init__(self, seed: int) -> None:
        self.lot = lot = random.Random(seed)
        self.now = 0.0
        self.kernel = Kernel(lot)
        self.races = 0
        self.broken: list[str] = []
        self._events: list[tuple[float, int, Any, tuple[Any, ...]]] = []
        self._order = count()
        self.limits = {f"limit{number}": lot.randint(1, 4) for number in range(lot.choice((0, 0, 1, 2)))}
        self.capacity = {"cpus": lot.choice((1, 2, 2, 4, 8, 64)), "memory": lot.choice((1_000, 8_000, 64_000))}
        if lot.random() < 0.3:
            self.capacity["licences"] = lot.randint(1, 3)
        number = _number_of_runs(lot)
        self.is_crowded = number == 40
        self.runs = [self._make_run(number) for number in range(number)]
        for run in self.runs:
            self.at(lot.choice((0.0, 0.0, lot.uniform(0, 20))), run.begin)
        self.ends_faults_at = lot.choice((0.0, 20.0, 60.0))
        if self.ends_faults_at:
            for run in self.runs:
                if lot.random() < 0.5:
                    self.at(lot.uniform(0, self.ends_faults_at), self._disturb, run)

    def _make_run(self, number: int) -> SimulatedRun:
        lot = self.lot
        scale = 0.5 if self.is_crowded else lot.choice((0.01, 1.0, 1.0, 1.0, 8.0))
        capacity = {name: max(1, most // lot.choice((1, 1, 1, 2))) for name, most in self.capacity.items()}
        most = 2 if self.is_crowded else 6
        jobs = [self._make_job(scale, capacity) for _ in range(lot.randint(1, most))]
        return SimulatedRun(self, f"run{number}", jobs, capacity, lot.uniform(-1e6, 1e6), lot.uniform(0.98, 1.02))

    def _make_job(self, scale: float, capacity: Mapping[str, int]) -> Job:
        lot = self.lot
        cpus = lot.choice((1, 1, 1, lot.randint(1, capacity["cpus"]), capacity["cpus"]))
        amounts = {"cpus": cpus, "memory": lot.randint(1, max(1, capacity["memory"] // lot.choice((1, 4, 20))))}
        if "licences" in capacity and lot.random() < 0.3:
            amounts["licences"] = 1
        limits = {name: 1 for name in self.limits if lot.random() < 0.3}
        return Job(amounts, limits, run_s=scale * lot.uniform(0.2, 3))

    def _disturb(self, run: SimulatedRun) -> None:
        run.disturbed_at = self.now
        if run.shares is None:
            return
        if self.lot.random() < 0.5:
            run.stopped_until = self.now + self.lot.uniform(0.1, 30)
            run.disturbed_at = run.stopped_until
            self.at(run.stopped_until - self.now + 0.001, lambda: None)
        else:
            run.kill()
            self._check_dead(run)
            self.at(self.lot.uniform(0.0, 20.0), run.begin)

    def at(self, delay_s: float, act: Any, *arguments: Any) -> None:
        """Do something later."""
        heappush(self._events, (self.now + delay_s, next(self._order), act, arguments))

    def run(self) -> list[str]:
        """Let time pass until all is over; return what was broken."""
        with (
            patch.object(shares, "files", self.kernel),
            patch.object(shares, "make_folders"),
            patch.object(shares, "_POLL_S", 0.25),
        ):
            while self._events and not self.broken:
                self.now, _, act, arguments = heappop(self._events)
                act(*arguments)
                if self.now > 10_000:
                    self.broken.append("not over after 10,000 s")
        if not self.broken and not all(run.is_over for run in self.runs):
            self.broken.append("jobs are left, and nobody works")
        return self.broken

    def free(self) -> dict[str, int]:
        """What no running job has, by name."""
        taken: dict[str, int] = {}
        for job in self._running():
            for name, amount in (*job.amounts.items(), *job.limits.items()):
                taken[name] = taken.get(name, 0) + amount
        return {name: most - taken.get(name, 0) for name, most in (*self.capacity.items(), *self.limits.items())}

    def _running(self) -> Iterator[Job]:
        return (job for run in self.runs for job in run.jobs if job.started_at is not None and job.ended_at is None)

    def check_start(self, run: SimulatedRun, job: Job, since: float) -> None:
        """Check a start: nothing is taken twice, and nobody is passed over who has waited longer."""
        free = self.free()
        for name, amount in (*job.amounts.items(), *job.limits.items()):
            if amount > free[name]:
                self.broken.append(f"{self.now:.3f}: '{run.name}' takes {amount} of {name}, and {free[name]} are free")
        for other in self.runs:
            if self._has_waited_longer(other, run, job, since):
                self._check_passing(other, run, job, free)

    def _has_waited_longer(self, other: SimulatedRun, run: SimulatedRun, job: Job, since: float) -> bool:
        """Return whether a run waits, first of all and for long enough, for what is held back by others alone."""
        if other is run or other.waits_since is None or self._is_disturbed(other) or self._is_disturbed(run):
            return False
        if self.now - other.waits_since < _SLACK_S or other.waits_since > since - _SLACK_S:
            return False
        # Many begin at once: their tickets tell who is first.
        if any(each.waits_since is not None and each.ticket < other.ticket for each in self.runs):
            # What is free may be left to those before it.
            return False
        wanted = other.jobs[other.scheduler.ready[0]]
        pool = other.scheduler.pool
        own = all(amount <= pool.capacity[name] - pool.amounts_in_use[name] for name, amount in wanted.amounts.items())
        # A limit may hold it back, or its own jobs, or what is free is none of its units.
        return own and not wanted.limits and not job.limits and other.capacity == self.capacity

    def _check_passing(self, other: SimulatedRun, run: SimulatedRun, job: Job, free: Mapping[str, int]) -> None:
        wanted = other.jobs[other.scheduler.ready[0]].amounts
        assert other.waits_since is not None
        waited = self.now - other.waits_since
        fits = all(free[name] >= amount for name, amount in wanted.items())
        stays = all(free[name] - job.amounts.get(name, 0) >= amount for name, amount in wanted.items())
        if fits and not stays:
            self.broken.append(f"{self.now:.3f}: '{run.name}' passes '{other.name}', which waits for {waited:.1f} s")
        lacking = [name for name, amount in wanted.items() if free[name] < amount]
        if waited > PATIENCE_S * 1.03 + _SLACK_S and any(job.amounts.get(name) for name in lacking):
            self.broken.append(f"{self.now:.3f}: '{run.name}' takes what is kept for '{other.name}'")

    def _is_disturbed(self, run: SimulatedRun) -> bool:
        return self.now < run.disturbed_at + _SETTLED_S

    def _check_dead(self, run: SimulatedRun) -> None:
        """Check that a dead engine has nothing, and its keeper what its jobs hold."""
        held = dict.fromkeys(self.capacity, 0)
        for job in self._running():
            for name, amount in job.amounts.items():
                held[name] += amount
        for name, amount in held.items():
            if (locked := self.kernel.count(unit_index(name))) != amount:
                self.broken.append(f"{self.now:.3f}: {locked} of {name} are locked, and jobs hold {amount}")
        for name in self.limits:
            amount = sum(job.limits.get(name, 0) for job in self._running())
            if (locked := self.kernel.count(unit_index(f"{LIMIT_PREFIX}{name}"))) != amount:
                self.broken.append(f"{self.now:.3f}: {locked} of {name} are locked, and jobs hold {amount}")
