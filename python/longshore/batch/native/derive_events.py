"""Derivation of events from the observed jobs of a native run (pure functions)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from longshore.model.event import Deleted, Ended, Event, Failed, Lost, Started, Steer, Submitted, Submitting
from longshore.model.states import Cause
from longshore.model.workflow import Request


class ObservedJob(msgspec.Struct, frozen=True, kw_only=True):
    """Observed state of one job.

    `tag` is its batch's, `id` is the workload manager's. `at` is the time of submission, in seconds since the
    epoch. `began` says whether it runs or ran, and `started_at` since when it runs, where that is known. `end` is
    ``None`` while it has not ended, or its end is unknown.
    """

    tag: str
    id: str
    at: float
    request: Request
    began: bool = False
    started_at: float | None = None
    end: Ended | Lost | None = None


class Cancellation(msgspec.Struct, frozen=True, kw_only=True):
    """A user's cancellation of the run: ``wms/native-cancelled.json``."""

    who: str
    at: float
    final_too: bool = False


def derive_events(
    parents: Sequence[Sequence[int]],
    final: int,
    observed_jobs: Mapping[int, ObservedJob],
    cancelled: Cancellation | None,
) -> Iterator[Event]:
    """Derive the events of a run, parents before children.

    A job counts as dispatched once all its parents have succeeded: until then it waits in the queue for nothing but
    these. Descendants of a failed job are never started, because the workload manager cancels them.

    `parents` holds the indices of each job's parents, which come before it. `final` is the index of the final job; -1
    without one.
    """
    succeeded: set[int] = set()
    closed: set[int] = set()
    """Jobs that are over, or can never start."""
    cancelled_ends: list[Event] = []
    for job, parents_of_job in enumerate(parents):
        if job == final:
            ready = len(closed) == job and not (cancelled and cancelled.final_too)
        else:
            ready = succeeded.issuperset(parents_of_job)
        if not ready:
            if job != final and any(each in closed and each not in succeeded for each in parents_of_job):
                closed.add(job)
            continue
        observed = observed_jobs[job]
        yield from _submission_events(job, observed)
        if observed.end is None:
            continue
        closed.add(job)
        if cancelled and _was_cancelled(observed.end):
            cancelled_ends.append(observed.end)
            continue
        yield observed.end
        if isinstance(observed.end, Ended) and observed.end.cause is None:
            succeeded.add(job)
        elif isinstance(observed.end, Ended) and observed.end.cause is Cause.CANCELLED:
            why = observed.end.reason or "a person removed it"
            yield Deleted(jobs=(job,), why=why, t=observed.end.t)
        else:
            yield Failed(j=job, why=_failure_reason(observed.end), t=observed.end.t)
    if cancelled:
        to_final = {"final": "no"} if cancelled.final_too else {}
        yield Steer(who=cancelled.who, act="cancel", set=to_final, t=cancelled.at)
        yield from cancelled_ends


def _submission_events(job: int, observed: ObservedJob) -> Iterator[Event]:
    batch = f"{observed.tag}.{job}"
    yield Submitting(b=batch, tag=observed.tag, jobs=((job, 1),), request=observed.request, t=observed.at)
    yield Submitted(b=batch, id=observed.id, t=observed.at)
    end = observed.end
    ran = isinstance(end, Ended) and (end.exit is not None or end.signal is not None)
    if observed.began or ran:
        host, at = (end.host, end.start) if isinstance(end, Ended) else (None, observed.started_at)
        yield Started(j=job, a=1, host=host, at=at, t=at or observed.at)


def _was_cancelled(end: Ended | Lost) -> bool:
    return isinstance(end, Lost) or end.cause in (Cause.CANCELLED, Cause.SIGNAL)


def _failure_reason(end: Ended | Lost) -> str:
    if isinstance(end, Lost):
        return end.why
    reply = end.reason or (f"exit code {end.exit}" if end.exit is not None else f"signal {end.signal}")
    return f"{reply}; jobs of a native run are not tried again"


def group_arrays(
    keys: Sequence[tuple[int, tuple[int, ...]]], can_join: Sequence[bool], max_array: int
) -> list[list[int]]:
    """Group jobs into arrays, parents before children.

    These are jobs of one profile with the same parents, and jobs of one profile each of which waits for the jobs at its
    own place in other arrays.

    `keys` holds the profile and parents of each job, which come before it. `can_join` says whether a job may be in an
    array; `max_array` is the largest size of an array.
    """
    counts = Counter(keys)
    found: list[list[int]] = []
    placements: list[tuple[int, int]] = []
    """Array of each job, and its place in that array."""
    cached_answer: dict[tuple[int, tuple[int, ...]] | tuple[int, tuple[int, ...], str], int] = {}
    for job, key in enumerate(keys):
        profile, parents = key
        parents_of_job, at = (
            [placements[parent][0] for parent in parents],
            {placements[parent][1] for parent in parents},
        )
        name: tuple[int, tuple[int, ...]] | tuple[int, tuple[int, ...], str] = key
        aligned_key = (profile, tuple(parents_of_job), "beside")
        is_alone = counts[key] == 1 and len(at) == 1 and len(set(parents_of_job)) == len(parents_of_job)
        if is_alone and all(len(found[each]) > 1 for each in parents_of_job):
            array = found[cached_answer[aligned_key]] if aligned_key in cached_answer else []
            name = aligned_key if at == {len(array)} and len(array) < max_array else key
        group = cached_answer.get(name)
        if group is None or len(found[group]) >= max_array or not can_join[job]:
            group = len(found)
            found.append([])
            if can_join[job]:
                cached_answer[name] = group
        placements.append((group, len(found[group])))
        found[group].append(job)
    return found
