"""Remaining work of a run: open jobs in order, with parents and known run times (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec


class RemainingWork(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of a live run that are not over, and run times by label.

    Attributes
    ----------
    labels
        Index of the label per open job, parents before children.
    parents
        Places of the open parents of each.
    elapsed_s
        Run time so far of each that runs; ``None`` for others.
    run_s
        Run times of successful attempts per label, in order of their ends.
    earlier_ms
        Number of jobs per run time in earlier runs of the payload, in milliseconds, per label.
    slots
        Least and largest number of jobs that may run at once.
    """

    labels: Sequence[int]
    parents: Sequence[Sequence[int]]
    elapsed_s: Sequence[float | None]
    run_s: Sequence[Sequence[float]]
    earlier_ms: Sequence[Mapping[int, float]] = ()
    slots: tuple[int, int]


def find_open_jobs(over: Sequence[int], failed: Mapping[int, object], parents: Sequence[Sequence[int]]) -> list[int]:
    """Return the jobs that may still run: not over, and no ancestor failed or was deleted.

    `over` is 1 for a job that succeeded, 2 for one that was deleted, and else 0.
    """
    dead = bytearray(len(parents))
    found = []
    for job, of_job in enumerate(parents):
        if over[job] == 1:
            continue
        if over[job] or job in failed or any(dead[parent] for parent in of_job):
            dead[job] = 1
        else:
            found.append(job)
    return found


def map_parents(jobs: Sequence[int], parents: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """Yield the places of the parents of each job that are among these jobs."""
    places = {job: place for place, job in enumerate(jobs)}
    for job in jobs:
        yield tuple(places[parent] for parent in parents[job] if parent in places)
