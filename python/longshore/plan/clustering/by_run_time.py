"""Clusters short tasks of a label up to a target run time."""

from __future__ import annotations

from collections.abc import Iterator

from longshore.contract.clustering import ClusteringSettings
from longshore.model.tasks.cluster import Cluster, ClusteredGraph
from longshore.model.tasks.task import TaskGraph
from longshore.plan.clustering.by_task import task_job_names
from longshore.plan.clustering.cluster_graph import make_cluster_graph


def cluster_by_run_time(graph: TaskGraph, settings: ClusteringSettings) -> ClusteredGraph:
    """Cluster tasks of one label and depth, in the order of the graph, up to the target; others stay single.

    Tasks of one depth never wait for each other, and so their clusters cannot. A task of unknown run time is a cluster
    of its own.

    Raises `GraphError` if two tasks would have the same name.
    """
    tasks = graph.dag.nodes
    depth = [0] * len(tasks)
    groups: dict[tuple[str, int], list[int]] = {}
    for index in graph.dag.order:
        depth[index] = max((depth[parent] + 1 for parent in graph.dag.parents[index]), default=0)
        groups.setdefault((tasks[index].label, depth[index]), []).append(index)
    packs = [pack for members in groups.values() for pack in _packs(members, graph, settings)]
    cluster_of = [0] * len(tasks)
    for number, pack in enumerate(packs):
        for index in pack:
            cluster_of[index] = number
    names = task_job_names([tasks[pack[0]] for pack in packs], settings)
    clusters = [
        Cluster(
            name=name,
            label=tasks[pack[0]].label,
            tags=tasks[pack[0]].data_id if len(pack) == 1 else {},
            tasks=tuple(tasks[index] for index in pack),
        )
        for name, pack in zip(names, packs, strict=True)
    ]
    return make_cluster_graph(graph, clusters, cluster_of)


def _packs(members: list[int], graph: TaskGraph, settings: ClusteringSettings) -> Iterator[list[int]]:
    """Split tasks into packs whose run times add up to the target at most."""
    pack: list[int] = []
    full_s = 0.0
    for index in members:
        run_s = settings.run_s(graph.dag.nodes[index])
        if run_s is None:
            yield [index]
            continue
        if pack and full_s + run_s > settings.target_s:
            yield pack
            pack, full_s = [], 0.0
        pack.append(index)
        full_s += run_s
    if pack:
        yield pack
