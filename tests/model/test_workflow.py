"""The generic workflow: jobs in an order they may run in, over a networkx graph of its own."""

from __future__ import annotations

import gc

import networkx as nx
import pytest

from longshore.errors import CycleError, GraphError
from longshore.model.tasks import Dag, File
from longshore.model.workflow import Job, JobSettings, Workflow


def job(name: str, label: str = "") -> Job:
    label = label or name[0]
    return Job(name=name, label=label, command="true", settings=JobSettings(label=label))


DIAMOND = [job("d1"), job("b1"), job("c1", "b"), job("a1")]
EDGES = [("a1", "b1"), ("a1", "c1"), ("b1", "d1"), ("c1", "d1")]


def test_jobs_come_parents_first_and_the_final_one_last() -> None:
    workflow = Workflow("w", Dag.by_name(DIAMOND, EDGES), final=job("f1"))
    assert [each.name for each in workflow] == ["a1", "b1", "c1", "d1", "f1"]
    assert len(workflow) == 5
    assert len(Workflow("w", Dag.by_name(DIAMOND, EDGES))) == 4


def test_the_graph_is_one_of_networkx() -> None:
    workflow = Workflow("w", Dag.by_name(DIAMOND, [*EDGES, EDGES[0]]), final=job("f1"))
    assert isinstance(workflow.graph, nx.DiGraph)
    assert list(workflow.graph) == ["a1", "b1", "c1", "d1"]
    assert sorted(workflow.graph.edges) == sorted(EDGES)
    assert workflow.graph.nodes["a1"] == {"job": DIAMOND[3]}


def test_a_job_is_found_by_its_name() -> None:
    final = job("f1")
    workflow = Workflow("w", Dag.by_name(DIAMOND, EDGES), final=final)
    assert workflow["d1"] is DIAMOND[0]
    assert workflow["f1"] is final
    with pytest.raises(KeyError):
        workflow["x"]


def test_parents() -> None:
    workflow = Workflow("w", Dag.by_name(DIAMOND, EDGES), final=job("f1"))
    assert workflow.parents("d1") == ["b1", "c1"]
    assert workflow.parents("a1") == []
    assert workflow.parents("f1") == []


def test_jobs_are_counted_per_label_in_the_order_labels_begin() -> None:
    workflow = Workflow("w", Dag.by_name(DIAMOND, EDGES), final=job("f1"))
    assert list(workflow.counts().items()) == [("a", 1), ("b", 2), ("d", 1), ("f", 1)]
    assert sum(workflow.counts().values()) == len(workflow)


def test_a_workflow_may_be_empty() -> None:
    workflow = Workflow("w", Dag.by_name([]))
    assert (len(workflow), list(workflow), workflow.counts()) == (0, [], {})


def test_a_workflow_may_be_its_final_job_alone() -> None:
    workflow = Workflow("w", Dag.by_name([]), final=job("f1"))
    assert (len(workflow), workflow.counts()) == (1, {"f": 1})


def test_files_and_attributes_are_the_workflows_own() -> None:
    files, attributes = {"f": File("f", "data/f")}, {"bps_operator": "me"}
    workflow = Workflow("w", Dag.by_name([]), files=files, attributes=attributes)
    files.clear()
    attributes.clear()
    assert dict(workflow.files) == {"f": File("f", "data/f")}
    assert dict(workflow.attributes) == {"bps_operator": "me"}
    with pytest.raises(TypeError):
        workflow.attributes["bps_operator"] = "you"  # type: ignore[index]


def test_two_jobs_of_one_name_are_refused() -> None:
    with pytest.raises(GraphError, match=r"two nodes are named 'a1' \(number 4 and 5\)"):
        Workflow("w", Dag.by_name([*DIAMOND, job("a1")], EDGES))


def test_a_final_job_needs_a_name_of_its_own() -> None:
    with pytest.raises(GraphError, match="the final job and another are both named 'a1'"):
        Workflow("w", Dag.by_name(DIAMOND, EDGES), final=job("a1"))


def test_an_edge_to_nowhere_is_refused() -> None:
    with pytest.raises(
        GraphError,
        match=r"^the edge 'a1' -> 'project2' leads to nowhere: there is no 'project2'\nDid you mean 'project1'\?$",
    ):
        Workflow("w", Dag.by_name([*DIAMOND, job("project1")], [*EDGES, ("a1", "project2")]))


def test_no_job_waits_for_the_final_one() -> None:
    with pytest.raises(GraphError, match="leads to nowhere: there is no 'f1'"):
        Workflow("w", Dag.by_name(DIAMOND, [*EDGES, ("f1", "a1")]), final=job("f1"))


def test_a_ring_is_refused() -> None:
    with pytest.raises(CycleError) as caught:
        Workflow("w", Dag.by_name(DIAMOND, [*EDGES, ("d1", "a1")]))
    assert len(caught.value.ring) == 4


@pytest.mark.parametrize("collecting", [True, False])
def test_garbage_collection_is_left_as_it_was(collecting: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if collecting else gc.disable)()
        Workflow("w", Dag.by_name(DIAMOND, EDGES))
        assert gc.isenabled() is collecting
    finally:
        (gc.enable if before else gc.disable)()


def test_the_graph_of_networkx_is_a_picture_and_made_when_asked_for() -> None:
    workflow = Workflow("w", Dag.by_name(DIAMOND, EDGES))
    assert workflow.graph is workflow.graph
    with pytest.raises(nx.NetworkXError):
        workflow.graph.remove_node("a1")
    assert "a1" in workflow
    assert "x1" not in workflow
    assert "f1" in Workflow("w", Dag.by_name(DIAMOND, EDGES), final=job("f1"))


def test_jobs_can_come_as_a_graph() -> None:
    dag = Dag.by_name(DIAMOND, EDGES)
    workflow = Workflow("w", dag)
    assert [each.name for each in workflow] == ["a1", "b1", "c1", "d1"]
    assert workflow.parents("d1") == ["b1", "c1"]


def test_the_graph_is_that_of_the_jobs() -> None:
    jobs = [Job(name=name, label="x", command="true", settings=JobSettings(label="x")) for name in "abc"]
    workflow = Workflow("w", Dag.by_name(jobs, [("c", "a"), ("a", "b")]))
    assert list(workflow.graph) == ["c", "a", "b"]
    assert list(workflow.graph.edges) == [("c", "a"), ("a", "b")]
    assert workflow.graph.nodes["a"]["job"] is workflow["a"] is workflow.get("a")
    assert workflow.graph is workflow.graph
    assert workflow.get("d") is None


def test_links_are_the_numbers_of_parents_in_the_order_of_jobs() -> None:
    workflow = Workflow(
        "w", Dag.by_name([job("a"), job("b"), job("c")], [("c", "a"), ("a", "b"), ("c", "b")]), final=job("z")
    )
    assert [each.name for each in workflow] == ["c", "a", "b", "z"]
    assert [set(these) for these in workflow.links()] == [set(), {0}, {0, 1}, set()]
    names = [each.name for each in workflow]
    assert [[names[parent] for parent in these] for these in workflow.links()] == [
        workflow.parents(name) for name in names
    ]
