"""Clustering by dimension beyond BPS: missing dimensions, colliding names, values in order."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples

from longshore.contract.algorithms import ClusteringSettings, ClusterRule, Partition, Start
from longshore.errors import CycleError, GraphError
from longshore.model.tasks import Dag, DataId, Task, TaskGraph
from longshore.plan.clustering import assign_parts, check_clusters, cluster_by_dimension


def task(name: str, **data_id: str | int) -> Task:
    return Task(name=name, label=name.rstrip("0123456789"), data_id=data_id)


def visits() -> TaskGraph:
    """Tasks of groups, each of which becomes a visit; only the visit's own tasks know its number."""
    tasks = [task(f"{label}{number}", **{of: 10 * number}) for label, of in LABELLED for number in range(3)]
    edges = [(f"{a}{number}", f"{b}{number}") for a, b in pairwise("abc") for number in range(3)]
    return TaskGraph(name="g", dag=Dag.by_name(tasks, edges))


LABELLED = (("a", "group"), ("b", "visit"), ("c", "visit"))


@pytest.mark.parametrize(("start", "dimension"), [(Start.SINK, "visit"), (Start.SOURCE, "group")])
def test_tasks_without_the_dimensions_join_the_cluster_of_their_neighbours(start: Start, dimension: str) -> None:
    rule = ClusterRule(label="cl", tasks=("a", "b", "c"), dimensions=(dimension,), start=start)
    clustered = cluster_by_dimension(visits(), ClusteringSettings(rules=(rule,)))
    assert {cluster.name: [task.name for task in cluster.tasks] for cluster in clustered.dag.nodes} == {
        f"cl_{10 * number}": [f"a{number}", f"b{number}", f"c{number}"] for number in range(3)
    }


def test_task_without_the_dimensions_is_refused_without_a_method() -> None:
    rule = ClusterRule(label="cl", tasks=("a", "b", "c"), dimensions=("visit",))
    with pytest.raises(GraphError, match=r"the task 'a0' of 'a' .* lacks 'visit'") as caught:
        cluster_by_dimension(visits(), ClusteringSettings(rules=(rule,)))
    assert "findDependencyMethod" in caught.value.hint


def test_task_between_two_clusters_is_refused() -> None:
    graph = TaskGraph(
        name="g", dag=Dag.by_name([task("a"), task("b1", v=1), task("b2", v=2)], [("a", "b1"), ("a", "b2")])
    )
    rule = ClusterRule(label="cl", tasks=("a", "b"), dimensions=("v",), start=Start.SINK)
    with pytest.raises(
        GraphError, match="the task 'a' of 'a' would be in two clusters of 'cl': with 'b1' and with 'b2'"
    ):
        cluster_by_dimension(graph, ClusteringSettings(rules=(rule,)))


def test_task_without_clustered_neighbours_is_refused() -> None:
    rule = ClusterRule(label="cl", tasks=("a", "b"), dimensions=("v",), start=Start.SOURCE)
    graph = TaskGraph(name="g", dag=Dag([task("b1", v=1), task("a")], []))
    with pytest.raises(GraphError, match=r"the task 'a' of 'a' .no dimensions. lacks 'v'") as caught:
        cluster_by_dimension(graph, ClusteringSettings(rules=(rule,)))
    assert "come before it" in caught.value.hint


def test_clusters_that_a_template_does_not_tell_apart_are_refused() -> None:
    graph = TaskGraph(name="g", dag=Dag([task("b1", v=1), task("b2", v=2)], []))
    rule = ClusterRule(label="cl", tasks=("b",), dimensions=("v",), template="{label}-all")
    with pytest.raises(GraphError, match="two clusters would be named 'cl-all': of 'b1' and of 'b2'") as caught:
        cluster_by_dimension(graph, ClusteringSettings(rules=(rule,)))
    assert "clusterTemplate" in caught.value.hint


def test_a_name_that_shows_a_value_to_divide_by_is_a_cluster_of_that_value() -> None:
    graph = TaskGraph(name="g", dag=Dag([task(f"b{v}", v=v, w=1) for v in range(3)], []))

    def clusters(most: int) -> list[tuple[str, int]]:
        cut = Partition(dimensions=("v",), most_clusters=most)
        rule = ClusterRule(label="cl", tasks=("b",), dimensions=("w",), template="{label}_{v}", partition=cut)
        made = cluster_by_dimension(graph, ClusteringSettings(rules=(rule,)))
        return [(each.name, len(each.tasks)) for each in made.dag.nodes]

    assert clusters(3) == [("cl_0_001", 1), ("cl_1_001", 1), ("cl_2_001", 1)]
    with pytest.raises(GraphError, match="is 1, but its dimensions alone make 3"):
        clusters(1)


def test_slash_in_a_value_is_replaced_in_a_name() -> None:
    graph = TaskGraph(name="g", dag=Dag([task("b1", v="x/y")], []))
    clustered = cluster_by_dimension(
        graph, ClusteringSettings(rules=(ClusterRule(label="cl", tasks=("b",), dimensions=("v",)),))
    )
    assert [cluster.name for cluster in clustered.dag.nodes] == ["cl_x_y"]


@given(st.sets(st.one_of(st.integers(-50, 50), st.text("ab9", max_size=3)), min_size=1, max_size=30), st.integers(1, 9))
def test_parts_hold_all_values_in_order_and_are_nearly_of_one_size(values: set[int | str], most: int) -> None:
    wanted = [(value,) for value in values]
    by_count = assign_parts(wanted, Partition(dimensions=("d",), most_clusters=most), 1, label="c", origin=None)
    sizes = [[*by_count.values()].count(number) for number in sorted(set(by_count.values()))]
    assert len(sizes) == min(most, len(values))
    assert max(sizes) - min(sizes) <= 1
    by_size = assign_parts(wanted, Partition(dimensions=("d",), most_values=most), 1, label="c", origin=None)
    assert max([*by_size.values()].count(number) for number in by_size.values()) <= most
    for parts in (by_count, by_size):
        assert len(parts) == len(wanted)
        assert [*parts.values()] == sorted(parts.values())
        numbers = [value for (value,) in parts if isinstance(value, int)]
        assert numbers == sorted(numbers), "10 does not come before 9"


@st.composite
def graphs(draw: st.DrawFn) -> TaskGraph:
    size = draw(st.integers(1, 14))
    ids: list[DataId] = [
        {name: draw(st.integers(0, 2)) for name in draw(st.sets(st.sampled_from(["x", "y"])))} for _ in range(size)
    ]
    tasks = [Task(name=f"n{number}", label=draw(st.sampled_from("abc")), data_id=ids[number]) for number in range(size)]
    pairs = [(parent, child) for parent, child in product(range(size), repeat=2) if parent < child]
    return TaskGraph(name="g", dag=Dag(tasks, draw(st.lists(st.sampled_from(pairs), max_size=20)) if pairs else []))


@settings(max_examples=examples(200))
@given(graphs(), st.sampled_from([None, *Start]), st.sampled_from([("x",), ("x", "y"), ()]), st.data())
def test_every_task_is_in_one_cluster_or_an_error_explains(
    graph: TaskGraph, start: Start | None, dimensions: tuple[str, ...], data: st.DataObject
) -> None:
    rules = [ClusterRule(label="one", tasks=("a",), dimensions=dimensions, start=start)]
    if data.draw(st.booleans()):
        rules.append(ClusterRule(label="two", tasks=("b", "c"), dimensions=("y",), start=start))
    try:
        clustered = cluster_by_dimension(graph, ClusteringSettings(rules=tuple(rules)))
    except CycleError as error:
        said = (*error.ring[:1], *error.ring[-1:], error.hint)
    except GraphError as error:
        said = (str(error),)
    else:
        said = ()
        check_clusters(clustered)
        for cluster in clustered.dag.nodes:
            for held in cluster.tasks:
                assert all(held.data_id.get(name, value) == value for name, value in cluster.tags.items())
    if len(said) == 3:
        assert said[0] == said[1]
        assert " before " in said[2]
    elif said:
        assert "lacks '" in said[0] or "would be in two clusters" in said[0]


@pytest.mark.parametrize(("start", "edge"), [(Start.SOURCE, (0, 1)), (Start.SINK, (1, 0))])
def test_task_never_joins_a_cluster_with_another_value(start: Start, edge: tuple[int, int]) -> None:
    ids: list[DataId] = [{"visit": 1, "band": "r"}, {"visit": 2}]
    tasks = [Task(name=f"n{number}", label="a", data_id=each) for number, each in enumerate(ids)]
    rule = ClusterRule(label="cl", tasks=("a",), dimensions=("visit", "band"), start=start)
    with pytest.raises(GraphError, match=r"'n1' of 'a' \(visit: 2\) lacks 'band'"):
        cluster_by_dimension(TaskGraph(name="g", dag=Dag(tasks, [edge])), ClusteringSettings(rules=(rule,)))


def test_implied_dimensions_are_accepted() -> None:
    tasks = [
        Task(name=f"a{visit}", label="a", data_id={"visit": visit}, implied={"band": band})
        for visit, band in ((1, "r"), (2, "i"), (3, "r"))
    ]
    graph = TaskGraph(name="g", dag=Dag(tasks, []))
    rule = ClusterRule(label="cl", tasks=("a",), dimensions=("band",), template="by_{band}")
    clustered = cluster_by_dimension(graph, ClusteringSettings(rules=(rule,)))
    assert {cluster.name: len(cluster.tasks) for cluster in clustered.dag.nodes} == {"by_r": 2, "by_i": 1}
    assert [dict(cluster.tags) for cluster in clustered.dag.nodes] == [{"band": "r"}, {"band": "i"}]
