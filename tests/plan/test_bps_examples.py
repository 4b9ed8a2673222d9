"""BPS's own examples of clustering, on the graph of its tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.plan.graphs import PLACES, graph

from longshore.contract.algorithms import ClusteringSettings, ClusterRule, Partition, Start
from longshore.errors import CycleError, GraphError, Origin
from longshore.model.tasks import ClusteredGraph, Dag, Task, TaskGraph
from longshore.plan.clustering import check_clusters, cluster_by_dimension, cluster_single_tasks

WRITTEN = Origin("run.yaml", 7, 3)


def rule(label: str, tasks: str, dimensions: str = "", **more: Any) -> ClusterRule:
    return ClusterRule(
        label=label, tasks=tuple(tasks.split()), dimensions=tuple(dimensions.split()), origin=WRITTEN, **more
    )


def packed(*rules: ClusterRule, of: TaskGraph | None = None, **more: Any) -> ClusteredGraph:
    clustered = cluster_by_dimension(of or graph(), ClusteringSettings(rules=rules, **more))
    check_clusters(clustered)
    return clustered


def contents(clustered: ClusteredGraph) -> Mapping[str, list[str]]:
    return {cluster.name: [task.name for task in cluster.tasks] for cluster in clustered.dag.nodes}


def named_edges(clustered: ClusteredGraph) -> set[tuple[str, str]]:
    names = [cluster.name for cluster in clustered.dag.nodes]
    return {(names[parent], names[child]) for parent, child in clustered.dag.edges()}


def test_names_of_single_tasks_are_label_and_template_without_blanks() -> None:
    settings = ClusteringSettings(name_template="{D1}_{D2}_{D3}", node_ids=False)
    clustered = cluster_single_tasks(graph(), settings)
    assert [cluster.name for cluster in clustered.dag.nodes][:4] == ["T1_1_2_", "T1_1_4_", "T1_3_4_", "T2_1_2_"]
    assert (len(clustered.dag), len(list(clustered.dag.edges()))) == (18, 12)
    with_ids = cluster_single_tasks(graph(), ClusteringSettings(name_template="{D1}_{D2}"))
    assert with_ids.dag.nodes[0].name == "id0_T1_1_2"


def test_without_a_template_tasks_keep_their_names() -> None:
    assert [*contents(cluster_single_tasks(graph(), ClusteringSettings()))][:2] == ["T1-1-2", "T1-1-4"]


def test_dimensions_make_clusters() -> None:
    clustered = packed(rule("cl1", "T1 T2 T2b T3 T4 T5", "D1 D2"))
    assert {name: len(tasks) for name, tasks in contents(clustered).items()} == dict.fromkeys(
        ("cl1_1_2", "cl1_1_4", "cl1_3_4"), 6
    )
    assert not named_edges(clustered)
    assert [cluster.tags for cluster in clustered.dag.nodes] == [{"D1": one, "D2": two} for one, two in PLACES]
    assert {cluster.label for cluster in clustered.dag.nodes} == {"cl1"}


def test_a_template_names_clusters() -> None:
    clustered = packed(rule("cl1", "T1 T2 T2b T3 T4 T5", "D1 D2", template="ct_{D1}_{D2}_{D3}_"))
    assert [*contents(clustered)] == ["ct_1_2_", "ct_1_4_", "ct_3_4_"]


def test_without_dimensions_there_is_one_cluster() -> None:
    clustered = packed(rule("cl1", "T1 T2"), rule("cl2", "T3 T4"))
    assert {name: len(tasks) for name, tasks in contents(clustered).items() if len(tasks) > 1} == {"cl1": 6, "cl2": 6}
    after = {f"T2b-{one}-{two}" for one, two in PLACES}
    assert named_edges(clustered) == {("cl1", "cl2"), *(("cl1", name) for name in after)}
    assert {name for name in contents(clustered) if name.startswith("T5")} == {f"T5-{a}-{b}" for a, b in PLACES}


def test_clusters_that_would_wait_for_each_other() -> None:
    with pytest.raises(CycleError) as caught:
        packed(rule("cl1", "T1 T3 T4", "D1 D2"), rule("cl2", "T2", "D1 D2"))
    assert caught.value.ring[0] == caught.value.ring[-1]
    assert "'T1-1-2' before 'T2-1-2'" in caught.value.hint
    assert "'cl1'" in caught.value.hint


def test_a_task_without_a_dimension_is_named() -> None:
    with pytest.raises(GraphError) as caught:
        packed(rule("cl1", "T1", "D1 NotThere"))
    assert "the task 'T1-1-2' of 'T1' (D1: 1, D2: 2) lacks 'NotThere', which the cluster 'cl1' needs" in str(
        caught.value
    )
    assert caught.value.origin == WRITTEN
    assert "equalDimensions" in caught.value.hint


def test_dimensions_that_stand_for_each_other() -> None:
    clustered = packed(rule("cl1", "T1 T2", "D1 NotThere", equal={"NotThere": ("D2",), "D2": ("NotThere",)}))
    assert [name for name in contents(clustered) if name.startswith("cl1")] == ["cl1_1_2", "cl1_1_4", "cl1_3_4"]
    assert clustered.dag["cl1_1_2"].tags == {"D1": 1, "NotThere": 2}


def test_labels_that_no_task_has_are_left_out() -> None:
    assert contents(packed(rule("cl1", "T1 Extra T2", "D1")))["cl1_1"] == ["T1-1-2", "T1-1-4", "T2-1-2", "T2-1-4"]


def test_parts_of_clusters() -> None:
    cut = Partition(dimensions=("D2",), most_values=1)
    clustered = packed(rule("cl1", "T1 T2 T2b T3 T4 T5", "D1", partition=cut))
    assert [*contents(clustered)] == ["cl1_1_001", "cl1_1_002", "cl1_3_002"]


@pytest.mark.full
def test_parts_are_of_nearly_one_size() -> None:
    exposures, detectors = 800, 189
    tasks = [
        Task(name=f"t{number}", label="t", data_id={"exposure": number // detectors, "detector": number % detectors})
        for number in range(exposures * detectors)
    ]
    cut = Partition(dimensions=("exposure",), most_clusters=10_000)
    clustered = packed(rule("c", "t", "detector", partition=cut), of=TaskGraph(name="g", dag=Dag(tasks, [])))
    assert len(clustered.dag) == 9828
    sizes = [len(cluster.tasks) for cluster in clustered.dag.nodes if cluster.tags == {"detector": 0}]
    assert (sizes.count(16), sizes.count(15), len(sizes)) == (20, 32, 52)


def test_fewer_parts_than_clusters_are_refused() -> None:
    cut = Partition(dimensions=("D2",), most_clusters=1)
    with pytest.raises(GraphError, match=r"'partitionMaxClusters' of the cluster 'cl1' is 1, but .* make 2") as caught:
        packed(rule("cl1", "T1 T2", "D1", partition=cut))
    assert caught.value.origin == WRITTEN


@pytest.mark.parametrize("start", [*Start, None])
def test_source_and_sink_come_to_the_same_here(start: Start | None) -> None:
    clustered = packed(rule("cl1", "T2 T3", "D1 D2", start=start))
    assert contents(clustered)["cl1_1_2"] == ["T2-1-2", "T3-1-2"]
    near = {edge for edge in named_edges(clustered) if "cl1_1_2" in edge}
    assert near == {("T1-1-2", "cl1_1_2"), ("cl1_1_2", "T2b-1-2"), ("cl1_1_2", "T4-1-2")}


def test_a_graph_with_holes() -> None:
    holes = graph(without=frozenset({("T1", 1, 2), ("T2", 1, 2)}))
    clustered = packed(rule("cl1", "T1 T2 T3", "D1 D2", start=Start.SOURCE), of=holes)
    assert contents(clustered)["cl1_1_2"] == ["T3-1-2"]
    assert not [edge for edge in named_edges(clustered) if "T2b-1-2" in edge]
