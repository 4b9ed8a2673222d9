"""Seventeen requests and graphs with the result that the specification of matching has for each."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from longshore.config.merge import to_node
from longshore.errors import Origin
from longshore.sites.job_specification import read_job_specification
from longshore.sites.match import match_field, match_range, search_graph
from longshore.sites.resource_graph import read_resource_graph

ALGORITHMS = {"match": match_field, "range": match_range}


def tree(nodes: int, cores: int, *, root: str = "0", socket: bool = True) -> dict[str, Any]:
    """Return a cluster in JSON Graph Format: a rack with nodes, each with a socket of so many cores."""
    vertices = {root: "cluster", "rack": "rack"}
    edges = [(root, "rack")]
    for node in range(nodes):
        vertices[f"n{node}"] = "node"
        edges.append(("rack", f"n{node}"))
        parent = f"n{node}"
        if socket:
            vertices[f"s{node}"] = "socket"
            edges.append((parent, f"s{node}"))
            parent = f"s{node}"
        for core in range(cores):
            vertices[f"c{node}.{core}"] = "core"
            edges.append((parent, f"c{node}.{core}"))
    return {
        "graph": {
            "nodes": {name: {"metadata": {"type": kind, "size": 1}} for name, kind in vertices.items()},
            "edges": [{"source": one, "target": other, "relation": "contains"} for one, other in edges]
            + [{"source": other, "target": one, "relation": "in"} for one, other in edges],
        }
    }


def attached(members: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Return the graph of a subsystem with one member for each of these nodes."""
    return {
        "graph": {
            "nodes": {f"of-{node}": {"metadata": metadata} for node, metadata in members.items()},
            "edges": [{"source": node, "target": f"of-{node}", "relation": "contains"} for node in members],
        }
    }


def versions(**members: str) -> dict[str, Any]:
    return {"spack": attached({node: {"type": "package", "version": each} for node, each in members.items()})}


def slots(count: int, cores: int, requires: str = "[]", kind: str = "core") -> str:
    """Return a specification of slots that are nodes."""
    group = f"{{type: node, replicas: {count}, with: [{{type: {kind}, count: {cores}}}], requires: {requires}}}"
    return f"{{version: 1, resources: {{default: {group}}}}}"


def spack(least: str, most: str) -> str:
    return f'[{{name: spack, field: version, min: "{least}", max: "{most}"}}]'


LISTED = """
version: 1
resources:
- count: 2
  type: node
  with:
  - {count: 1, label: default, type: slot, with: [{count: 2, type: core}]}
task: {command: [ior], slot: default, count: {per_slot: 1}, resources: %s}
"""
ABOVE = """
version: 1
resources:
- type: node
  count: 1
  requires: [{name: spack, field: version, min: "99.0.0"}]
  with: [{type: slot, label: default, with: [{type: core}]}]
task: {command: [x], slot: default}
"""
CLUSTER = tree(3, 12)
ALL = versions(n0="0.5.2", n1="0.5.2", n2="0.5.2")
SHM = {"io": attached({"n0": {"type": "shm"}, "n1": {"type": "shm"}})}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str, bool]] = {
    "valid range": (CLUSTER, ALL, LISTED % '{spack: {range: [{field: version, min: "0.5.1", max: "0.5.5"}]}}', True),
    "invalid range": (CLUSTER, ALL, LISTED % '{spack: {range: [{field: version, min: "0.7.1", max: "0.7.5"}]}}', False),
    "io": (CLUSTER, SHM, LISTED % "{io: {match: [{field: type, value: shm}]}}", True),
    "io without its subsystem": (CLUSTER, {}, LISTED % "{io: {match: [{type: shm}]}}", False),
    "two nodes, two cores": (CLUSTER, {}, LISTED % "{}", True),
    "four nodes of three": (CLUSTER, {}, slots(4, 1), False),
    "13 cores in a node of 12": (CLUSTER, {}, slots(1, 13), False),
    "36 cores in a node of 12": (CLUSTER, {}, slots(1, 36), False),
    "three nodes of 12 cores": (CLUSTER, {}, slots(3, 12), True),
    "37 cores": (CLUSTER, {}, slots(1, 37), False),
    "20 cores of 8": (tree(4, 2), {}, slots(4, 5), False),
    "a root of another name": (tree(4, 2, root="c0"), {}, slots(1, 1), True),
    "one node of two has the version": (
        tree(2, 2, socket=False),
        versions(n0="0.5.2"),
        slots(2, 1, spack("0.5.1", "0.5.5")),
        False,
    ),
    "cores of a node without the version": (
        tree(2, 2, socket=False),
        versions(n0="0.9.9", n1="0.5.2"),
        slots(1, 4, spack("0.5.1", "0.5.5")),
        False,
    ),
    "cores of the node with the version": (
        tree(2, 2, socket=False),
        versions(n0="0.9.9", n1="0.5.2"),
        slots(1, 2, spack("0.5.1", "0.5.5")),
        True,
    ),
    "a requirement above the slot": (CLUSTER, ALL, ABOVE, False),
    "no type gpu": (CLUSTER, {}, slots(1, 1, kind="gpu"), False),
}


def matches(name: str) -> bool:
    """Return whether the graph of a case matches its request."""
    graph, subsystems, text, _ = CASES[name]
    request = read_job_specification(to_node(yaml.safe_load(text), Origin("request.yaml")), ALGORITHMS)
    return not search_graph(read_resource_graph(graph, subsystems), request, ALGORITHMS)


@pytest.mark.parametrize("name", CASES)
def test_a_graph_matches_as_specified(name: str) -> None:
    assert matches(name) is CASES[name][3]
