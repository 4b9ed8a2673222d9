"""What packs tasks into jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from longshore.model.cluster import ClusteredGraph
from longshore.model.task import TaskGraph


class ClusteringAlgorithm(Protocol):
    """A way of packing, chosen by ``clusterAlgorithm``."""

    def __call__(self, graph: TaskGraph, settings: Mapping[str, Any], /) -> ClusteredGraph:
        """Return every task in exactly one cluster, with the order between clusters that follows.

        Raises
        ------
        GraphError
            The clusters would wait for each other, or a task lacks what it is to be grouped by.
        """
