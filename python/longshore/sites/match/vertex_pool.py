"""Makes resource graphs bottom-up: equal vertices become one with a count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from longshore.contract.site_match import Metadata, ResourceGraph, Vertex


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
