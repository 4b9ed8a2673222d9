"""Remaining work of a run: open jobs in order, with parents and known run times (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from longshore.model.workflow.job_groups import Barrier

BARRIER: Final = -1
"""In place of a label: a barrier, which takes neither time nor a slot."""


class RemainingWork(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of a live run that are not over, with the barriers between them, and run times by label.

    Attributes
    ----------
    labels
        Index of the label per open job, parents before children; `BARRIER` for a barrier.
    parents
        Places of the open parents of each; those of a barrier are the jobs before it.
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


def find_open_jobs(
    over: Sequence[int],
    failed: Mapping[int, object],
    parents: Sequence[Sequence[int]],
    barriers: Iterable[Barrier] = (),
) -> list[int]:
    """Return the jobs that may still run: not over, and no ancestor failed or was deleted.

    Jobs before a blocking barrier count as ancestors. Those before another barrier need not succeed, only be over.
    `over` is 1 for a job that succeeded, 2 for one that was deleted, and else 0.
    """
    blocking = [barrier for barrier in barriers if barrier.blocking]
    before = _barriers_before(blocking)
    shut: dict[int, bool] = {}
    dead = bytearray(len(parents))
    found = []
    for job, of_job in enumerate(parents):
        if over[job] == 1:
            continue
        for number in before.get(job, ()):
            if number not in shut:
                shut[number] = any(dead[earlier] for earlier in blocking[number].after)
            dead[job] |= shut[number]
        if over[job] or job in failed or dead[job] or any(dead[parent] for parent in of_job):
            dead[job] = 1
        else:
            found.append(job)
    return found


def map_parents(
    jobs: Sequence[int], parents: Sequence[Sequence[int]], barriers: Sequence[Barrier] = ()
) -> Iterator[tuple[int | None, tuple[int, ...]]]:
    """Yield each job with the places of those of its parents that are among these jobs.

    A barrier with such jobs before it is yielded as ``None``, before the first job that waits for it. So the number of
    places grows with the number of jobs, not of pairs of jobs.
    """
    before = _barriers_before(barriers)
    places: dict[int, int] = {}
    barrier_places: dict[int, list[int]] = {}
    size = 0
    for job in jobs:
        for number in before.get(job, ()):
            if number not in barrier_places:
                waits_for = tuple(places[earlier] for earlier in barriers[number].after if earlier in places)
                barrier_places[number] = [size] if waits_for else []
                if waits_for:
                    yield None, waits_for
                    size += 1
        waits_for = tuple(places[parent] for parent in parents[job] if parent in places)
        yield job, (*waits_for, *(place for number in before.get(job, ()) for place in barrier_places[number]))
        places[job] = size
        size += 1


def _barriers_before(barriers: Iterable[Barrier]) -> dict[int, list[int]]:
    """Return the numbers of the barriers that each job waits for."""
    found: dict[int, list[int]] = {}
    for number, barrier in enumerate(barriers):
        for job in barrier.before:
            found.setdefault(job, []).append(number)
    return found
