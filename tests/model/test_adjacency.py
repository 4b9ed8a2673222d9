"""Packed rows are those of the lists they are made from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.model.tasks import Adjacency

ROWS = st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=4), max_size=8)


@given(ROWS, ROWS)
def test_rows_are_read_as_they_were_given(first: list[list[int]], more: list[list[int]]) -> None:
    rows = [*first, *more]
    packed = Adjacency(first)
    packed.extend(more)
    assert packed == rows
    assert packed == Adjacency(rows)
    assert [list(row) for row in reversed(packed)] == rows[::-1]
    assert list(packed.counts()) == list(map(len, rows))
    assert [list(packed[node]) for node in range(-len(rows), len(rows))] == rows + rows
    assert [list(row) for row in packed[1:-1]] == rows[1:-1]


@given(ROWS, ROWS)
def test_other_rows_are_not_equal(one: list[list[int]], other: list[list[int]]) -> None:
    assert (Adjacency(one) == other) == (Adjacency(one) == Adjacency(other)) == (one == other)
    assert Adjacency(one) != len(one)


def test_a_node_that_is_not_there_is_refused() -> None:
    for node in (1, -2, 7):
        with pytest.raises(IndexError):
            _ = Adjacency([[0]])[node]


def test_numbers_of_more_than_31_bits_are_refused() -> None:
    with pytest.raises(OverflowError):
        Adjacency([[2**31]])
