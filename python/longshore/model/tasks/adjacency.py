"""Neighbours of each node of a graph, packed into one array."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, pairwise
from operator import sub
from typing import Final, overload

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
