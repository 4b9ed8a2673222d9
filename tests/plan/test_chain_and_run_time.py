"""Clustering beyond BPS: chains as one job, and short tasks up to a target run time."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.contract.algorithms import ClusteringSettings
from longshore.errors import GraphError
from longshore.model.tasks import Cluster, ClusteredGraph, Dag, Task, TaskGraph
from longshore.plan.clustering import check_clusters, cluster_by_run_time, cluster_chains, cluster_single_tasks


def graph(edges: list[tuple[str, str]], *names: str) -> TaskGraph:
    tasks = [Task(name=name, label=name[0], data_id={"n": int(name[1:])}) for name in names]
    return TaskGraph(name="g", dag=Dag.by_name(tasks, edges))


def contents(clustered: ClusteredGraph) -> dict[str, list[str]]:
    check_clusters(clustered)
    return {cluster.name: [task.name for task in cluster.tasks] for cluster in clustered.dag.nodes}


def test_chain_ends_at_a_branch() -> None:
    edges = [("a1", "b1"), ("b1", "c1"), ("c1", "d1"), ("a2", "b2"), ("b2", "d1"), ("d1", "e1"), ("e1", "e2")]
    clustered = cluster_chains(graph(edges, "a1", "b1", "c1", "a2", "b2", "d1", "e1", "e2"), ClusteringSettings())
    assert contents(clustered) == {"a1": ["a1", "b1", "c1"], "a2": ["a2", "b2"], "d1": ["d1", "e1", "e2"]}
    assert [cluster.label for cluster in clustered.dag.nodes] == ["a-b-c", "a-b", "d-e"]
    assert [cluster.tags for cluster in clustered.dag.nodes] == [{"n": 1}, {"n": 2}, {}]


def test_tasks_of_one_depth_are_packed_up_to_the_target() -> None:
    names = [f"{label}{number}" for label, number in product("ab", range(7))]
    edges = [(f"a{number}", f"b{number}") for number in range(7)]
    known = {"a": 20.0, "b": 100.0}
    settings = ClusteringSettings(target_s=60.0, run_s=lambda task: known[task.label])
    clustered = cluster_by_run_time(graph(edges, *names), settings)
    assert contents(clustered) == {
        "a0": ["a0", "a1", "a2"],
        "a3": ["a3", "a4", "a5"],
        "a6": ["a6"],
        **{f"b{number}": [f"b{number}"] for number in range(7)},
    }
    assert {cluster.label for cluster in clustered.dag.nodes} == {"a", "b"}


def test_tasks_of_unknown_run_time_stay_single() -> None:
    clustered = cluster_by_run_time(graph([], "a1", "a2"), ClusteringSettings())
    assert contents(clustered) == {"a1": ["a1"], "a2": ["a2"]}


@given(
    st.integers(1, 12).flatmap(
        lambda size: st.tuples(
            st.just(size),
            st.sets(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)).filter(lambda e: e[0] < e[1])),
            st.lists(st.sampled_from("abc"), min_size=size, max_size=size),
        )
    ),
    st.floats(0.5, 30.0),
)
def test_clusters_hold_all_tasks_without_a_cycle(
    drawn: tuple[int, set[tuple[int, int]], list[str]], target_s: float
) -> None:
    size, edges, labels = drawn
    tasks = [Task(name=f"t{number}", label=labels[number]) for number in range(size)]
    source = TaskGraph(name="g", dag=Dag(tasks, sorted(edges)))
    settings = ClusteringSettings(target_s=target_s, run_s=lambda task: {"a": 1.0, "b": 4.0}.get(task.label))
    for algorithm in (cluster_chains, cluster_by_run_time, cluster_single_tasks):
        check_clusters(algorithm(source, settings))
    for cluster in cluster_by_run_time(source, settings).dag.nodes:
        spent = [settings.run_s(task) or 0.0 for task in cluster.tasks]
        assert len(spent) == 1 or sum(spent) <= target_s


def test_two_tasks_that_a_template_does_not_tell_apart_are_refused() -> None:
    with pytest.raises(GraphError, match="the tasks 'a1' and 'a2' would both be named 'a_all'"):
        cluster_single_tasks(graph([], "a1", "a2"), ClusteringSettings(name_template="all"))


@pytest.mark.parametrize(
    ("clusters", "edges", "words"),
    [
        ([["a1"]], [], "the task 'b1' is in no cluster (and 1 more)"),
        ([["a1", "b1", "c1"], ["b1"]], [(0, 1)], "the task 'b1' is in the clusters more than once"),
        ([["a1", "b1", "c1", "x1"]], [], "the task 'x1' is in a cluster, but is no task of the graph"),
        ([["b1", "a1"], ["c1"]], [(0, 1)], "in the cluster 'b1', the task 'b1' comes before 'a1', for which it waits"),
        ([["a1"], ["b1", "c1"]], [], "the task 'b1' waits for 'a1', but its cluster 'b1' does not wait for 'a1'"),
    ],
)
def test_invalid_clusters_are_reported(clusters: list[list[str]], edges: list[tuple[int, int]], words: str) -> None:
    source = graph([("a1", "b1"), ("b1", "c1")], "a1", "b1", "c1")
    made = [
        Cluster(name=names[0], label="l", tasks=tuple(Task(name=name, label="l") for name in names))
        for names in clusters
    ]
    with pytest.raises(GraphError) as caught:
        check_clusters(ClusteredGraph(name="g", dag=Dag(made, edges), source=source))
    assert words in str(caught.value)
