"""Makes the graph of clusters from the graph of their tasks."""

from __future__ import annotations

from collections.abc import Sequence

from longshore.errors import CycleError
from longshore.model.tasks.cluster import Cluster, ClusteredGraph
from longshore.model.tasks.dag import Dag
from longshore.model.tasks.task import TaskGraph
from longshore.plan.clustering.check_clusters import explain_cluster_cycle


def make_cluster_graph(graph: TaskGraph, clusters: Sequence[Cluster], cluster_of: Sequence[int]) -> ClusteredGraph:
    """Make the graph of clusters, with the edges of their tasks; `cluster_of` is the index of each task's cluster.

    Raises `GraphError` if two clusters have one name, or (as `CycleError`) clusters would wait for each other.
    """
    ends = ((cluster_of[parent], cluster_of[child]) for parent, child in graph.dag.edges())
    edges = {end for end in ends if end[0] != end[1]}
    try:
        dag = Dag(clusters, sorted(edges))
    except CycleError as error:
        raise explain_cluster_cycle(graph, clusters, cluster_of, error) from None
    return ClusteredGraph(name=graph.name, dag=dag, source=graph)
