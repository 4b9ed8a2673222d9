"""Tasks, the files that they use, graphs of named nodes, and clusters of tasks."""

from __future__ import annotations

import gc
import posixpath
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate, chain, pairwise
from operator import sub
from typing import Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, overload

import msgspec

from longshore.errors import CycleError, GraphError
from longshore.model.wording import NAME_LIKENESS, did_you_mean, there_are

# Neighbours of each node of a graph, packed into one array.


MOST_NODES: Final = 2**31 - 1
"""Most nodes of a graph: numbers have 31 bits."""


class Adjacency(Sequence[Sequence[int]]):
    """Neighbours per node, in compressed sparse rows: a list per node would take five times the memory.

    Parameters
    ----------
    rows
        The neighbours of each node, which are numbers of nodes.

    Raises
    ------
    OverflowError
        A number has more than 31 bits.
    """

    __slots__ = ("neighbours", "starts")
    __hash__ = None  # type: ignore[assignment]  # rows can be added

    def __init__(self, rows: Sequence[Sequence[int]] = ()) -> None:
        self.neighbours = array("i")
        """Neighbours of all nodes, one node after the other."""
        self.starts = array("q", (0,))
        """Place of each node's first neighbour, and the end of those of the last node."""
        self.extend(rows)

    def extend(self, rows: Sequence[Sequence[int]]) -> None:
        """Add nodes with these neighbours."""
        self.neighbours.extend(chain.from_iterable(rows))
        self.starts.extend(accumulate(map(len, rows), initial=self.starts.pop()))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, node: int) -> Sequence[int]: ...
    @overload
    def __getitem__(self, node: slice) -> Sequence[Sequence[int]]: ...
    def __getitem__(self, node: int | slice) -> Sequence[int] | Sequence[Sequence[int]]:
        if isinstance(node, slice):
            return [self[each] for each in range(*node.indices(len(self)))]
        if node < 0:
            node += len(self)
            if node < 0:
                raise IndexError(node)
        return self.neighbours[self.starts[node] : self.starts[node + 1]]

    def __iter__(self) -> Iterator[Sequence[int]]:
        neighbours = self.neighbours
        return (neighbours[begin:end] for begin, end in pairwise(self.starts))

    def __reversed__(self) -> Iterator[Sequence[int]]:
        neighbours = self.neighbours
        return (neighbours[begin:end] for end, begin in pairwise(reversed(self.starts)))

    def __eq__(self, other: object) -> bool:
        """Whether the other has the same rows, as an adjacency or as lists."""
        if isinstance(other, Adjacency):
            return self.starts == other.starts and self.neighbours == other.neighbours
        return isinstance(other, Sequence) and list(map(list, self)) == list(map(list, other))

    def counts(self) -> Iterator[int]:
        """Return the number of neighbours of each node."""
        return map(sub, self.starts[1:], self.starts)


# A workflow file that jobs read or write.


_PATTERN: Final = re.compile(r"[*?[]")


class File(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A file of a workflow.

    Attributes
    ----------
    name
        Unique in its graph.
    path
        Where it is or will be; a relative path is relative to the run directory.
    transfer
        Whether the workload manager transfers it to and from the job (BPS: ``wms_transfer``).
    shared
        Whether jobs may read one copy of it (BPS: ``job_shared``).
    size_b
        Bytes; ``None`` while unknown.
    part_of
        Name of the output, a folder, that it is in, or of the same file by another path; empty for none.
    """

    name: str
    path: str
    transfer: bool = False
    shared: bool = True
    size_b: int | None = None
    part_of: str = ""


def is_remote(path: str) -> bool:
    """Whether a path is a URL, which names no file that this or a job's host sees."""
    return "://" in path


def tidy_path(path: str) -> str:
    """Return a path without ``.`` and doubled slashes; ``..`` stays, because a link may be before it."""
    parts = "/".join([part for part in path.split("/") if part not in {"", "."}])
    return f"/{parts}" if path.startswith("/") else parts or "."


def is_pattern(path: str) -> bool:
    """Whether a path is a pattern of the shell, for all files that match its last part."""
    return not is_remote(path) and bool(_PATTERN.search(posixpath.basename(path)))


# An immutable directed acyclic graph of named nodes, with topological order and cycle detection.


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


# A task, the smallest unit of work (BPS: quantum), and the graph of tasks that every payload becomes.


Scalar: TypeAlias = str | int | float | bool
DataId: TypeAlias = Mapping[str, Scalar]
"""Value per dimension, such as ``{"visit": 101, "detector": 3}``."""
Command: TypeAlias = str | tuple[str, ...]
"""A line for the POSIX shell, or a program and its arguments."""


class Task(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The smallest unit of work (BPS: a quantum)."""

    name: str
    label: str
    """Its label (BPS: the pipetask label)."""
    data_id: DataId = msgspec.field(default_factory=dict)
    command: Command | None = None
    """Command from the payload; the user's ``runQuantumCommand`` replaces it."""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    """Names of files of the graph."""
    paths: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Paths per kind of dataset that its command may name."""
    node_id: str = ""
    """Identifier in its source, where that differs from its name: the UUID of a quantum."""
    implied: DataId = msgspec.field(default_factory=dict)
    """Dimensions implied by its data ID; available to clustering, but not to names and commands."""


class TaskGraph(msgspec.Struct, frozen=True, kw_only=True):
    """All tasks of a payload, their dependencies and their files."""

    name: str
    dag: Dag[Task]
    files: Mapping[str, File] = msgspec.field(default_factory=dict)
    """File per name, for every name in a task's inputs and outputs."""
    directory: str = ""
    """Absolute base directory of relative paths in `Task.paths`; empty where there are none."""
    directories: Sequence[str] = ()
    """Directories that tasks need, made when the run is prepared; relative to the run directory."""
    columns: Mapping[str, Mapping[Scalar, Scalar]] = msgspec.field(default_factory=dict)
    """Further values for commands and requests, by a name such as ``sample.size``: one per value of the dimension."""
    programs: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Text of programs that tasks run, per path relative to the run directory."""


# A cluster of tasks that run in one job, the graph of clusters, and the composition that equal clusters share.


class ClusterMember(NamedTuple):
    """Tasks of one label in clusters of one kind, for which values are looked up together.

    Attributes
    ----------
    cluster
        Label of the clusters.
    section
        Name of the section ``cluster`` of the configuration that is theirs.
    label
        Label of the tasks.
    """

    cluster: str
    section: str
    label: str


class Composition(NamedTuple):
    """Number of tasks per label in a cluster, equal for clusters that share a profile.

    Attributes
    ----------
    label
        Label of the clusters.
    section
        Name of the section ``cluster`` of the configuration that is theirs.
    tasks
        Number of tasks per label, in the order of labels.
    """

    label: str
    section: str
    tasks: tuple[tuple[str, int], ...]

    def members(self) -> tuple[ClusterMember, ...]:
        """Its tasks, grouped by label."""
        return tuple(ClusterMember(self.label, self.section, label) for label, _ in self.tasks)


class Cluster(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Tasks that one job runs, one after another in the order given."""

    name: str
    label: str
    tags: DataId = msgspec.field(default_factory=dict)
    tasks: tuple[Task, ...]
    section: str | None = None
    """Name of the ``cluster`` section of the configuration that made it; ``None`` without one."""

    def composition(self) -> Composition:
        """Its composition; its own label is the section where no section made it, as in BPS."""
        labels = [task.label for task in self.tasks]
        counted = ((labels[0], 1),) if len(labels) == 1 else tuple(sorted(Counter(labels).items()))
        return Composition(self.label, self.section or self.label, counted)


class ClusteredGraph(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All clusters of a payload and their dependencies."""

    name: str
    dag: Dag[Cluster]
    source: TaskGraph

    @cached_property
    def compositions(self) -> Sequence[Composition]:
        """Composition of each cluster; equal ones are one object."""
        return list(_compositions(self.dag.nodes))


def _compositions(clusters: Iterable[Cluster]) -> Iterator[Composition]:
    alone: dict[tuple[str, str | None, str], Composition] = {}
    shared: dict[Composition, Composition] = {}
    for cluster in clusters:
        if len(cluster.tasks) > 1:
            found = cluster.composition()
            yield shared.setdefault(found, found)
            continue
        # By far the most have one task, and there are few kinds of these.
        key = (cluster.label, cluster.section, cluster.tasks[0].label)
        kind = alone.get(key)
        if kind is None:
            found = cluster.composition()
            kind = alone[key] = shared.setdefault(found, found)
        yield kind


# Disables garbage collection temporarily, for code that makes many records and drops few.


@contextmanager
def collection_paused() -> Iterator[None]:
    """Disable garbage collection inside the block; a nested block has no effect."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
