"""Makes each task a cluster of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from longshore.config.templates import Template, split_fields
from longshore.contract.clustering import ClusteringSettings
from longshore.errors import GraphError
from longshore.model.tasks.cluster import Cluster, ClusteredGraph
from longshore.model.tasks.task import Task, TaskGraph

_UNDERSCORES = re.compile("__+")


def cluster_single_tasks(graph: TaskGraph, settings: ClusteringSettings) -> ClusteredGraph:
    """Make each task a cluster.

    Raises `GraphError` if two tasks would have the same name.
    """
    names = task_job_names(graph.dag.nodes, settings)
    clusters = (
        Cluster(name=name, label=task.label, tags=task.data_id, tasks=(task,))
        for name, task in zip(names, graph.dag.nodes, strict=True)
    )
    return ClusteredGraph(name=graph.name, dag=graph.dag.alike(clusters), source=graph)


def task_job_names(tasks: Iterable[Task], settings: ClusteringSettings) -> Iterator[str]:
    """Names of single tasks' jobs.

    Without a template it is the task's name. With one, it is the id from the source, the label, and the template with
    the task's dimensions; absent dimensions are left out.

    Raises `GraphError` if two tasks would have the same name.
    """
    if not settings.name_template:
        yield from (task.name for task in tasks)
        return
    template = Template(split_fields(settings.name_template))
    labelled = "label" in template.names
    seen: dict[str, Task] = {}
    for task in tasks:
        start = f"{task.node_id}_" if settings.node_ids and task.node_id else ""
        values = {**task.data_id, "label": task.label} if labelled else task.data_id
        name = f"{start}{task.label}_{template.render(values, missing='')}"
        if "__" in name:
            name = _UNDERSCORES.sub("_", name)
        if "/" in name:
            name = name.replace("/", "_")
        if (other := seen.setdefault(name, task)) is not task:
            raise GraphError(
                f"the tasks '{other.name}' and '{task.name}' would both be named '{name}'",
                hint=f"Let 'templateDataId', which is '{settings.name_template}', name what tells them apart.",
            )
        yield name
