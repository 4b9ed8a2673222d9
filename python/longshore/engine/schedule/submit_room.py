"""Room for more jobs at the workload manager, by its limits; packed jobs have limits of their own (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from longshore.contract.batch import Limits


class _JobCounts:
    """Jobs that count for the same limits."""

    def __init__(self) -> None:
        self.waiting = 0
        self.active = 0
        self.alike: Counter[Hashable] = Counter()
        """Waiting jobs per bucket; counted only where they are limited."""

    def has_room(self, bucket: Hashable, limits: Limits) -> bool:
        """Whether the limits allow one more job."""
        if limits.max_waiting is not None and self.waiting >= limits.max_waiting:
            return False
        if limits.max_waiting_alike is not None and self.alike[bucket] >= limits.max_waiting_alike:
            return False
        return limits.max_active is None or self.active < limits.max_active

    def add(self, bucket: Hashable, limits: Limits) -> None:
        """Count a job that is submitted in this round."""
        self.waiting += 1
        self.active += 1
        if limits.max_waiting_alike is not None:
            self.alike[bucket] += 1


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
        if bucket in self._packed_buckets:
            return self._packed.has_room(bucket, self.packed_limits)
        return self._batches_left != 0 and self._own.has_room(bucket, self.limits)

    def add(self, bucket: Hashable) -> None:
        """Count a job of a bucket that is submitted in this round."""
        if bucket in self._packed_buckets:
            self._packed.add(bucket, self.packed_limits)
        else:
            self._own.add(bucket, self.limits)

    def add_batch(self, bucket: Hashable) -> None:
        """Count a batch, which is complete."""
        if self._batches_left is not None and bucket not in self._packed_buckets:
            self._batches_left -= 1

    def max_batch(self, bucket: Hashable, own: int) -> int:
        """Return the most members of a batch, where a batch of the workload manager has at most `own`."""
        return self.packed_limits.max_batch if bucket in self._packed_buckets else own
