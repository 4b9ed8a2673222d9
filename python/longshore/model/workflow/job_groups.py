"""Orderings of job groups (BPS: ``ordering``), and the barriers between groups that follow from them."""

# Without postponed annotations: msgspec evaluates them as text, which takes three times as long.

from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec

from longshore.model.tasks.task import Scalar


class Implementation(StrEnum):
    """Implementation of an ordering."""

    GROUP = "group"
    """Jobs of a group form one node for a DAG service."""
    NOOP = "noop"
    """An empty job separates a group from the next."""


class JobGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that run before those of the next group.

    Attributes
    ----------
    key
        The values of the ordering's dimensions that they share.
    jobs
        Their names.
    """

    key: tuple[Scalar, ...]
    jobs: tuple[str, ...]


class Ordering(msgspec.Struct, frozen=True, kw_only=True):
    """One ordering of job groups (BPS: a section of ``ordering``).

    Attributes
    ----------
    name
        Its name.
    dimensions
        The dimensions whose values define a group.
    implementation
        How the ordering is implemented.
    blocking
        Whether a group with a failure blocks the groups after it. With empty jobs it always does.
    groups
        The groups, in the order in which they run.
    """

    name: str
    dimensions: tuple[str, ...]
    implementation: Implementation = Implementation.GROUP
    blocking: bool = False
    groups: tuple[JobGroup, ...]

    @property
    def waits_for_ends(self) -> bool:
        """Return whether a group starts after the previous group ended, even if jobs failed."""
        return len(self.groups) > 1 and not self.blocking and self.implementation is Implementation.GROUP

    def node_name(self, group: JobGroup) -> str:
        """BPS's name of the group or of the empty job after it: ``group_by_visit_101==3``, ``noop_by_visit_101==3``."""
        return _node_name(self, group)


class Barrier(msgspec.Struct, frozen=True):
    """Barrier between a group and the next one; it is not a job and not counted.

    Attributes
    ----------
    name
        BPS's name of the group before it.
    title
        That group's name for people: ``'visit 101' of 'by_visit'``.
    after
        Numbers of the jobs that end the group: when they are over, all of it is.
    before
        Numbers of the jobs that begin the next group.
    blocking
        Whether the jobs before it must have succeeded; else it is enough that they are over.
    """

    name: str
    title: str
    after: tuple[int, ...]
    before: tuple[int, ...]
    blocking: bool


class StoredGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group with the numbers of its jobs."""

    key: tuple[Scalar, ...]
    jobs: tuple[int, ...]


class StoredOrdering(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An ordering as ``workflow.jsonl`` has it."""

    name: str
    dimensions: tuple[str, ...]
    implementation: Implementation = Implementation.GROUP
    blocking: bool = False
    groups: tuple[StoredGroup, ...]


def _node_name(ordering: Ordering | StoredOrdering, group: JobGroup | StoredGroup) -> str:
    return f"{ordering.implementation}_{ordering.name}_{'=='.join(map(str, group.key))}"


def _title(ordering: StoredOrdering, group: StoredGroup) -> str:
    values = ", ".join(f"{name} {value}" for name, value in zip(ordering.dimensions, group.key, strict=True))
    return f"'{values}' of '{ordering.name}'"


def number_jobs(ordering: Ordering, index: dict[str, int]) -> StoredOrdering:
    """An ordering with numbers in place of names of jobs."""
    return StoredOrdering(
        name=ordering.name,
        dimensions=ordering.dimensions,
        implementation=ordering.implementation,
        blocking=ordering.blocking,
        groups=tuple(
            StoredGroup(key=group.key, jobs=tuple(index[job] for job in group.jobs)) for group in ordering.groups
        ),
    )


def find_barriers(orderings: Sequence[StoredOrdering], parents: Sequence[Sequence[int]]) -> Iterator[Barrier]:
    """Barriers between groups; their size grows with the number of jobs, not of pairs of jobs.

    `parents` has the numbers of the parents per job.
    """
    for ordering in orderings:
        ends = [_group_ends(group.jobs, parents) for group in ordering.groups]
        blocking = ordering.blocking or ordering.implementation is Implementation.NOOP
        for group, (_, last), (first, _) in zip(ordering.groups, ends, ends[1:], strict=False):
            yield Barrier(_node_name(ordering, group), _title(ordering, group), last, first, blocking)


def _group_ends(jobs: Sequence[int], parents: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """First and last jobs of a group: those without parents in it, and those without children in it."""
    members = set(jobs)
    waited_for: set[int] = set()
    first = []
    for job in jobs:
        inside = members.intersection(parents[job])
        waited_for |= inside
        if not inside:
            first.append(job)
    return tuple(first), tuple(job for job in jobs if job not in waited_for)
