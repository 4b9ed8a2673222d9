"""Ready queue: the jobs that could start, by priority and pressure (critical path), in a bucket per rounded request.

Only the head of a bucket is tried: its jobs have similar requests, so that when the head does not fit the others need
not be tried. The cost of choosing a job grows with the number of buckets, which rounding keeps small, and not
with the number of jobs.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from longshore.runstate.run_state import Barriers

_Entry: TypeAlias = tuple[float, float, int]
"""Priority and pressure, both with their sign turned, and the job."""


def compute_pressures(
    children: Sequence[Sequence[int]], expected_s: Sequence[float], barriers: Barriers | None = None
) -> Sequence[float]:
    """Compute the pressure of every job: seconds of its own expected run time and of the longest chain behind it.

    Parameters
    ----------
    children
        Indices of the children per job; children come after their parents.
    expected_s
        Expected run time per job, in seconds.
    barriers
        Barriers: jobs that begin a group count as children of all jobs of the group before it.
    """
    pressure = list(expected_s)
    all_barriers, ends = (barriers.all, barriers.barriers_after) if barriers else ((), {})
    # The last job that ends a barrier's group is the first to ask, and all jobs behind it are known by then.
    pressure_of_barrier: dict[int, float] = {}
    for job, row in zip(range(len(pressure) - 1, -1, -1), reversed(children), strict=True):
        behind = 0.0
        for child in row:
            if (pressure_of_child := pressure[child]) > behind:  # many times as fast as max()
                behind = pressure_of_child
        if job in ends:
            for number in ends[job]:
                if number not in pressure_of_barrier:
                    pressure_of_barrier[number] = max(pressure[below] for below in all_barriers[number].before)
                behind = max(behind, pressure_of_barrier[number])
        pressure[job] += behind
    return array("d", pressure)


class ReadyQueue:
    """Jobs that are ready; ties go to the lowest index, which is the earliest in topological order.

    Parameters
    ----------
    pressure
        Pressure per job.
    priority_of
        Priority of a job, which goes before pressure.
    """

    def __init__(self, pressure: Sequence[float], priority_of: Callable[[int], float] | None = None) -> None:
        self._pressure = pressure
        self._priority_of = priority_of
        self._buckets: dict[Hashable, list[_Entry]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, bucket: Hashable) -> bool:
        return bucket in self._buckets

    def pressure_of(self, job: int) -> float:
        """Return the pressure of a job, queued or not."""
        return self._pressure[job]

    def push(self, job: int, bucket: Hashable) -> None:
        """Add a job to the bucket of its request."""
        if (heap := self._buckets.get(bucket)) is None:
            heap = self._buckets[bucket] = []
        heappush(heap, self._entry(job))
        self._size += 1

    def peek(self) -> int | None:
        """Return the first job of all, whether it fits or not, without removing it."""
        return min(heap[0] for heap in self._buckets.values())[2] if self._buckets else None

    def peek_head(self) -> tuple[int, Hashable] | None:
        """Return the first job of all and its bucket, that of the request it was queued with."""
        if not self._buckets:
            return None
        bucket, heap = min(self._buckets.items(), key=lambda each: each[1][0])
        return heap[0][2], bucket

    def bucket_heads(self) -> Iterator[tuple[int, int]]:
        """Yield the first job of each bucket, and the number of its jobs."""
        return ((heap[0][2], len(heap)) for heap in self._buckets.values())

    def pop(self, fits: Callable[[int, Hashable], bool]) -> tuple[int, Hashable] | None:
        """Remove and return the first job among the heads of buckets for which `fits` is true, and its bucket."""
        best_bucket: Hashable | None = None
        first: _Entry | None = None
        for bucket, heap in self._buckets.items():
            if (first is None or heap[0] < first) and fits(heap[0][2], bucket):
                best_bucket, first = bucket, heap[0]
        return None if first is None else (self.pop_head(best_bucket), best_bucket)

    def pop_head(self, bucket: Hashable) -> int:
        """Remove and return the first job of a bucket that is not empty."""
        job = self.pop_from(bucket)
        if job is None:
            raise KeyError(bucket)
        return job

    def pop_from(self, bucket: Hashable) -> int | None:
        """Remove and return the first job of a bucket; ``None`` when the bucket is empty."""
        heap = self._buckets.get(bucket)
        if not heap:
            return None
        _, _, job = heappop(heap)
        if not heap:
            del self._buckets[bucket]
        self._size -= 1
        return job

    def reorder(self, pressure: Sequence[float]) -> None:
        """Reorder the queue by new pressures."""
        self._pressure = pressure
        for bucket, heap in self._buckets.items():
            self._buckets[bucket] = entries = [self._entry(job) for _, _, job in heap]
            heapify(entries)

    def _entry(self, job: int) -> _Entry:
        return (-self._priority_of(job) if self._priority_of else 0.0, -self._pressure[job], job)
