"""Reads resource graphs in JSON Graph Format, as schedulers write them: nodes with metadata, and edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from longshore.contract.site_match import Metadata, Vertex
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.model.wording import quote_value
from longshore.sites.match.vertex_pool import VertexPool

_CONTAINS: Final = "contains"
_MAX_DEPTH: Final = 50


class _Graph(NamedTuple):
    """Metadata per id, and the edges of containment or of any other kind than their inverse."""

    nodes: dict[str, Mapping[str, Any]]
    edges: list[tuple[str, str]]


def read_json_graph(
    document: Mapping[str, YamlValue], subsystem_graphs: Mapping[str, YamlValue], pool: VertexPool
) -> Vertex:
    """Read a graph and the graphs of its subsystems; return the root, which no vertex contains.

    Nodes of the first graph with ``subsystem`` in their metadata are members of that subsystem. Raises `ConfigError`
    if a graph is wrong.
    """
    graph = _read_graph(document, "the resource graph")
    attached = _attach_own(graph)
    children: dict[str, list[str]] = {}
    parents: dict[str, str] = {}
    for source, target in graph.edges:
        if source not in graph.nodes or target not in graph.nodes:
            unknown = target if source in graph.nodes else source
            raise ConfigError(f"an edge of the resource graph names '{unknown}', which is no node of it")
        if _subsystem(graph.nodes[source]) or _subsystem(graph.nodes[target]):
            continue
        if target in parents:
            raise ConfigError(f"'{target}' of the resource graph is in both '{parents[target]}' and '{source}'")
        parents[target] = source
        children.setdefault(source, []).append(target)
    for name, each in subsystem_graphs.items():
        _attach_graph(name, each, graph, attached)
    roots = [node for node, metadata in graph.nodes.items() if node not in parents and not _subsystem(metadata)]
    if len(roots) != 1:
        which = f"several: {', '.join(map(quote_value, roots[:3]))}" if roots else "none, so its edges go in a circle"
        raise ConfigError(f"a resource graph must have one root, which no node contains; there are {which}")
    found = _build(roots[0], graph, children, attached, pool)
    if len(found) < sum(not _subsystem(metadata) for metadata in graph.nodes.values()):
        raise ConfigError("edges of the resource graph go in a circle")
    return found[roots[0]]


def _build(
    root: str,
    graph: _Graph,
    children: Mapping[str, list[str]],
    attached: Mapping[str, dict[str, tuple[Metadata, ...]]],
    pool: VertexPool,
) -> dict[str, Vertex]:
    """Make all vertices below a root, the deepest first."""
    order: list[tuple[str, int]] = [(root, 0)]
    for node, depth in order:
        if depth > _MAX_DEPTH:
            raise ConfigError(f"the resource graph is nested more than {_MAX_DEPTH} times")
        order.extend((child, depth + 1) for child in children.get(node, ()))
    found: dict[str, Vertex] = {}
    for node, _ in reversed(order):
        metadata = graph.nodes[node]
        below = [(found[child], 1) for child in children.get(node, ())]
        found[node] = pool.make(_type_of(node, metadata), _size_of(node, metadata), attached.get(node, {}), below)
    return found


def _attach_own(graph: _Graph) -> dict[str, dict[str, tuple[Metadata, ...]]]:
    """Return the members of subsystems that the graph itself has, per node that they are attached to."""
    attached: dict[str, dict[str, tuple[Metadata, ...]]] = {}
    for source, target in graph.edges:
        metadata = graph.nodes.get(target, {})
        if (name := _subsystem(metadata)) and source in graph.nodes and not _subsystem(graph.nodes[source]):
            members = attached.setdefault(source, {})
            members[name] = (*members.get(name, ()), metadata)
    return attached


def _attach_graph(
    name: str, value: YamlValue, graph: _Graph, attached: dict[str, dict[str, tuple[Metadata, ...]]]
) -> None:
    """Attach the members of a subsystem's graph to the nodes of the resource graph."""
    if not isinstance(value, dict):
        raise ConfigError(f"the graph of the subsystem '{name}' must be in JSON Graph Format")
    members = _read_graph(value, f"the graph of the subsystem '{name}'")
    for source, target in members.edges:
        if source in graph.nodes and source not in members.nodes and target in members.nodes:
            there = attached.setdefault(source, {})
            there[name] = (*there.get(name, ()), members.nodes[target])
        elif source not in members.nodes or target not in members.nodes | graph.nodes:
            raise ConfigError(
                f"the edge '{source}' to '{target}' of the subsystem '{name}' is not inside it, and does not begin at "
                "a node of the resource graph"
            )


def _read_graph(document: Mapping[str, YamlValue], what: str) -> _Graph:
    graph = document.get("graph")
    if not isinstance(graph, dict):
        raise ConfigError(f"'graph' of {what} must be a map with 'nodes' and 'edges'")
    nodes = dict(_read_nodes(graph.get("nodes"), what))
    if not nodes:
        raise ConfigError(f"{what} has no nodes")
    return _Graph(nodes, list(_read_edges(graph.get("edges"), what)))


def _read_nodes(value: YamlValue, what: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Read nodes as a list (version 1) or as a map (version 2)."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = [(node.get("id") if isinstance(node, dict) else None, node) for node in value]
    seen: set[str] = set()
    for key, node in pairs:
        metadata = node.get("metadata") if isinstance(node, dict) else None
        if not isinstance(key, str | int) or not isinstance(metadata, dict):
            raise ConfigError(f"each node of {what} must have an 'id' and a map 'metadata'")
        if str(key) in seen:
            raise ConfigError(f"{what} has two nodes '{key}'")
        seen.add(str(key))
        yield str(key), metadata


def _read_edges(value: YamlValue, what: str) -> Iterator[tuple[str, str]]:
    """Read the edges from containers to members; those of the inverse direction are left out."""
    if value is not None and not isinstance(value, list):
        raise ConfigError(f"'edges' of {what} must be a list")
    for edge in value or []:
        if not isinstance(edge, dict) or "source" not in edge or "target" not in edge:
            raise ConfigError(f"each edge of {what} must have 'source' and 'target'")
        if _relation(edge) in {_CONTAINS, ""}:
            yield str(edge["source"]), str(edge["target"])


def _relation(edge: Mapping[str, Any]) -> str:
    """Return the relation of an edge: its own key, or that of Fluxion's metadata."""
    if isinstance(relation := edge.get("relation"), str):
        return relation
    metadata = edge.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    containment = name.get("containment") if isinstance(name, dict) else None
    subsystem = metadata.get("subsystem") if isinstance(metadata, dict) else None
    if subsystem not in {None, "containment"}:
        return str(subsystem)
    return containment if isinstance(containment, str) else ""


def _subsystem(metadata: Mapping[str, Any]) -> str:
    name = metadata.get("subsystem")
    return name if isinstance(name, str) and name != "containment" else ""


def _type_of(node: str, metadata: Mapping[str, Any]) -> str:
    kind = metadata.get("type")
    if not isinstance(kind, str) or not kind:
        raise ConfigError(f"the node '{node}' of the resource graph has no 'type'")
    return kind


def _size_of(node: str, metadata: Mapping[str, Any]) -> int:
    size = metadata.get("size", 1)
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size < 2**63:
        raise ConfigError(f"the 'size' of the node '{node}' of the resource graph must be a whole number from 1 on")
    return size
