"""Resource graphs in both forms: what is read, what is merged, and what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from longshore.contract.algorithms import Vertex
from longshore.errors import ConfigError
from longshore.sites.resource_graph import read_resource_graph

NESTED = {
    "subsystems": {"software": {"stack": "0.5.2"}},
    "with": [
        {"type": "node", "count": 1000, "with": [{"type": "core", "count": 128}, {"type": "gpu", "size": 2}]},
        {"type": "node", "count": 2, "subsystems": {"io": [{"type": "shm"}, "ssd"]}, "with": [{"type": "core"}]},
    ],
}


def graph(nodes: Any, edges: Any) -> dict[str, Any]:
    return {"graph": {"nodes": nodes, "edges": edges}}


def test_the_nested_form_has_counts() -> None:
    found = read_resource_graph(NESTED)  # type: ignore[arg-type]
    assert found.root.type == "cluster"
    assert found.totals == {"cluster": 1, "node": 1002, "core": 128_002, "gpu": 2000}
    assert found.subsystems == {"software", "io"}
    assert [vertex.count for vertex in found.root.children] == [1000, 2]


def test_subsystems_hold_below_their_vertex() -> None:
    found = read_resource_graph(NESTED)  # type: ignore[arg-type]
    _, other = found.root.children
    assert other.subsystems == {
        "software": ({"name": "stack", "version": "0.5.2"},),
        "io": ({"type": "shm"}, {"name": "ssd"}),
    }


def test_equal_nodes_of_json_graph_format_become_one() -> None:
    nodes = [{"id": 0, "metadata": {"type": "cluster"}}]
    nodes += [{"id": i, "metadata": {"type": "node", "rank": i}} for i in range(1, 1001)]
    nodes += [{"id": i + 1000, "metadata": {"type": "core", "size": 64, "uniq_id": i}} for i in range(1, 1001)]
    edges = [{"source": 0, "target": i, "metadata": {"name": {"containment": "contains"}}} for i in range(1, 1001)]
    edges += [{"source": str(i), "target": str(i + 1000)} for i in range(1, 1001)]
    found = read_resource_graph(graph(nodes, edges))
    core = Vertex(type="core", size=64)
    assert found.root == Vertex(type="cluster", children=(Vertex(type="node", count=1000, children=(core,)),))
    assert found.totals == {"cluster": 1, "node": 1000, "core": 64_000}


def test_members_of_a_subsystem_in_the_same_graph() -> None:
    nodes = {"a": {"metadata": {"type": "node"}}, "b": {"metadata": {"type": "shm", "subsystem": "io"}}}
    found = read_resource_graph(graph(nodes, [{"source": "a", "target": "b"}]))
    assert found.root.subsystems == {"io": ({"type": "shm", "subsystem": "io"},)}


def deep(levels: int) -> dict[str, Any]:
    """Return a graph of so many nested vertices."""
    return {"type": "core"} if levels == 0 else {"type": "node", "with": [deep(levels - 1)]}


ONE = {"a": {"metadata": {"type": "node"}}, "b": {"metadata": {"type": "node"}}, "c": {"metadata": {"type": "core"}}}


def edges(*pairs: str) -> list[dict[str, str]]:
    return [{"source": pair[0], "target": pair[1]} for pair in pairs]


def test_edges_of_another_relation_are_left_out() -> None:
    """An edge of electric power is no containment."""
    power = {"source": "b", "target": "c", "metadata": {"subsystem": "power", "name": {"containment": "contains"}}}
    upwards = {"source": "c", "target": "a", "relation": "in"}
    found = read_resource_graph(graph(ONE, [*edges("ab", "ac"), power, upwards]))
    assert found.totals == {"node": 2, "core": 1}
    assert {child.type for child in found.root.children} == {"node", "core"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "must be a map"),
        ({"tpye": "x"}, "has no key 'tpye'"),
        ({"with": [{"count": 2}]}, "must have a 'type'"),
        ({"with": 3}, "'with' in 'resourceGraph' must be a list"),
        (deep(60), "'resourceGraph' is nested more than"),
        ({"count": 0}, "'resourceGraph.count' must be a whole number of at least 1"),
        ({"subsystems": 3}, "'subsystems' in 'resourceGraph' must be a map"),
        ({"subsystems": {"io": 3}}, "a member of the subsystem 'io' must be a name or a map"),
        ({"subsystems": {"software": {"stack": 2024.1}}}, "must be text"),
        ({"graph": 3}, "must be a map with 'nodes' and 'edges'"),
        (graph([], []), "has no nodes"),
        (graph([3], []), "must have an 'id' and a map 'metadata'"),
        (graph([{"id": "a", "metadata": {}}] * 2, []), "has two nodes 'a'"),
        (graph({"a": {"metadata": {}}}, []), "the node 'a' of the resource graph has no 'type'"),
        (graph({"a": {"metadata": {"type": "x", "size": -1}}}, []), "the 'size' of the node 'a'"),
        (graph(ONE, 3), "must be a list"),
        (graph(ONE, [3]), "must have 'source' and 'target'"),
        (graph(ONE, edges("ax")), "names 'x', which is no node"),
        (graph(ONE, edges("ac", "bc")), "'c' of the resource graph is in both 'a' and 'b'"),
        (graph(ONE, edges("ab")), "there are several: 'a', 'c'"),
        (graph(ONE, edges("ab", "bc", "ca")), "there are none"),
        (graph(ONE, edges("bc", "cb")), "go in a circle"),
        (graph({str(i): {"metadata": {"type": "x"}} for i in range(60)},
               [{"source": str(i), "target": str(i + 1)} for i in range(59)]), "nested more than"),
    ],
)  # fmt: skip
def test_a_wrong_graph_is_an_error(value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_resource_graph(value)


@pytest.mark.parametrize(
    ("subsystem", "message"),
    [
        (3, "must be in JSON Graph Format"),
        (graph({"m": {"metadata": {}}}, edges("xm")), "the edge 'x' to 'm' of the subsystem 'io' is not inside it"),
        (graph({"m": {"metadata": {}}}, edges("mx")), "the edge 'm' to 'x' of the subsystem 'io' is not inside it"),
    ],
)
def test_a_wrong_graph_of_a_subsystem_is_an_error(subsystem: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_resource_graph(graph({"a": ONE["a"]}, []), {"io": subsystem})
    with pytest.raises(ConfigError, match="belong to a graph in JSON Graph Format"):
        read_resource_graph({"with": []}, {"io": subsystem})
