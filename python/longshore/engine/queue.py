"""The jobs that could start, in order of pressure, in one bucket per distinct request.

Jobs of one bucket need not be compared for fit: when the head does not fit, none does. The cost of choosing a job
therefore grows with the number of distinct requests, not with the number of jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from heapq import heappop, heappush


def pressures(children: Sequence[Sequence[int]], expected_s: Callable[[int], float]) -> list[float]:
    """Pressure of every job: its own expected run time and that of the longest chain behind it, in seconds.

    Parameters
    ----------
    children
        Indices of the children per job; children come after their parents.
    expected_s
        Expected run time of a job, in seconds.
    """
    pressure = [0.0] * len(children)
    for job in range(len(children) - 1, -1, -1):
        behind = max((pressure[child] for child in children[job]), default=0.0)
        pressure[job] = expected_s(job) + behind
    return pressure


class ReadyQueue:
    """Jobs that are ready; ties in pressure go to the lowest index, which is the earliest in topological order."""

    def __init__(self, pressure: Sequence[float]) -> None:
        self._pressure = pressure
        self._buckets: dict[Hashable, list[tuple[float, int]]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def push(self, job: int, bucket: Hashable) -> None:
        """Add a job to the bucket of its request."""
        heappush(self._buckets.setdefault(bucket, []), (-self._pressure[job], job))
        self._size += 1

    def pop(self, fits: Callable[[Hashable], bool], *, only: Hashable | None = None) -> tuple[int, Hashable] | None:
        """Take the job of highest pressure among the heads of the buckets that fit.

        Parameters
        ----------
        fits
            Whether a bucket's request can be had right now.
        only
            Look into this bucket alone.
        """
        best: Hashable | None = None
        for bucket, heap in self._buckets.items():
            better = best is None or heap[0] < self._buckets[best][0]
            if (only is None or bucket == only) and better and fits(bucket):
                best = bucket
        if best is None:
            return None
        heap = self._buckets[best]
        _, job = heappop(heap)
        if not heap:
            del self._buckets[best]
        self._size -= 1
        return job, best
