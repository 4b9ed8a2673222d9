"""Each task is a cluster of its own."""

from __future__ import annotations

from longshore.contract.algorithms import ClusteringSettings
from longshore.model.tasks import Dag, Task, TaskGraph
from longshore.plan.clustering import cluster_single_tasks


def test_every_task_is_a_cluster_by_itself() -> None:
    tasks = [Task(name=f"t{number}", label=f"l{number % 2}", data_id={"visit": number}) for number in range(4)]
    graph = TaskGraph(name="g", dag=Dag(tasks, [(0, 2), (1, 2), (2, 3)]))
    clustered = cluster_single_tasks(graph, ClusteringSettings())
    assert clustered.name == "g"
    assert clustered.source is graph
    assert [cluster.tasks for cluster in clustered.dag.nodes] == [(task,) for task in tasks]
    assert [(cluster.name, cluster.label, cluster.tags) for cluster in clustered.dag.nodes] == [
        (task.name, task.label, task.data_id) for task in tasks
    ]
    assert sorted(clustered.dag.edges()) == [(0, 2), (1, 2), (2, 3)]


def test_no_tasks_make_no_clusters() -> None:
    assert len(cluster_single_tasks(TaskGraph(name="g", dag=Dag([], [])), ClusteringSettings()).dag) == 0
