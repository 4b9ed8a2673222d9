"""A graph of clusters as lines of JSON: parents first, the same graph always the same bytes."""

from __future__ import annotations

import json

from longshore.model.tasks import Cluster, ClusteredGraph, Dag, Task, TaskGraph
from longshore.model.workflow_lines import CLUSTERS_FORMAT, clustered_lines

TASKS = [
    Task(name="c_1", label="c"),
    Task(name="a_1", label="a", data_id={"visit": 1}, node_id="0-1"),
    Task(name="a_2", label="a", data_id={"visit": 2}),
]


def clustered() -> ClusteredGraph:
    clusters = [
        Cluster(name="c_1", label="c", tasks=(TASKS[0],)),
        Cluster(name="all", label="pack", tags={"visit": 1}, tasks=(TASKS[1], TASKS[2])),
    ]
    source = TaskGraph(name="w", dag=Dag(TASKS, [(1, 0), (2, 0)]))
    return ClusteredGraph(name="w", dag=Dag(clusters, [(1, 0)]), source=source)


def test_a_header_and_a_line_per_cluster_parents_first() -> None:
    header, *lines = map(json.loads, clustered_lines(clustered()))
    assert header == {"v": CLUSTERS_FORMAT, "name": "w", "clusters": 2, "tasks": 3}
    assert lines == [
        {
            "name": "all",
            "label": "pack",
            "tags": {"visit": 1},
            "tasks": [
                {"name": "a_1", "label": "a", "data_id": {"visit": 1}, "node_id": "0-1"},
                {"name": "a_2", "label": "a", "data_id": {"visit": 2}},
            ],
        },
        {"name": "c_1", "label": "c", "p": [0], "tasks": [{"name": "c_1", "label": "c"}]},
    ]


def test_the_same_graph_gives_the_same_bytes() -> None:
    assert list(clustered_lines(clustered())) == list(clustered_lines(clustered()))
