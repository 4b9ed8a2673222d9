"""Makes the graph of clusters from the graph of their tasks, and explains cycles."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from longshore.errors import CycleError
from longshore.model.tasks.cluster import Cluster, ClusteredGraph
from longshore.model.tasks.dag import Dag
from longshore.model.tasks.task import TaskGraph


def make_cluster_graph(graph: TaskGraph, clusters: Sequence[Cluster], cluster_of: Sequence[int]) -> ClusteredGraph:
    """Graph of clusters, with the edges of their tasks; `cluster_of` is the index of each task's cluster.

    Raises `GraphError` if two clusters have one name, or (as `CycleError`) clusters would wait for each other.
    """
    ends = ((cluster_of[parent], cluster_of[child]) for parent, child in graph.dag.edges())
    edges = {end for end in ends if end[0] != end[1]}
    try:
        dag = Dag(clusters, sorted(edges))
    except CycleError as error:
        raise _explain_cycle(graph, clusters, cluster_of, error) from None
    return ClusteredGraph(name=graph.name, dag=dag, source=graph)


def _explain_cycle(
    graph: TaskGraph, clusters: Sequence[Cluster], cluster_of: Sequence[int], error: CycleError
) -> CycleError:
    """The error, with an example of two tasks for each edge of the cycle."""
    number = {cluster.name: index for index, cluster in enumerate(clusters)}
    ring = [number[name] for name in error.ring]
    wanted = set(pairwise(ring))
    examples: dict[tuple[int, int], str] = {}
    for parent, child in graph.dag.edges():
        step = cluster_of[parent], cluster_of[child]
        if step in wanted:
            examples.setdefault(step, f"'{graph.dag.nodes[parent].name}' before '{graph.dag.nodes[child].name}'")
    why = "; ".join(examples[step] for step in pairwise(ring))
    several = sorted({clusters[index].label for index in ring if len(clusters[index].tasks) > 1})
    named = " and ".join(f"'{label}'" for label in several)
    return CycleError(
        error.ring,
        hint=f"The clusters would wait for each other: {why}. Take a label out of {named}, or put what lies between "
        "into the same cluster.",
    )
