"""How many jobs may be at the workload manager: lanes that run ahead of the slots, and its own limits; pure.

A lane is all the jobs of one request that a manager takes one after the other: as one ends the next takes its place,
without the engine's answer. Its members need equal amounts, so what it holds of the pool is its slots, whichever
members are in them. A slot stays the lane's until the lane has fewer members than slots.

"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final

from longshore.contract.executor import Limits
from longshore.engine.schedule.resource_pool import NO_IDENTITIES, Identities, Pool
from longshore.model.workflow import Request

# Lanes: waiting and running jobs per request.


NO_AMOUNTS: Final[Mapping[str, int]] = {}
_MAX_PER_SLOT = 16
"""Members ahead per slot, however short they are: more would gain nothing, and delay their events."""
_MIN_RUN_S = 1e-4
_FAILED_RUN_S = 3600.0
"""Run time expected after a failure, which keeps the lane from being filled ahead for a while."""
_NEWEST_WEIGHT = 0.1
"""Weight of the newest run time, where it is not the longest."""


class Lane:
    """Submitted jobs of one request that are not over.

    Parameters
    ----------
    number
        Number of the lane, which names it.
    amounts
        Amounts that each member takes from the pool.
    is_ahead_allowed
        Whether it may be filled ahead.
    limits
        Amounts that each member takes from other pools.
    """

    __slots__ = ("amounts", "expected_s", "is_ahead_allowed", "limits", "members", "name", "slots")

    def __init__(
        self,
        number: int,
        amounts: Mapping[str, int],
        *,
        is_ahead_allowed: bool,
        limits: Sequence[tuple[Pool, Mapping[str, int]]] = (),
    ) -> None:
        self.name = str(number)
        self.amounts = amounts
        self.limits = limits
        self.is_ahead_allowed = is_ahead_allowed
        self.members = 0
        """Number of submitted jobs, running or waiting."""
        self.slots = 0
        """Number of members that may run; never above `members`."""
        self.expected_s: float | None = None
        """Longest recent run time, fading; ``None`` before the first end."""

    def room_ahead(self, seconds: float) -> int:
        """Return how many more may be submitted with an expected wait of at most `seconds`."""
        if not self.is_ahead_allowed or self.expected_s is None:
            return 0
        members_per_slot = min(_MAX_PER_SLOT, seconds / max(self.expected_s, _MIN_RUN_S))
        return int(self.slots * members_per_slot) - (self.members - self.slots)

    def learn(self, run_s: float | None) -> None:
        """Learn the run time of a member; ``None`` for one that did not run to its end."""
        if run_s is None:
            run_s = _FAILED_RUN_S
        longest = self.expected_s
        if longest is not None and run_s < (longest := min(longest, 1.0)):
            run_s = longest + _NEWEST_WEIGHT * (run_s - longest)
        self.expected_s = run_s


_NO_LANE: Final = Lane(-1, NO_AMOUNTS, is_ahead_allowed=False)


class Lanes:
    """All lanes of a run, and the pools that they share.

    Parameters
    ----------
    pool
        The resources that jobs take; ``None`` where the workload manager counts them.
    limit_pools
        Pools that some jobs take from as well, each with other names: limits and categories.
    """

    def __init__(self, pool: Pool | None, limit_pools: Sequence[Pool] = ()) -> None:
        self.pool = pool
        self._limit_pools = limit_pools
        self._lanes: dict[Hashable, Lane] = {}
        self._lane_of: dict[int, Lane] = {}
        """Lane of every member."""
        self._inherited: dict[int, Lane] = {}
        """Lanes whose requests fit jobs that an earlier life submitted: their own lanes ended with that life."""
        self.identities: dict[int, Identities] = {}
        """Identities of the pool's named resources that each job has."""

    def __len__(self) -> int:
        """Return the number of submitted jobs that are not over."""
        return len(self._lane_of) + len(self._inherited)

    def __contains__(self, job: int) -> bool:
        """Return whether a job is submitted and not over."""
        return job in self._lane_of or job in self._inherited

    def learn(self, request: Request, limit_amounts: Mapping[str, int] = NO_AMOUNTS) -> Lane:
        """Return the lane of a request, made at its first use; `limit_amounts` are amounts from other pools."""
        limits = [(pool, amounts) for pool in self._limit_pools if (amounts := pool.clamp(limit_amounts))]
        key = (request.key(), tuple(sorted(limit_amounts.items())) if limits else ())
        if key not in self._lanes:
            amounts = request.amounts()
            # Named resources may have identities, which one given job gets and not the next to start; and a resource
            # shared with other runs is not kept for a job that may come.
            is_ahead_allowed = not request.resources and not limits
            self._lanes[key] = Lane(
                len(self._lanes),
                self.pool.clamp(amounts) if self.pool is not None else amounts,
                is_ahead_allowed=is_ahead_allowed,
                limits=limits,
            )
        return self._lanes[key]

    def is_full(self) -> bool:
        """Return whether no request fits: every job takes a processor."""
        return self.pool is not None and self.pool.free.get("cpus", 1) <= 0

    def fits(self, lane: Lane) -> bool:
        """Return whether one more slot of a lane is free right now."""
        return self.count_fitting(lane, 1) == 1

    def count_fitting(self, lane: Lane, most: int) -> int:
        """Return how many more slots of a lane are free right now, up to `most`."""
        for pool, amounts in lane.limits:
            most = pool.count_fitting(amounts, most)
        return most if self.pool is None else self.pool.count_fitting(lane.amounts, most)

    def amounts_of(self, job: int) -> Sequence[tuple[Pool, Mapping[str, int]]]:
        """Return what a submitted job takes of each pool; nothing for one that is not."""
        lane = self._lane_of.get(job) or self._inherited.get(job) or _NO_LANE
        return [*lane.limits, (self.pool, lane.amounts)] if self.pool is not None else lane.limits

    def is_within_limits(self, lane: Lane) -> bool:
        """Return whether limits and categories let one more job of a lane run right now."""
        return not lane.limits or all(pool.fits(amounts) for pool, amounts in lane.limits)

    def room_ahead(self, lane: Lane, seconds: float) -> int:
        """Return how many more of a lane may be submitted ahead: 0 while the pool is taken beyond its ceiling."""
        if self.pool is not None and any(self.pool.free[name] < 0 for name in lane.amounts):
            return 0
        return lane.room_ahead(seconds)

    def inherit(self, job: int, lane: Lane, identities: Identities = NO_IDENTITIES) -> None:
        """Count a job that an earlier life submitted."""
        self._inherited[job] = lane
        if identities:
            self.identities[job] = identities
        for pool, amounts in lane.limits:
            pool.hold(amounts)
        if self.pool is not None:
            self.pool.hold(lane.amounts, identities)

    def start(self, jobs: Sequence[int], lane: Lane) -> None:
        """Add members to a lane, and a slot for each of them."""
        self._lane_of.update(dict.fromkeys(jobs, lane))
        lane.members += len(jobs)
        lane.slots += len(jobs)
        for pool, amounts in lane.limits:
            pool.hold(amounts, times=len(jobs))
        if self.pool is None:
            return
        if not self.pool.identities:
            self.pool.hold(lane.amounts, times=len(jobs))
            return
        for job in jobs:
            if identities := self.pool.take(lane.amounts):
                self.identities[job] = identities

    def start_ahead(self, job: int, lane: Lane) -> None:
        """Add a member to a lane, which waits for one of its slots."""
        self._lane_of[job] = lane
        lane.members += 1

    def end(self, job: int, run_s: float | None) -> None:
        """Remove a job that is over or taken back from its lane; a waiting member gets its slot."""
        inherited = self._inherited.pop(job, None) if self._inherited else None
        amounts = inherited.amounts if inherited is not None else None
        lane = self._lane_of.pop(job, None)
        for pool, taken in (inherited or lane or _NO_LANE).limits:
            pool.give(taken)
        if lane is not None:
            lane.members -= 1
            lane.learn(run_s)
            if lane.members < lane.slots:
                lane.slots -= 1
                amounts = lane.amounts
        if amounts is not None and self.pool is not None:
            self.pool.give(amounts, self.identities.pop(job, NO_IDENTITIES) if self.identities else NO_IDENTITIES)


# The manager's limits; packed jobs have limits of their own.


class _JobCounts:
    """Jobs that count for the same limits."""

    def __init__(self) -> None:
        self.waiting = 0
        self.active = 0
        self.alike: Counter[Hashable] = Counter()
        """Waiting jobs per bucket; counted only where they are limited."""

    def count_room(self, bucket: Hashable, limits: Limits, most: int) -> int:
        """Return how many more jobs the limits allow, up to `most`."""
        if limits.max_waiting is not None:
            most = min(most, limits.max_waiting - self.waiting)
        if limits.max_waiting_alike is not None:
            most = min(most, limits.max_waiting_alike - self.alike[bucket])
        if limits.max_active is not None:
            most = min(most, limits.max_active - self.active)
        return max(0, most)

    def add(self, bucket: Hashable, limits: Limits, number: int) -> None:
        """Count jobs that are submitted in this round."""
        self.waiting += number
        self.active += number
        if limits.max_waiting_alike is not None:
            self.alike[bucket] += number


class SubmitRoom:
    """Counts the jobs at the workload manager in each round.

    `limits` are those of the workload manager. `packed_limits` are those of jobs that run in allocations of the
    executor.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.packed_limits = Limits()
        self.packed_buckets: set[Hashable] = set()
        """Buckets of packed jobs."""
        self._own, self._packed = _JobCounts(), _JobCounts()
        self._batches_left: int | None = None

    @property
    def needs_buckets(self) -> bool:
        """Whether `begin_round` needs the bucket of each job."""
        return bool(self.packed_buckets) or self.limits.max_waiting_alike is not None

    def begin_round(self, waiting: int, active: int, *, at_most: int | None) -> None:
        """Begin a round with so many waiting and active jobs, in which `at_most` batches may be submitted."""
        self._own, self._packed = _JobCounts(), _JobCounts()
        self._own.waiting, self._own.active, self._batches_left = waiting, active, at_most

    def count_jobs(self, jobs: Iterable[tuple[Hashable, bool]]) -> None:
        """Count all active jobs by bucket, and whether each waits; for `needs_buckets`."""
        counts = {False: _JobCounts(), True: _JobCounts()}
        for bucket, is_waiting in jobs:
            found = counts[bucket in self.packed_buckets]
            found.active += 1
            if is_waiting:
                found.waiting += 1
                found.alike[bucket] += 1
        self._own, self._packed = counts[False], counts[True]

    def has_room(self, bucket: Hashable) -> bool:
        """Whether the limits allow one more job of a bucket."""
        return self.count_room(bucket, 1) == 1

    def count_room(self, bucket: Hashable, most: int) -> int:
        """Return how many more jobs of a bucket the limits allow, up to `most`."""
        if bucket in self.packed_buckets:
            return self._packed.count_room(bucket, self.packed_limits, most)
        return self._own.count_room(bucket, self.limits, most) if self._batches_left != 0 else 0

    def add(self, bucket: Hashable, number: int = 1) -> None:
        """Count jobs of a bucket that are submitted in this round."""
        if bucket in self.packed_buckets:
            self._packed.add(bucket, self.packed_limits, number)
        else:
            self._own.add(bucket, self.limits, number)

    def add_batch(self, bucket: Hashable) -> None:
        """Count a batch, which is complete."""
        if self._batches_left is not None and bucket not in self.packed_buckets:
            self._batches_left -= 1

    def max_batch(self, bucket: Hashable, own: int) -> int:
        """Return the most members of a batch, where a batch of the workload manager has at most `own`."""
        return self.packed_limits.max_batch if bucket in self.packed_buckets else own
