"""Packs tasks into clusters, each of which becomes a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longshore.model.cluster import Cluster, ClusteredGraph
from longshore.model.dag import Dag
from longshore.model.task import TaskGraph


def single_task(graph: TaskGraph, _settings: Mapping[str, Any]) -> ClusteredGraph:
    """Every task by itself; implements `longshore.contract.clustering.ClusteringAlgorithm`."""
    clusters = (Cluster(name=task.name, label=task.label, tags=task.data_id, tasks=(task,)) for task in graph.dag.nodes)
    return ClusteredGraph(name=graph.name, dag=Dag(clusters, graph.dag.edges()), source=graph)
