"""Groups of jobs that run one after another, as in BPS, on the graph of its tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import pytest
from tests.plan.graphs import graph, workflow_of

from longshore.config.select import OrderingRule
from longshore.contract.algorithms import ClusteringSettings, Start
from longshore.errors import ConfigError, CycleError, Origin, PreparationError
from longshore.model.tasks import Cluster, ClusteredGraph, Dag, Task, TaskGraph
from longshore.model.workflow import Barrier, Implementation, Workflow, find_barriers, number_jobs
from longshore.model.workflow_lines import decode_header, decode_job, workflow_lines
from longshore.plan.clustering import cluster_single_tasks
from longshore.plan.jobs import make_orderings, unknown_label_notes

WRITTEN = Origin("run.yaml", 7, 3)
COMMAND = {"runQuantumCommand": "do {label}"}
JOBS = cluster_single_tasks(graph(), ClusteringSettings(name_template="{D1}_{D2}", node_ids=False))


def rule(labels: str, dimensions: str, *, name: str = "o1", **more: Any) -> OrderingRule:
    return OrderingRule(
        name=name, labels=tuple(labels.split()), dimensions=tuple(dimensions.split()), origin=WRITTEN, **more
    )


def ordered(*rules: OrderingRule, of: ClusteredGraph = JOBS) -> Workflow:
    return workflow_of(of, COMMAND, orderings=rules)


def between(workflow: Workflow) -> list[Barrier]:
    index = {job.name: number for number, job in enumerate(workflow)}
    parents = [[index[parent] for parent in workflow.parents(job.name)] for job in workflow]
    return list(find_barriers([number_jobs(each, index) for each in workflow.orderings], parents))


def in_words(workflow: Workflow) -> dict[str, tuple[set[str], set[str]]]:
    names = [job.name for job in workflow]
    return {
        each.name: ({names[job] for job in each.after}, {names[job] for job in each.before})
        for each in between(workflow)
    }


def members(workflow: Workflow) -> dict[str, list[str]]:
    return {each.node_name(group): list(group.jobs) for each in workflow.orderings for group in each.groups}


def test_groups_in_a_chain() -> None:
    workflow = ordered(rule("T1 T2", "D1"))
    groups = members(workflow)
    assert {name: sorted(jobs) for name, jobs in groups.items()} == {
        "group_o1_1": ["T1_1_2", "T1_1_4", "T2_1_2", "T2_1_4"],
        "group_o1_3": ["T1_3_4", "T2_3_4"],
    }
    assert list(groups) == ["group_o1_1", "group_o1_3"]
    # What BPS counts: a node per group, and one per job that is in none.
    assert len(workflow) - len([*chain(*groups.values())]) + len(groups) == 14
    assert not any(each.blocking for each in between(workflow))
    assert [each.title for each in between(workflow)] == ["'D1 1' of 'o1'"]


def test_one_empty_job_between_two_groups() -> None:
    workflow = ordered(rule("T1 T2", "D1", implementation=Implementation.NOOP))
    assert in_words(workflow) == {"noop_o1_1": ({"T2_1_2", "T2_1_4"}, {"T1_3_4"})}
    assert len(workflow) + len(between(workflow)) == 19
    assert all(each.blocking for each in between(workflow))


@pytest.mark.parametrize("implementation", Implementation)
def test_jobs_come_in_an_order_that_obeys(implementation: Implementation) -> None:
    workflow = ordered(rule("T1 T2 T2b T3 T4", "D2 D1", implementation=implementation))
    names = [job.name for job in workflow if job.label != "T5"]
    assert [name.partition("_")[2] for name in names] == ["1_2"] * 5 + ["1_4"] * 5 + ["3_4"] * 5
    assert sorted(workflow.graph.edges) == sorted(workflow_of(JOBS, COMMAND).graph.edges), "an order makes no edges"


def test_a_label_in_two_orders() -> None:
    with pytest.raises(ConfigError, match="the label 'T2' is in the orders 'o1' and 'o2'") as caught:
        make_orderings([rule("T1 T2", "D1"), rule("T2", "D1", name="o2")], JOBS.dag)
    assert "'o1' is written at run.yaml:7:3" in caught.value.hint


def test_a_job_without_a_dimension_is_named() -> None:
    with pytest.raises(PreparationError) as caught:
        ordered(rule("T1", "D1 NotThere Nor"))
    assert "the job 'T1_1_2' of 'T1' (D1: 1, D2: 2) lacks 'NotThere', 'Nor', which the order 'o1' needs" in str(
        caught.value
    )
    assert caught.value.origin == WRITTEN
    assert "equalDimensions" in caught.value.hint


def test_labels_without_jobs_are_noted() -> None:
    rules = [rule("T1 Extra", "D1"), rule("Nothing None", "D1", name="o2")]
    notes = [*unknown_label_notes(rules, (job.label for job in JOBS.dag.nodes))]
    assert [f"{each.origin}: {each.message}" for each in notes] == [
        "run.yaml:7:3: 'ordering.o1.labels' names 'Extra', but no job has such a label",
        "run.yaml:7:3: 'ordering.o2.labels' names 'Nothing', 'None', but no job has such a label; it orders nothing",
    ]
    assert [each.name for each in ordered(*rules).orderings] == ["o1"]


def test_dimensions_that_stand_for_each_other() -> None:
    equal = {"Other": ("D1",), "D1": ("Other",)}
    assert [*members(ordered(rule("T1", "Other", equal=equal)))] == ["group_o1_1", "group_o1_3"]


def test_implied_dimension_is_accepted_for_a_job_of_one_task() -> None:
    tasks = [
        Task(name=f"t{number}", label="t", data_id={"visit": number}, implied={"day": -number}) for number in (1, 2)
    ]
    of = ClusteredGraph(
        name="g",
        dag=Dag([Cluster(name=task.name, label="t", tags=task.data_id, tasks=(task,)) for task in tasks], []),
        source=TaskGraph(name="g", dag=Dag(tasks, [])),
    )
    assert members(ordered(rule("t", "day"), of=of)) == {"group_o1_-2": ["t2"], "group_o1_-1": ["t1"]}


def jobs_of(places: Mapping[str, Mapping[str, int | str]], edges: Iterable[tuple[str, str]]) -> ClusteredGraph:
    """Jobs of one task each, whose labels are the beginnings of their names."""
    tasks = [Task(name=name, label=name[0], data_id=tags) for name, tags in places.items()]
    clusters = [Cluster(name=task.name, label=task.label, tags=task.data_id, tasks=(task,)) for task in tasks]
    return ClusteredGraph(
        name="g", dag=Dag.by_name(clusters, edges), source=TaskGraph(name="g", dag=Dag.by_name(tasks, edges))
    )


def test_numbers_come_in_their_order_and_before_words() -> None:
    values: list[int | str] = ["x", 100, 9, "10", 20]
    places = {f"a{number}": {"d": value} for number, value in enumerate(values)}
    assert [group.key for group in ordered(rule("a", "d"), of=jobs_of(places, [])).orderings[0].groups] == [
        (9,),
        ("10",),
        (20,),
        (100,),
        ("x",),
    ]


ACROSS = jobs_of(
    {"a1": {"d": 1}, "a2": {"d": 2}, "b1": {"d": 1}, "b2": {"d": 2}}, [("a1", "b1"), ("a2", "b1"), ("a2", "b2")]
)
"""The first of the later jobs needs one of the second group."""


def test_a_ring_of_groups_is_named() -> None:
    with pytest.raises(CycleError) as caught:
        ordered(rule("a b", "d"), of=ACROSS)
    assert caught.value.ring == ("b1", "group_o1_1", "a2", "b1")
    assert caught.value.origin == WRITTEN
    assert "such order as 'o1' wants" in caught.value.hint


def test_cycle_without_barriers_is_the_usual_error() -> None:
    with pytest.raises(CycleError) as caught:
        Workflow("w", Dag.by_name(list(ordered(rule("T1", "D1")))[:2], [("T1_1_2", "T1_1_4"), ("T1_1_4", "T1_1_2")]))
    assert caught.value.hint == ""


@pytest.mark.parametrize(
    ("start", "groups"),
    [
        (Start.SOURCE, {"group_o1_1": ["a1"], "group_o1_2": ["a2", "b1", "b2"]}),
        (Start.SINK, {"group_o1_1": ["a1", "a2", "b1"], "group_o1_2": ["b2"]}),
    ],
)
def test_jobs_without_the_dimensions_join_the_group_of_their_neighbours(
    start: Start, groups: Mapping[str, list[str]]
) -> None:
    assert members(ordered(rule("a b", "d", start=start), of=ACROSS)) == groups


def test_job_without_neighbours_needs_the_dimensions() -> None:
    of = jobs_of({"a1": {"d": 1}, "b1": {"v": 7}, "c1": {"d": 3}}, [("a1", "b1")])
    assert members(ordered(rule("a b c", "d", start=Start.SOURCE), of=of)) == {
        "group_o1_1": ["a1", "b1"],
        "group_o1_3": ["c1"],
    }
    with pytest.raises(PreparationError, match="'b1' of 'b'"):
        ordered(rule("a b c", "d", start=Start.SINK), of=of)


def test_an_order_is_in_the_file_with_the_numbers_of_its_jobs() -> None:
    workflow = ordered(rule("T1 T2", "D1", blocking=True))
    first, *lines = workflow_lines(workflow)
    header = decode_header(first, path="workflow.jsonl")
    names = [decode_job(line).name for line in lines]
    (stored,) = header.orderings
    assert (header.v, stored.name, stored.dimensions, stored.blocking) == (2, "o1", ("D1",), True)
    assert [(group.key, [names[job] for job in group.jobs]) for group in stored.groups] == [
        (group.key, list(group.jobs)) for group in workflow.orderings[0].groups
    ]
    plain, *_ = workflow_lines(workflow_of(JOBS, COMMAND))
    assert decode_header(plain, path="workflow.jsonl").v == 1
    assert b"orderings" not in plain


def test_cost_of_an_ordering_is_linear_in_its_jobs() -> None:
    size = 3000
    of = jobs_of({f"a{number}": {"d": number // 30} for number in range(size)}, [])
    found = between(ordered(rule("a", "d"), of=of))
    assert len(found) == size // 30 - 1
    assert sum(len(each.after) + len(each.before) for each in found) == 2 * (size - 30)
