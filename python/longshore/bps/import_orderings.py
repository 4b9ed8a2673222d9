"""Makes orderings of the group nodes and empty jobs of BPS's generic workflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lsst.ctrl.bps import GenericWorkflowGroup, GenericWorkflowNoopJob

from longshore.model.workflow import Implementation, JobGroup, Ordering


class OrderingCollector:
    """Collects group nodes and empty jobs in topological order.

    Parameters
    ----------
    dimensions
        Dimensions of each ordering, for the titles of its groups.
    """

    def __init__(self, dimensions: Mapping[str, tuple[str, ...]]) -> None:
        self._dimensions = dimensions
        self._groups: dict[str, list[JobGroup]] = {}
        self._blocking: dict[str, bool] = {}
        self._noops: dict[str, list[tuple[tuple[str, ...], Sequence[str], Sequence[str]]]] = {}

    def add_group(self, group: GenericWorkflowGroup) -> None:
        """Add a group of jobs."""
        key = self._key(group.name.removeprefix(f"group_{group.label}_"), group.label)
        self._groups.setdefault(group.label, []).append(JobGroup(key=key, jobs=tuple(group)))
        self._blocking[group.label] = bool(group.blocking)

    def add_noop(self, node: GenericWorkflowNoopJob, before: Sequence[str], after: Sequence[str]) -> None:
        """Add an empty job between the jobs before and after it."""
        key = self._key(node.name.removeprefix(f"noop_{node.label}_"), node.label)
        self._noops.setdefault(node.label, []).append((key, before, after))

    def orderings(self) -> tuple[Ordering, ...]:
        """Return an ordering per label."""
        grouped = [
            self._ordering(label, Implementation.GROUP, groups, blocking=self._blocking[label])
            for label, groups in self._groups.items()
        ]
        separated = [
            self._ordering(label, Implementation.NOOP, _groups_between(noops)) for label, noops in self._noops.items()
        ]
        return (*grouped, *separated)

    def _key(self, values: str, label: str) -> tuple[str, ...]:
        """Return the values of the ordering's dimensions in the name of a node."""
        parts = tuple(values.split("=="))
        return parts if len(parts) == len(self._dimensions.get(label, ())) else (values,)

    def _ordering(
        self, label: str, implementation: Implementation, groups: Sequence[JobGroup], *, blocking: bool = False
    ) -> Ordering:
        known = self._dimensions.get(label, ())
        dimensions = known if groups and len(groups[0].key) == len(known) else ("group",)
        return Ordering(
            name=label, dimensions=dimensions, implementation=implementation, blocking=blocking, groups=tuple(groups)
        )


def _groups_between(noops: Sequence[tuple[tuple[str, ...], Sequence[str], Sequence[str]]]) -> list[JobGroup]:
    """Return the groups that empty jobs separate: each has the jobs after one of them and before the next.

    Jobs in the midst of a group have no edge to an empty job, and need none.
    """
    groups = []
    waiting: Sequence[str] = ()
    for key, before, after in noops:
        groups.append(JobGroup(key=key, jobs=tuple(dict.fromkeys([*waiting, *before]))))
        waiting = after
    if noops:
        last = ("",) * len(noops[0][0])
        groups.append(JobGroup(key=last, jobs=tuple(waiting)))
    return groups
