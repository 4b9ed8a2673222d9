"""Short tasks of a label packed together until they come to a target of wall time."""

from __future__ import annotations

from collections.abc import Iterator

from longshore.contract.clustering import ClusteringSettings
from longshore.model.cluster import Cluster, ClusteredGraph
from longshore.model.task import TaskGraph
from longshore.plan.clustering.gather import make_cluster_graph
from longshore.plan.clustering.single import task_job_names


def cluster_by_run_time(graph: TaskGraph, settings: ClusteringSettings) -> ClusteredGraph:
    """Tasks of one label and one depth, in the order of the graph, up to the target; the others by themselves.

    Tasks of one depth never wait for each other, so that clusters of them cannot either. A task of which nobody knows
    how long it runs is a job of its own.

    Raises
    ------
    GraphError
        Two tasks come to the same name.
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
    """Rows of tasks that together run for no longer than the target, or of one task."""
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
