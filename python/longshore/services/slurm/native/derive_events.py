"""Derivation of events from the observed jobs of a native Slurm run (pure functions)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from longshore.model.run.event import Ended, Event, Failed, Lost, Started, Steer, Submitted, Submitting
from longshore.model.run.state import Cause
from longshore.model.workflow.request import Request
from longshore.services.slurm.batch_records import BatchRecord


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Observed state of one job.

    `tag` is its batch's, `id` is Slurm's. `at` is the time of submission, in seconds since the epoch. `began` says
    whether it runs or ran. `end` is ``None`` while it has not ended, or its end is unknown.
    """

    tag: str
    id: str
    at: float
    request: Request
    began: bool = False
    end: Ended | Lost | None = None


class Cancellation(msgspec.Struct, frozen=True, kw_only=True):
    """A user's cancellation of the run: ``wms/native-cancelled.json``."""

    who: str
    at: float
    final_too: bool = False


def derive_events(
    parents: Sequence[Sequence[int]], final: int, seen: Mapping[int, Seen], cancelled: Cancellation | None
) -> Iterator[Event]:
    """Derive the events of a run, parents before children.

    A job counts as dispatched once all its parents have succeeded: until then it waits in the queue for nothing but
    these. Descendants of a failed job are never started, because Slurm cancels them.

    `parents` holds the indices of each job's parents, which come before it. `final` is the index of the final job; -1
    without one.
    """
    well: set[int] = set()
    closed: set[int] = set()
    """Jobs that are over, or can never start."""
    late: list[Event] = []
    for job, above in enumerate(parents):
        if job == final:
            ready = len(closed) == job and not (cancelled and cancelled.final_too)
        else:
            ready = well.issuperset(above)
        if not ready:
            if job != final and any(each in closed and each not in well for each in above):
                closed.add(job)
            continue
        known = seen[job]
        yield from _handed_over(job, known)
        if known.end is None:
            continue
        closed.add(job)
        if cancelled and _was_cancelled(known.end):
            late.append(known.end)
            continue
        yield known.end
        if isinstance(known.end, Ended) and known.end.cause is None:
            well.add(job)
        else:
            yield Failed(j=job, why=_why(known.end), t=known.end.t)
    if cancelled:
        to_final = {"final": "no"} if cancelled.final_too else {}
        yield Steer(who=cancelled.who, act="cancel", set=to_final, t=cancelled.at)
        yield from late


def _handed_over(job: int, known: Seen) -> Iterator[Event]:
    batch = f"{known.tag}.{job}"
    yield Submitting(b=batch, tag=known.tag, jobs=((job, 1),), request=known.request, t=known.at)
    yield Submitted(b=batch, id=known.id, t=known.at)
    end = known.end
    ran = isinstance(end, Ended) and (end.exit is not None or end.signal is not None)
    if known.began or ran:
        host, at = (end.host, end.start) if isinstance(end, Ended) else (None, None)
        yield Started(j=job, a=1, host=host, at=at, t=at or known.at)


def _was_cancelled(end: Ended | Lost) -> bool:
    return isinstance(end, Lost) or end.cause in (Cause.CANCELLED, Cause.SIGNAL)


def _why(end: Ended | Lost) -> str:
    if isinstance(end, Lost):
        return end.why
    said = end.reason or (f"exit code {end.exit}" if end.exit is not None else f"signal {end.signal}")
    return f"{said}; jobs that Slurm runs by itself are not tried again"


def arrays(keys: Sequence[tuple[int, tuple[int, ...]]], joins: Sequence[bool], most: int) -> list[list[int]]:
    """Group jobs into arrays, parents before children.

    These are jobs of one profile with the same parents, and jobs of one profile each of which waits for the jobs at its
    own place in other arrays.

    `keys` holds the profile and parents of each job, which come before it. `joins` says whether a job may be in an
    array; `most` is the largest size of an array.
    """
    alike = Counter(keys)
    found: list[list[int]] = []
    places: list[tuple[int, int]] = []
    """Array of each job, and its place in that array."""
    cached_answer: dict[tuple[int, tuple[int, ...]] | tuple[int, tuple[int, ...], str], int] = {}
    for job, key in enumerate(keys):
        profile, parents = key
        above, at = [places[parent][0] for parent in parents], {places[parent][1] for parent in parents}
        name: tuple[int, tuple[int, ...]] | tuple[int, tuple[int, ...], str] = key
        beside = (profile, tuple(above), "beside")
        is_alone = alike[key] == 1 and len(at) == 1 and len(set(above)) == len(above)
        if is_alone and all(len(found[each]) > 1 for each in above):
            here = found[cached_answer[beside]] if beside in cached_answer else []
            name = beside if at == {len(here)} and len(here) < most else key
        group = cached_answer.get(name)
        if group is None or len(found[group]) >= most or not joins[job]:
            group = len(found)
            found.append([])
            if joins[job]:
                cached_answer[name] = group
        places.append((group, len(found[group])))
        found[group].append(job)
    return found


def dependency(parents: Sequence[Sequence[int]], records: Mapping[int, tuple[BatchRecord, int]]) -> str:
    """Build the value of ``sbatch --dependency`` for a batch's members.

    `parents` holds the parents' indices per member: the same for all, or at the member's own place in other batches.
    `records` holds the batch of each submitted job, and its position in the batch.
    """
    positions: dict[str, list[int]] = {}
    found: dict[str, BatchRecord] = {}
    for job in parents[0]:
        book, position = records[job]
        positions.setdefault(book.tag, []).append(position)
        found[book.tag] = book
    if any(set(each) != set(parents[0]) for each in parents):
        return f"aftercorr:{':'.join(str(book.id) for book in found.values())}"
    names: list[str] = []
    for tag, these in positions.items():
        book = found[tag]
        if len(these) == len(book.members):
            names.append(str(book.id))
        else:
            names += [f"{book.id}_{position}" for position in sorted(these)]
    return f"afterok:{':'.join(names)}" if names else ""


NATIVE_WARNING: Final = (
    "mode: native hands the whole graph to Slurm: no job is tried again or gets more memory, nothing of the run can be "
    "held, throttled or set, success is exit code 0, and no order but that of Slurm holds"
)
"""Warning, in a line, of what native runs do not support."""
