"""Tasks that run together in one job, the graph of such clusters, and what makes two clusters alike."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import msgspec

from longshore.model.tasks.dag import Dag
from longshore.model.tasks.task import DataId, Task, TaskGraph


class Member(NamedTuple):
    """Tasks of one label in clusters of one kind: for these, values are looked up together.

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
    """What clusters that are alike consist of.

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

    def members(self) -> tuple[Member, ...]:
        """Its tasks per label."""
        return tuple(Member(self.label, self.section, label) for label, _ in self.tasks)


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks that one job runs, one after another in the order given."""

    name: str
    label: str
    tags: DataId = msgspec.field(default_factory=dict)
    tasks: tuple[Task, ...]
    section: str | None = None
    """Name of the ``cluster`` section of the configuration that made it, if one did."""

    def composition(self) -> Composition:
        """What it consists of; its own label names its section where none made it, as in BPS."""
        labels = [task.label for task in self.tasks]
        counted = ((labels[0], 1),) if len(labels) == 1 else tuple(sorted(Counter(labels).items()))
        return Composition(self.label, self.section or self.label, counted)


class ClusteredGraph(msgspec.Struct, frozen=True, kw_only=True):
    """All clusters of a payload and their order."""

    name: str
    dag: Dag[Cluster]
    source: TaskGraph
