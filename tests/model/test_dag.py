"""A graph is whole from birth: ordered, without rings, without two nodes of one name, without edges to nowhere."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from longshore.errors import CycleError, GraphError
from longshore.model.tasks import Adjacency, Dag, children_of, find_cycle, index_by_name, topological_order


@dataclass(frozen=True)
class Node:
    name: str


def nodes(*names: str) -> list[Node]:
    return [Node(name) for name in names]


def numbered(count: int) -> list[Node]:
    return nodes(*map(str, range(count)))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    """A number of nodes and edges between them, with rings, loops and repeated edges."""
    count = draw(st.integers(1, 12))
    ends = st.integers(0, count - 1)
    return count, draw(st.lists(st.tuples(ends, ends), max_size=3 * count))


@st.composite
def acyclic_graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    """The same without rings, the nodes numbered in any order."""
    count, edges = draw(graphs())
    numbers = draw(st.permutations(range(count)))
    return count, [(numbers[min(edge)], numbers[max(edge)]) for edge in edges if edge[0] != edge[1]]


@given(acyclic_graphs())
def test_the_order_is_topological(drawn: tuple[int, list[tuple[int, int]]]) -> None:
    count, edges = drawn
    dag = Dag(numbered(count), edges)
    assert sorted(dag.order) == list(range(count))
    rank = {node: position for position, node in enumerate(dag.order)}
    assert all(rank[parent] < rank[child] for parent, child in edges)
    assert [node.name for node in dag] == [str(node) for node in dag.order]


@given(acyclic_graphs())
def test_edges_are_those_given_once_each(drawn: tuple[int, list[tuple[int, int]]]) -> None:
    count, edges = drawn
    dag = Dag(numbered(count), edges)
    assert sorted(dag.edges()) == sorted(set(edges))
    for parent, child in edges:
        assert dag.children[parent].count(child) == dag.parents[child].count(parent) == 1
    assert sum(map(len, dag.parents)) == sum(map(len, dag.children)) == len(set(edges))


@given(graphs())
@example((1, [(0, 0)]))
@example((4, [(0, 1), (1, 2), (2, 1), (2, 3)]))
def test_a_ring_is_found_where_there_is_one_and_is_real(drawn: tuple[int, list[tuple[int, int]]]) -> None:
    count, edges = drawn
    judge: nx.DiGraph[int] = nx.DiGraph(edges)
    if nx.is_directed_acyclic_graph(judge):
        assert len(Dag(numbered(count), edges)) == count
        return
    with pytest.raises(CycleError) as caught:
        Dag(numbered(count), edges)
    ring = [int(name) for name in caught.value.ring]
    assert ring[0] == ring[-1]
    assert len(set(ring)) == len(ring) - 1 >= 1
    assert all(edge in edges for edge in pairwise(ring))


def test_a_cycle_is_spelt_out() -> None:
    with pytest.raises(CycleError, match="'b' -> 'c' -> 'a' -> 'b'") as caught:
        Dag.by_name(nodes("a", "b", "c", "d"), [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    assert (caught.value.exit_status, caught.value.code) == (7, "cycle")


def test_nodes_that_a_ring_holds_up_are_not_in_it() -> None:
    parents, children = [[1], [0], [1], [2]], [[1], [0, 2], [3], []]
    order = topological_order(map(len, parents), children)
    assert not order
    assert set(find_cycle(parents, done=order)) == {0, 1}


@given(
    st.integers(1, 6).flatmap(
        lambda size: st.lists(st.lists(st.integers(0, size - 1), max_size=4), min_size=size, max_size=size)
    )
)
def test_children_are_those_that_name_the_parent(parents: list[list[int]]) -> None:
    assert children_of(Adjacency(parents)) == [
        [child for child, row in enumerate(parents) for parent in row if parent == node] for node in range(len(parents))
    ]


@pytest.mark.parametrize("parent", [-1, 2, 99])
def test_a_parent_that_is_not_there_is_refused(parent: int) -> None:
    with pytest.raises(GraphError, match=f"the edge {parent} -> 1 leads to nowhere: there are 2 nodes"):
        children_of(Adjacency([[], [parent]]))


def test_nodes_that_become_free_together_keep_their_order() -> None:
    dag = Dag.by_name(nodes("d", "b", "c", "a", "e"), [("a", "e"), ("b", "e")])
    assert [node.name for node in dag] == ["d", "b", "c", "a", "e"]


def test_a_node_is_found_by_its_name() -> None:
    dag = Dag.by_name(nodes("a", "b"), [("b", "a")])
    assert dag["a"] == Node("a")
    assert dag.index == {"a": 0, "b": 1}
    with pytest.raises(KeyError):
        dag["c"]


def test_nodes_and_edges_may_be_read_once_only() -> None:
    dag = Dag.by_name(iter(nodes("a", "b")), iter([("a", "b")]))
    assert (len(dag), list(dag.edges())) == (2, [(0, 1)])


def test_a_graph_may_be_empty() -> None:
    dag: Dag[Node] = Dag([], [])
    assert (len(dag), list(dag), list(dag.edges()), list(dag.order)) == (0, [], [], [])


@pytest.mark.parametrize("build", [lambda these: Dag(these, []), lambda these: Dag.by_name(these, []), index_by_name])
def test_two_nodes_of_one_name_are_refused(build: object) -> None:
    assert callable(build)
    with pytest.raises(GraphError, match=r"two nodes are named 'a' \(number 1 and 3\)"):
        build(nodes("a", "b", "a"))


def test_an_edge_to_nowhere_is_refused() -> None:
    with pytest.raises(GraphError) as caught:
        Dag.by_name(nodes("project", "merge"), [("project", "merge"), ("projct", "merge")])
    assert str(caught.value) == (
        "the edge 'projct' -> 'merge' leads to nowhere: there is no 'projct'\nDid you mean 'project'?"
    )
    with pytest.raises(GraphError) as caught:
        Dag.by_name(nodes("project"), [("project", "?")])
    assert (caught.value.message, caught.value.hint) == (
        "the edge 'project' -> '?' leads to nowhere: there is no '?'",
        "",
    )


@pytest.mark.parametrize("edge", [(0, 2), (2, 0), (-1, 0), (0, -1)])
def test_an_index_to_nowhere_is_refused(edge: tuple[int, int]) -> None:
    with pytest.raises(GraphError):
        Dag(nodes("a", "b"), [edge])


def test_a_long_chain_is_no_deep_one() -> None:
    count = 20_000
    dag = Dag(numbered(count), [(node, node + 1) for node in range(count - 1)])
    assert list(dag.order) == list(range(count))
    with pytest.raises(CycleError) as caught:
        Dag(numbered(count), [(node, (node + 1) % count) for node in range(count)])
    assert len(caught.value.ring) == count + 1


@given(acyclic_graphs())
def test_parents_make_the_same_graph_as_edges(drawn: tuple[int, list[tuple[int, int]]]) -> None:
    count, edges = drawn
    dag = Dag(numbered(count), sorted(edges, key=lambda edge: (edge[1], edge[0])))
    again = Dag(numbered(count), parents=[list(these) for these in dag.parents])
    assert (again.parents, again.children, again.order) == (dag.parents, dag.children, dag.order)


def test_a_parent_that_is_no_node() -> None:
    with pytest.raises(GraphError, match="the edge 1 -> 0 leads to nowhere: there is 1 node, counted from 0"):
        Dag(nodes("a"), parents=[[1]])


def test_a_ring_of_parents() -> None:
    with pytest.raises(CycleError, match=r"'a' -> 'b' -> 'a'|'b' -> 'a' -> 'b'"):
        Dag(nodes("a", "b"), parents=[[1], [0]])


@given(acyclic_graphs())
def test_a_graph_alike_has_other_nodes_and_the_same_order(drawn: tuple[int, list[tuple[int, int]]]) -> None:
    count, edges = drawn
    dag = Dag(numbered(count), edges)
    other = dag.alike(nodes(*(f"n{number}" for number in range(count))))
    assert (other.parents, other.children, other.order) == (dag.parents, dag.children, dag.order)
    assert other["n0"] is other.nodes[0]


def test_a_graph_alike_has_as_many_nodes_and_no_two_of_one_name() -> None:
    dag = Dag(nodes("a", "b"), [(0, 1)])
    with pytest.raises(ValueError, match="1 nodes cannot take the place of 2"):
        dag.alike(nodes("x"))
    with pytest.raises(GraphError, match="two nodes are named 'x'"):
        dag.alike(nodes("x", "x"))
