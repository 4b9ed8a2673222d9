"""An immutable directed acyclic graph of named nodes, with topological order and cycle detection."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Generic, Protocol, TypeVar

from longshore.errors import CycleError, GraphError
from longshore.model.suggestions import NAME_LIKENESS, did_you_mean
from longshore.model.tasks.adjacency import Adjacency
from longshore.model.wording import there_are


class Named(Protocol):
    """An object with a name."""

    @property
    def name(self) -> str:
        """Its name, unique in its graph."""


N = TypeVar("N", bound=Named)
M = TypeVar("M", bound=Named)


class Dag(Generic[N]):
    """A directed acyclic graph: nodes in the order given, and integer adjacency lists.

    Parameters
    ----------
    nodes
        The nodes; their names must differ.
    edges
        Pairs (parent index, child index). An edge given twice counts once.
    parents
        In place of edges, the indices of each node's parents, each of them once; an `Adjacency` is kept, not copied.

    Raises
    ------
    GraphError
        Two nodes share a name, or an edge has an unknown end.
    CycleError
        The graph has a cycle, which the error spells out.
    """

    __slots__ = ("_children", "index", "nodes", "order", "parents")

    def __init__(
        self,
        nodes: Iterable[N],
        edges: Iterable[tuple[int, int]] = (),
        *,
        parents: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.nodes: tuple[N, ...] = tuple(nodes)
        self.index: dict[str, int] = index_by_name(self.nodes)
        if parents is None:
            self.parents, children = map(Adjacency, adjacency(len(self.nodes), edges))
        else:
            self.parents = parents if isinstance(parents, Adjacency) else Adjacency(parents)
            children = children_of(self.parents)
        self.order: Sequence[int] = topological_order(self.parents.counts(), children)
        """Topological order of indices; among nodes that could come next, first the one that became free first."""
        # With `parents` they are the same as here whenever they are asked for, which is seldom.
        self._children = children if parents is None else None
        if len(self.order) < len(self.nodes):
            ring = find_cycle(self.parents, done=self.order)
            raise CycleError([self.nodes[i].name for i in ring])

    @classmethod
    def by_name(cls, nodes: Iterable[N], edges: Iterable[tuple[str, str]] = ()) -> Dag[N]:
        """Build from edges given as pairs (parent name, child name).

        Raises
        ------
        GraphError
            As for the class itself; an edge to an unknown node is named, with the nearest known name.
        """
        nodes = tuple(nodes)
        index = index_by_name(nodes)

        def ends(edge: tuple[str, str]) -> tuple[int, int]:
            try:
                return index[edge[0]], index[edge[1]]
            except KeyError as missing:
                raise _unknown_end_error(edge, missing.args[0], index) from None

        return cls(nodes, map(ends, edges))

    def alike(self, nodes: Iterable[M]) -> Dag[M]:
        """A graph of the same structure with other nodes, one for each of these; adjacency lists are shared.

        Raises
        ------
        GraphError
            Two nodes share a name.
        """
        dag: Dag[M] = Dag.__new__(Dag)
        dag.nodes = tuple(nodes)
        if len(dag.nodes) != len(self.nodes):
            raise ValueError(f"{len(dag.nodes)} nodes cannot take the place of {len(self.nodes)}")
        # Most are named alike too, and an index takes 80 bytes per node.
        are_named_alike = all(new.name is old.name for new, old in zip(dag.nodes, self.nodes, strict=True))
        dag.index = self.index if are_named_alike else index_by_name(dag.nodes)
        dag.parents, dag._children, dag.order = self.parents, self._children, self.order
        return dag

    @property
    def children(self) -> Adjacency:
        """Indices of each node's children."""
        if self._children is None:
            self._children = children_of(self.parents)
        return self._children

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[N]:
        """Iterate over the nodes, parents first."""
        return (self.nodes[i] for i in self.order)

    def __getitem__(self, name: str) -> N:
        """Return the node of that name, or raise `KeyError`."""
        return self.nodes[self.index[name]]

    def edges(self) -> Iterator[tuple[int, int]]:
        """All edges as (parent index, child index), in the order of the parents."""
        return ((parent, child) for parent, children in enumerate(self.children) for child in children)


def index_by_name(nodes: Sequence[Named]) -> dict[str, int]:
    """Index per name.

    Raises
    ------
    GraphError
        Two nodes share a name.
    """
    index = {node.name: position for position, node in enumerate(nodes)}
    if len(index) < len(nodes):
        first: dict[str, int] = {}
        name, one, other = next(
            (node.name, first[node.name], position)
            for position, node in enumerate(nodes)
            if first.setdefault(node.name, position) != position
        )
        raise GraphError(
            f"two nodes are named '{name}' (number {one + 1} and {other + 1})",
            hint="Names must be unique; add what tells the two apart to the name.",
        )
    return index


def adjacency(size: int, edges: Iterable[tuple[int, int]]) -> tuple[list[list[int]], list[list[int]]]:
    """Parents and children per node; repeated edges are dropped.

    Raises
    ------
    GraphError
        An edge has an unknown end.
    """
    parents: list[list[int]] = [[] for _ in range(size)]
    children: list[list[int]] = [[] for _ in range(size)]
    for parent, child in edges:
        if not (0 <= parent < size and 0 <= child < size):
            raise _unknown_node_error(parent, child, size)
        parents[child].append(parent)
        children[parent].append(child)
    for neighbours in (parents, children):
        for node, node_neighbours in enumerate(neighbours):
            if len(node_neighbours) > 1:
                neighbours[node] = list(dict.fromkeys(node_neighbours))
    return parents, children


def children_of(parents: Adjacency) -> Adjacency:
    """The children of each node, in their order.

    Raises
    ------
    GraphError
        A parent is unknown.
    """
    size, ends = len(parents), parents.neighbours
    # A counting sort: with a list per node it would take half as long again.
    counts = [0] * size
    try:
        for parent in ends:
            counts[parent] += 1
        is_known = min(ends, default=0) >= 0
    except IndexError:
        is_known = False
    if not is_known:
        raise next(
            _unknown_node_error(parent, child, size)
            for child, row in enumerate(parents)
            for parent in row
            if not 0 <= parent < size
        )
    next_places = list(accumulate(counts, initial=0))
    children = Adjacency()
    children.starts = array("q", next_places)
    children.neighbours = sorted_children = array("i", bytes(len(ends) * ends.itemsize))
    for child, row in enumerate(parents):
        for parent in row:
            place = next_places[parent]
            next_places[parent] = place + 1
            sorted_children[place] = child
    return children


def _unknown_node_error(parent: int, child: int, size: int) -> GraphError:
    return GraphError(f"the edge {parent} -> {child} leads to nowhere: {there_are(size, 'node')}, counted from 0")


def topological_order(parent_counts: Iterable[int], children: Sequence[Sequence[int]]) -> Sequence[int]:
    """Sort nodes by Kahn's algorithm, first come first served; with a cycle, some nodes are missing."""
    missing_parents = list(parent_counts)
    order = array("i", (node for node, count in enumerate(missing_parents) if not count))
    packed = children if isinstance(children, Adjacency) else Adjacency(children)
    neighbours, starts = packed.neighbours, packed.starts
    # Nodes are added behind the one that is looked at.
    for node in order:
        # As `children[node]`, without a call.
        for child in neighbours[starts[node] : starts[node + 1]]:
            missing_parents[child] = missing = missing_parents[child] - 1
            if not missing:
                order.append(child)
    return order


def find_cycle(parents: Sequence[Sequence[int]], *, done: Iterable[int]) -> list[int]:
    """One cycle among the nodes not in `done`, in the direction of the edges, first node repeated at the end."""
    finished = set(done)
    node = next(i for i in range(len(parents)) if i not in finished)
    position_by_node: dict[int, int] = {}
    path: list[int] = []
    # Every remaining node has a remaining parent, so walking up must reach a node twice.
    while node not in position_by_node:
        position_by_node[node] = len(path)
        path.append(node)
        node = next(parent for parent in parents[node] if parent not in finished)
    ring = path[position_by_node[node] :]
    ring.reverse()
    return [*ring, ring[0]]


def _unknown_end_error(edge: tuple[str, str], missing: str, index: dict[str, int]) -> GraphError:
    return GraphError(
        f"the edge '{edge[0]}' -> '{edge[1]}' leads to nowhere: there is no '{missing}'",
        hint=did_you_mean(missing, index, likeness=NAME_LIKENESS),
    )
