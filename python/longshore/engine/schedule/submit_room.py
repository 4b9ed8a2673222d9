"""Room for more jobs at the workload manager, by its limits; packed jobs have limits of their own (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from longshore.contract.executor import Limits


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
        self._packed_buckets: set[Hashable] = set()
        self._own, self._packed = _JobCounts(), _JobCounts()
        self._batches_left: int | None = None

    def add_packed(self, bucket: Hashable) -> None:
        """Take the jobs of a bucket for packed ones."""
        self._packed_buckets.add(bucket)

    @property
    def needs_buckets(self) -> bool:
        """Whether `begin_round` needs the bucket of each job."""
        return bool(self._packed_buckets) or self.limits.max_waiting_alike is not None

    def begin_round(self, waiting: int, active: int, *, at_most: int | None) -> None:
        """Begin a round with so many waiting and active jobs, in which `at_most` batches may be submitted."""
        self._own, self._packed = _JobCounts(), _JobCounts()
        self._own.waiting, self._own.active, self._batches_left = waiting, active, at_most

    def count_jobs(self, jobs: Iterable[tuple[Hashable, bool]]) -> None:
        """Count all active jobs by bucket, and whether each waits; for `needs_buckets`."""
        counts = {False: _JobCounts(), True: _JobCounts()}
        for bucket, is_waiting in jobs:
            found = counts[bucket in self._packed_buckets]
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
        if bucket in self._packed_buckets:
            return self._packed.count_room(bucket, self.packed_limits, most)
        return self._own.count_room(bucket, self.limits, most) if self._batches_left != 0 else 0

    def add(self, bucket: Hashable, number: int = 1) -> None:
        """Count jobs of a bucket that are submitted in this round."""
        if bucket in self._packed_buckets:
            self._packed.add(bucket, self.packed_limits, number)
        else:
            self._own.add(bucket, self.limits, number)

    def add_batch(self, bucket: Hashable) -> None:
        """Count a batch, which is complete."""
        if self._batches_left is not None and bucket not in self._packed_buckets:
            self._batches_left -= 1

    def max_batch(self, bucket: Hashable, own: int) -> int:
        """Return the most members of a batch, where a batch of the workload manager has at most `own`."""
        return self.packed_limits.max_batch if bucket in self._packed_buckets else own
