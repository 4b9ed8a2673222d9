"""Clustering algorithms: pack tasks into jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from longshore.model.tasks.cluster import ClusteredGraph
from longshore.model.tasks.task import Task, TaskGraph
from longshore.origin import Origin


class Start(StrEnum):
    """Tasks that determine the dimensions of a cluster; the others follow along the edges."""

    SOURCE = "source"
    SINK = "sink"


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """Partition of the clusters of a rule.

    Attributes
    ----------
    dimensions
        Dimensions whose values are shared out among the parts.
    most_clusters
        Most clusters in all; ``None`` where `most_values` is given.
    most_values
        Most values of a part; ``None`` where `most_clusters` is given.
    """

    dimensions: tuple[str, ...]
    most_clusters: int | None = None
    most_values: int | None = None


class ClusterRule(msgspec.Struct, frozen=True, kw_only=True):
    """Rule of one section of ``cluster``: which tasks run together.

    Attributes
    ----------
    label
        Its name, which is the label of its clusters.
    tasks
        Labels of its tasks.
    dimensions
        Dimensions whose values the tasks of a cluster share; without any, there is one cluster.
    equal
        Dimensions that stand for another where a task does not have it, in the order of preference.
    template
        Name of a cluster, with dimensions in braces; empty where it is made of the label and the values.
    start
        Which of its tasks say where the others belong; ``None`` where each says so itself.
    partition
        How clusters are cut into parts, if they are.
    origin
        Where it was written.
    """

    label: str
    tasks: tuple[str, ...]
    dimensions: tuple[str, ...] = ()
    equal: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    template: str = ""
    start: Start | None = None
    partition: Partition | None = None
    origin: Origin | None = None


class ClusteringSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of clustering.

    Attributes
    ----------
    rules
        The sections of ``cluster`` that name tasks.
    name_template
        Name of a job of one task after its label, with dimensions in braces; empty where tasks keep their names.
    node_ids
        Whether names begin with the id that the source gave a task.
    target_s
        Wall time that jobs of many tasks should come to, in seconds.
    run_s
        Expected run time of a task in seconds; ``None`` where it is unknown.
    values
        The whole configuration, for algorithms with keys of their own.
    """

    rules: tuple[ClusterRule, ...] = ()
    name_template: str = ""
    node_ids: bool = True
    target_s: float = 600.0
    run_s: Callable[[Task], float | None] = lambda _task: None
    values: Mapping[str, Any] = msgspec.field(default_factory=dict)


class ClusteringAlgorithm(Protocol):
    """Clustering algorithm, chosen by ``clusterAlgorithm``."""

    def __call__(self, graph: TaskGraph, settings: ClusteringSettings, /) -> ClusteredGraph:
        """Return every task in exactly one cluster, with the order between clusters that follows.

        Raises
        ------
        GraphError
            The clusters would wait for each other, or a task lacks what it is to be grouped by.
        """
