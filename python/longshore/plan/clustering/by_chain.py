"""Clusters chains of tasks: each task has one parent and one child in the chain."""

from __future__ import annotations

from longshore.contract.clustering import ClusteringSettings
from longshore.model.tasks.cluster import Cluster, ClusteredGraph
from longshore.model.tasks.task import Task, TaskGraph
from longshore.plan.clustering.by_task import task_job_names
from longshore.plan.clustering.cluster_graph import make_cluster_graph


def cluster_chains(graph: TaskGraph, settings: ClusteringSettings) -> ClusteredGraph:
    """Cluster each maximal chain of tasks.

    A cluster has the name of its first task; its label joins those of its tasks by ``-``.

    Raises `GraphError` if two tasks would have the same name.
    """
    parents, children = graph.dag.parents, graph.dag.children
    rows: list[list[int]] = []
    row_of = [0] * len(graph.dag)
    for index in graph.dag.order:
        before = parents[index]
        if len(before) == 1 and len(children[before[0]]) == 1:
            number = row_of[before[0]]
            rows[number].append(index)
        else:
            number = len(rows)
            rows.append([index])
        row_of[index] = number
    tasks = graph.dag.nodes
    names = task_job_names([tasks[row[0]] for row in rows], settings)
    clusters = [_cluster(name, tuple(tasks[index] for index in row)) for name, row in zip(names, rows, strict=True)]
    return make_cluster_graph(graph, clusters, row_of)


def _cluster(name: str, tasks: tuple[Task, ...]) -> Cluster:
    label = "-".join(dict.fromkeys(task.label for task in tasks))
    shared = {key: value for key, value in tasks[0].data_id.items() if all(_has(task, key, value) for task in tasks)}
    return Cluster(name=name, label=label, tags=tasks[0].data_id if len(tasks) == 1 else shared, tasks=tasks)


def _has(task: Task, key: str, value: object) -> bool:
    return key in task.data_id and task.data_id[key] == value
