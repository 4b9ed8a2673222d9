"""A cluster of tasks that run in one job, the graph of clusters, and the composition that equal clusters share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from longshore.model.tasks.dag import Dag
from longshore.model.tasks.task import DataId, Task, TaskGraph


class ClusterMember(NamedTuple):
    """Tasks of one label in clusters of one kind, for which values are looked up together.

    Attributes
    ----------
    cluster
        Label of the clusters.
    section
        Name of the section ``cluster`` of the configuration that is theirs.
    label
        Label of the tasks.
    """

    cluster: str
    section: str
    label: str


class Composition(NamedTuple):
    """Number of tasks per label in a cluster, equal for clusters that share a profile.

    Attributes
    ----------
    label
        Label of the clusters.
    section
        Name of the section ``cluster`` of the configuration that is theirs.
    tasks
        Number of tasks per label, in the order of labels.
    """

    label: str
    section: str
    tasks: tuple[tuple[str, int], ...]

    def members(self) -> tuple[ClusterMember, ...]:
        """Its tasks, grouped by label."""
        return tuple(ClusterMember(self.label, self.section, label) for label, _ in self.tasks)


class Cluster(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Tasks that one job runs, one after another in the order given."""

    name: str
    label: str
    tags: DataId = msgspec.field(default_factory=dict)
    tasks: tuple[Task, ...]
    section: str | None = None
    """Name of the ``cluster`` section of the configuration that made it; ``None`` without one."""

    def composition(self) -> Composition:
        """Its composition; its own label is the section where no section made it, as in BPS."""
        labels = [task.label for task in self.tasks]
        counted = ((labels[0], 1),) if len(labels) == 1 else tuple(sorted(Counter(labels).items()))
        return Composition(self.label, self.section or self.label, counted)


class ClusteredGraph(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All clusters of a payload and their dependencies."""

    name: str
    dag: Dag[Cluster]
    source: TaskGraph

    @cached_property
    def compositions(self) -> Sequence[Composition]:
        """Composition of each cluster; equal ones are one object."""
        return list(_compositions(self.dag.nodes))


def _compositions(clusters: Iterable[Cluster]) -> Iterator[Composition]:
    alone: dict[tuple[str, str | None, str], Composition] = {}
    shared: dict[Composition, Composition] = {}
    for cluster in clusters:
        if len(cluster.tasks) > 1:
            found = cluster.composition()
            yield shared.setdefault(found, found)
            continue
        # By far the most have one task, and there are few kinds of these.
        key = (cluster.label, cluster.section, cluster.tasks[0].label)
        kind = alone.get(key)
        if kind is None:
            found = cluster.composition()
            kind = alone[key] = shared.setdefault(found, found)
        yield kind
