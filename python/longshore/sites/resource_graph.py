"""Reads the resource graph of a profile, in its nested form or in JSON Graph Format, with equal vertices as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from longshore.config.quantities import parse_count
from longshore.contract.algorithms import Metadata, ResourceGraph, Vertex
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.model.wording import NAME_LIKENESS, did_you_mean, name_all, quote_value

# Makes resource graphs bottom-up: equal vertices become one with a count.


class VertexPool:
    """Vertices of one graph, each kind once."""

    def __init__(self) -> None:
        self._kinds: dict[object, Vertex] = {}

    def make(
        self,
        kind: str,
        size: int,
        subsystems: Mapping[str, tuple[Metadata, ...]],
        children: Iterable[tuple[Vertex, int]],
    ) -> Vertex:
        """Return the vertex with these properties; `children` are vertices of this pool, and how many of each."""
        counts: dict[int, int] = {}
        firsts: dict[int, Vertex] = {}
        for child, count in children:
            firsts.setdefault(id(child), child)
            counts[id(child)] = counts.get(id(child), 0) + count
        frozen = msgspec.json.encode(subsystems, order="sorted") if subsystems else b""
        key = (kind, size, frozen, frozenset(counts.items()))
        if key not in self._kinds:
            below = tuple(msgspec.structs.replace(child, count=counts[place]) for place, child in firsts.items())
            self._kinds[key] = Vertex(type=kind, size=size, subsystems=subsystems, children=below)
        return self._kinds[key]


def make_graph(root: Vertex) -> ResourceGraph:
    """Return the graph of a root, with its totals and the names of its subsystems."""
    totals: Counter[str] = Counter()
    names: set[str] = set()
    waiting = [(root, 1)]
    while waiting:
        vertex, times = waiting.pop()
        totals[vertex.type] += times * vertex.count * vertex.size
        names.update(vertex.subsystems)
        waiting += [(child, times * vertex.count) for child in vertex.children]
    return ResourceGraph(root=root, totals=dict(totals), subsystems=frozenset(names))


# Reads resource graphs in JSON Graph Format, as schedulers write them: nodes with metadata, and edges.


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


_KEYS: Final = ("type", "count", "size", "with", "subsystems")
_ROOT_TYPE: Final = "cluster"


def read_resource_graph(value: YamlValue, subsystem_graphs: Mapping[str, YamlValue] | None = None) -> ResourceGraph:
    """Read a graph in either form.

    `subsystem_graphs` has a graph in JSON Graph Format per subsystem, with edges from vertices of the first graph.
    Raises `ConfigError` if a graph is wrong.
    """
    pool = VertexPool()
    if isinstance(value, dict) and "graph" in value:
        return make_graph(read_json_graph(value, subsystem_graphs or {}, pool))
    if subsystem_graphs:
        raise ConfigError("graphs of subsystems belong to a graph in JSON Graph Format, which has 'graph' at its top")
    root, _ = _read_vertex(value, {}, pool, 0)
    return make_graph(root)


def _read_vertex(
    value: YamlValue, inherited: Mapping[str, tuple[Metadata, ...]], pool: VertexPool, depth: int
) -> tuple[Vertex, int]:
    """Read a vertex and its count; subsystems hold for all vertices below it."""
    if not isinstance(value, dict):
        raise ConfigError(f"a vertex of 'resourceGraph' must be a map, not {quote_value(value)}")
    for key in value:
        if key not in _KEYS:
            hint = did_you_mean(key, _KEYS, likeness=NAME_LIKENESS) or name_all(_KEYS)
            raise ConfigError(f"a vertex of 'resourceGraph' has no key '{key}'", hint=hint)
    if depth > _MAX_DEPTH:
        raise ConfigError(f"'resourceGraph' is nested more than {_MAX_DEPTH} times")
    kind = value.get("type", _ROOT_TYPE if depth == 0 else None)
    if not isinstance(kind, str) or not kind:
        raise ConfigError("a vertex of 'resourceGraph' must have a 'type', such as node or core")
    below = value.get("with") or []
    if not isinstance(below, list):
        raise ConfigError(f"'with' in 'resourceGraph' must be a list, not {quote_value(below)}")
    subsystems = {**inherited, **_read_subsystems(value.get("subsystems"), inherited)}
    children = [_read_vertex(item, subsystems, pool, depth + 1) for item in below]
    count, size = (parse_count(value.get(key, 1), f"resourceGraph.{key}", least=1) for key in ("count", "size"))
    return pool.make(kind, size, subsystems, children), count


def _read_subsystems(
    value: YamlValue, inherited: Mapping[str, tuple[Metadata, ...]]
) -> dict[str, tuple[Metadata, ...]]:
    """Read the members of each subsystem: a list of maps, or a map of versions."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"'subsystems' in 'resourceGraph' must be a map, not {quote_value(value)}")
    found: dict[str, tuple[Metadata, ...]] = {}
    for name, members in value.items():
        if isinstance(members, dict):
            listed: list[YamlValue] = [{"name": each, "version": version} for each, version in members.items()]
        elif isinstance(members, list):
            listed = [{"name": each} if isinstance(each, str) else each for each in members]
        else:
            listed = [members]
        found[name] = (*inherited.get(name, ()), *(_read_member(name, member) for member in listed))
    return found


def _read_member(subsystem: str, member: YamlValue) -> Metadata:
    if not isinstance(member, dict):
        raise ConfigError(
            f"a member of the subsystem '{subsystem}' must be a name or a map, not {quote_value(member)}",
            hint="For example 'software: {stack: \"0.5.2\"}' or 'io: [{type: shm}]'.",
        )
    if isinstance(member.get("version"), float):
        raise ConfigError(
            f"the version {member['version']} in the subsystem '{subsystem}' must be text",
            hint="Write it in quotation marks: as a number, 2024.10 is 2024.1.",
        )
    return {key: str(value) if key == "version" else value for key, value in member.items()}
