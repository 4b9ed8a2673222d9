"""Checks of clusters: each task once and in order, and the error for clusters that wait for each other in a cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from longshore.errors import CycleError, GraphError
from longshore.model.tasks.cluster import Cluster, ClusteredGraph
from longshore.model.tasks.task import TaskGraph


def check_clusters(clustered: ClusteredGraph) -> None:
    """Refuse clusters that do not hold every task once, in an order that its parents allow.

    Raises `GraphError` if a task is missing, repeated or unknown, or a parent does not precede it.
    """
    source = clustered.source.dag
    held = Counter(task.name for cluster in clustered.dag.nodes for task in cluster.tasks)
    for what, names in (
        ("is in no cluster", [task.name for task in source.nodes if not held[task.name]]),
        ("is in the clusters more than once", [name for name, count in held.items() if count > 1]),
        ("is in a cluster, but is no task of the graph", [name for name in held if name not in source.index]),
    ):
        if names:
            more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
            raise GraphError(f"the task '{names[0]}' {what}{more}", hint="The fault is in 'clusterAlgorithm'.")
    place: dict[str, tuple[int, int]] = {}
    for number, cluster in enumerate(clustered.dag.nodes):
        place.update({task.name: (number, position) for position, task in enumerate(cluster.tasks)})
    following = [frozenset(children) for children in clustered.dag.children]
    for parent, child in source.edges():
        before, after = source.nodes[parent].name, source.nodes[child].name
        (one, first), (other, second) = place[before], place[after]
        if one == other and first > second:
            raise GraphError(
                f"in the cluster '{clustered.dag.nodes[one].name}', the task '{after}' comes before '{before}', for "
                "which it waits"
            )
        if one != other and other not in following[one]:
            raise GraphError(
                f"the task '{after}' waits for '{before}', but its cluster '{clustered.dag.nodes[other].name}' does "
                f"not wait for '{clustered.dag.nodes[one].name}'"
            )


def explain_cluster_cycle(
    graph: TaskGraph, clusters: Sequence[Cluster], cluster_of: Sequence[int], error: CycleError
) -> CycleError:
    """Return the error of a cycle of clusters, with an example of two tasks for each edge."""
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
