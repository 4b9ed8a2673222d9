"""Records of a quantum graph give tasks with data IDs, in the graph's order; errors name the file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.errors import CycleError, GraphError, Origin
from longshore.graphs.quantum_graph import RUN_GRAPH, LabelQuanta, QuantumGraphRecord, task_graph
from longshore.model.tasks import File, TaskGraph

FILE = File(name=RUN_GRAPH, path="run.qg")
VISIT = ("instrument", "visit")


def read(record: QuantumGraphRecord) -> TaskGraph:
    return task_graph(record, name="p", file=FILE, origin=Origin("g.qg"))


def two_labels() -> QuantumGraphRecord:
    isr = LabelQuanta(required=VISIT, implied=("band",), quanta=[("u1", ("Cam", 1, "r")), ("u2", ("Cam", 2, "i"))])
    calib = LabelQuanta(required=VISIT, quanta=[("u3", ("Cam", 1))])
    return QuantumGraphRecord(labels={"isr": isr, "calib": calib}, edges=[("u1", "u3")])


def test_quanta_become_tasks() -> None:
    graph = read(two_labels())
    first, _, last = graph.dag.nodes
    assert (first.name, first.node_id, first.label) == ("u1", "u1", "isr")
    assert (first.data_id, first.implied) == ({"instrument": "Cam", "visit": 1}, {"band": "r"})
    assert (last.data_id, last.implied) == ({"instrument": "Cam", "visit": 1}, {})
    assert list(graph.dag.edges()) == [(0, 2)]


def test_every_task_reads_the_graph() -> None:
    graph = read(two_labels())
    assert graph.files == {RUN_GRAPH: FILE}
    assert {task.inputs for task in graph.dag.nodes} == {(RUN_GRAPH,)}


def test_quanta_of_one_data_id_share_it() -> None:
    first, _, last = read(two_labels()).dag.nodes
    assert first.data_id is last.data_id


def record(*labels: str, edges: list[tuple[str, str]]) -> QuantumGraphRecord:
    return QuantumGraphRecord(
        labels={label: LabelQuanta(required=(), quanta=[(label, ())]) for label in labels}, edges=edges
    )


def test_an_edge_to_nowhere_names_both_ends_and_the_file() -> None:
    with pytest.raises(GraphError, match=r"^g\.qg: the edge 'a' -> 'x' leads to nowhere: there is no 'x'"):
        read(record("a", "b", edges=[("a", "x")]))


def test_a_ring_is_spelled_out_with_labels() -> None:
    with pytest.raises(CycleError) as caught:
        read(
            QuantumGraphRecord(
                labels={
                    "isr": LabelQuanta(required=(), quanta=[("u1", ())]),
                    "calib": LabelQuanta(required=(), quanta=[("u2", ())]),
                },
                edges=[("u1", "u2"), ("u2", "u1")],
            )
        )
    assert set(caught.value.ring) == {"isr u1", "calib u2"}
    assert str(caught.value).startswith("g.qg: ")


def test_empty_quantum_graph_is_refused() -> None:
    with pytest.raises(GraphError, match="the quantum graph has no quanta") as caught:
        read(QuantumGraphRecord(labels={"isr": LabelQuanta(required=VISIT)}))
    assert "dataQuery" in caught.value.hint


def test_values_without_a_dimension() -> None:
    labels = {"isr": LabelQuanta(required=VISIT, quanta=[("u1", ("Cam", 1, "r"))])}
    with pytest.raises(
        GraphError, match=r"the quantum 'u1' of 'isr' has 3 values for 2 dimensions \(instrument, visit\)"
    ):
        read(QuantumGraphRecord(labels=labels))


def test_duplicate_uuid_is_refused() -> None:
    labels = {"isr": LabelQuanta(required=(), quanta=[("u", ()), ("u", ())])}
    with pytest.raises(GraphError, match=r"g\.qg: two nodes are named 'u'"):
        read(QuantumGraphRecord(labels=labels))


@given(st.lists(st.tuples(st.text(), st.integers() | st.text()), max_size=20))
def test_values_keep_their_types(values: list[tuple[str, int | str]]) -> None:
    quanta = [(f"u{number}", value) for number, value in enumerate(values)]
    labels = {
        "first": LabelQuanta(required=("name", "value"), quanta=quanta),
        "other": LabelQuanta(required=("name",), implied=("value",), quanta=[("v", ("a", 1))]),
    }
    tasks = read(QuantumGraphRecord(labels=labels)).dag.nodes
    assert [tuple(task.data_id.values()) for task in tasks[:-1]] == values
    assert [type(task.data_id["value"]) for task in tasks[:-1]] == [type(value) for _, value in values]
