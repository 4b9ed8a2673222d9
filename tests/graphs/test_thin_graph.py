"""The parts of a quantum graph file become labels, data IDs and edges; other versions are left to LSST's reader."""

from __future__ import annotations

import json
from typing import Any

import pytest

from longshore.graphs.quantum_graph import LabelQuanta, QuantumGraphRecord, decode_thin_graph

ONE, TWO = "00000000-0000-7000-8000-000000000001", "00000000-0000-7000-8000-000000000002"
ELEMENTS: dict[str, Any] = {
    "band": {},
    "instrument": {"doc": "ignored"},
    "physical_filter": {"requires": ["instrument"], "implies": ["band"]},
    "visit": {"requires": ["instrument"], "implies": ["physical_filter"]},
}


def pipeline(**changes: Any) -> dict[str, Any]:
    return {
        "version": "0.0.1",
        "tasks": {
            "isr": {"dimensions": ["band", "instrument", "physical_filter", "visit"], "config_str": "ignored"},
            "sky": {"dimensions": ["htm11", "band", "htm7"]},
        },
        "dimensions": {"version": 7, "namespace": "daf_butler", "elements": ELEMENTS},
    } | changes


def graph(**changes: Any) -> dict[str, Any]:
    return {
        "quanta": {
            "isr": [{"quantum_id": ONE, "data_coordinate": ["Cam", 3, "r", "Cam-r"]}],
            "sky": [{"quantum_id": TWO, "data_coordinate": ["r", 5, 6]}],
        },
        "edges": [[ONE, TWO]],
    } | changes


def decode(pipeline: Any, graph: Any) -> QuantumGraphRecord | None:
    return decode_thin_graph(json.dumps(pipeline).encode(), json.dumps(graph).encode())


def test_labels_have_the_dimensions_of_their_tasks_required_ones_first() -> None:
    assert decode(pipeline(), graph()) == QuantumGraphRecord(
        labels={
            "isr": LabelQuanta(
                required=("instrument", "visit"),
                implied=("band", "physical_filter"),
                quanta=[(ONE, ("Cam", 3, "r", "Cam-r"))],
            ),
            "sky": LabelQuanta(required=("band", "htm7", "htm11"), quanta=[(TWO, ("r", 5, 6))]),
        },
        edges=[(ONE, TWO)],
    )


def test_an_edge_to_an_unknown_quantum_is_kept_for_the_check_of_the_graph() -> None:
    record = decode(pipeline(), graph(edges=[[ONE, TWO[:-1] + "9"]]))
    assert record is not None
    assert record.edges == [(ONE, TWO[:-1] + "9")]


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "0.0.2"},
        {"dimensions": {"version": 99, "elements": ELEMENTS}},
        {"dimensions": {"version": 7, "namespace": "other", "elements": ELEMENTS}},
        {"dimensions": {"version": 7, "elements": {"visit": {"requires": ["visit"]}}}},
        {"dimensions": {"version": 7, "elements": {}}},
        {"tasks": {}},
        {"tasks": 5},
    ],
    ids=str,
)
def test_a_pipeline_that_is_not_known_is_left_to_the_library(changes: dict[str, Any]) -> None:
    assert decode(pipeline(**changes), graph()) is None


@pytest.mark.parametrize("changes", [{"edges": [["x", "y"]]}, {"quanta": 5}, {"quanta": {"isr": [{}]}}], ids=str)
def test_a_graph_that_is_not_as_its_version_is_left_to_the_library(changes: dict[str, Any]) -> None:
    assert decode(pipeline(), graph(**changes)) is None
