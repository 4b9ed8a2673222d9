"""Map of job numbers from an earlier submission to a later one, and events translated by it.

Each event has the job numbers of the submission of its life. A restart may begin a submission with another workflow.
The events of earlier ones are then read with the numbers of the newest; those of jobs that it lacks are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from longshore.model.run.event import (
    AttemptFacts,
    Deleted,
    Ended,
    Event,
    Failed,
    Lost,
    Refused,
    Restarted,
    Retry,
    Started,
    Steer,
    Submitting,
)


class JobMap(msgspec.Struct, frozen=True):
    """Numbers of jobs and labels of a later submission, by those of an earlier one; missing ones are gone."""

    jobs: Mapping[int, int]
    labels: Mapping[int, int]

    def then(self, later: JobMap) -> JobMap:
        """Return this map followed by a later one."""
        return JobMap(_compose(self.jobs, later.jobs), _compose(self.labels, later.labels))


def translate_events(events: Iterable[Event], job_map: JobMap) -> Iterator[Event]:
    """Yield events with the job numbers of a later submission, without those of jobs that it lacks."""
    for event in events:
        translate = _TRANSLATIONS.get(type(event))
        translated = translate(event, job_map) if translate else event
        if translated is not None:
            yield translated


def _compose(first: Mapping[int, int], second: Mapping[int, int]) -> dict[int, int]:
    return {old: second[new] for old, new in first.items() if new in second}


def _attempt(event: Any, job_map: JobMap) -> Event | None:
    number = job_map.jobs.get(event.j)
    return None if number is None else msgspec.structs.replace(event, j=number)


def _submitting(event: Submitting, job_map: JobMap) -> Event | None:
    jobs = _pairs(event.jobs, job_map)
    ids = {job_map.jobs[job]: members for job, members in event.ids.items() if job in job_map.jobs}
    return msgspec.structs.replace(event, jobs=jobs, ids=ids) if jobs else None


def _refused(event: Refused, job_map: JobMap) -> Event | None:
    if event.jobs is None:
        return event
    jobs = _pairs(event.jobs, job_map)
    return msgspec.structs.replace(event, jobs=jobs) if jobs else None


def _steer(event: Steer, job_map: JobMap) -> Event | None:
    jobs = None if event.jobs is None else _numbers(event.jobs, job_map.jobs)
    labels = _numbers(event.labels, job_map.labels)
    # No label means the whole run.
    if (event.jobs and not jobs) or (event.labels and not labels):
        return None
    return msgspec.structs.replace(event, jobs=jobs, labels=labels)


def _deleted(event: Deleted, job_map: JobMap) -> Event | None:
    jobs = _numbers(event.jobs, job_map.jobs)
    return msgspec.structs.replace(event, jobs=jobs) if jobs else None


def _restarted(event: Restarted, job_map: JobMap) -> Event:
    # Without any job it still ends a cancellation or a pause.
    return msgspec.structs.replace(event, jobs=_numbers(event.jobs, job_map.jobs))


def _pairs(pairs: Iterable[tuple[int, int]], job_map: JobMap) -> tuple[tuple[int, int], ...]:
    return tuple((job_map.jobs[job], attempt) for job, attempt in pairs if job in job_map.jobs)


def _numbers(numbers: Iterable[int], known: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(known[number] for number in numbers if number in known)


_TRANSLATIONS: Final[dict[type, Callable[[Any, JobMap], Event | None]]] = {
    Submitting: _submitting,
    Refused: _refused,
    Started: _attempt,
    Ended: _attempt,
    AttemptFacts: _attempt,
    Lost: _attempt,
    Retry: _attempt,
    Failed: _attempt,
    Steer: _steer,
    Deleted: _deleted,
    Restarted: _restarted,
}
"""Translation per kind of event that names jobs."""
