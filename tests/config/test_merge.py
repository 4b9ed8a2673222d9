"""Layers: who wins, what stays known of those who lost, and that grouping does not matter."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.config.merge import (
    Layer,
    LayerRank,
    LayerStack,
    Marker,
    Node,
    drop_deleted_keys,
    make_layer,
    merge_layers,
    merge_over,
    overlay,
    plain_map,
    plain_value,
    to_node,
)
from longshore.errors import ConfigError, Origin


def layer(rank: LayerRank, **values: Any) -> Layer:
    return make_layer(values, rank.label, rank)


def test_ranks_go_from_weak_to_strong() -> None:
    names = ["defaults", "service", "system", "user", "site", "environment", "file", "command line"]
    assert [rank.label for rank in sorted(LayerRank)] == names


def test_maps_merge_and_all_else_is_replaced() -> None:
    weak = layer(LayerRank.DEFAULTS, a={"x": 1, "y": [1, 2]}, b={"z": 1}, c=1)
    strong = layer(LayerRank.FILE, a={"y": [3], "n": None}, b=5, c={"d": 1})
    assert plain_value(merge_layers([weak, strong])) == {"a": {"x": 1, "y": [3], "n": None}, "b": 5, "c": {"d": 1}}


def test_rank_decides_before_order_and_order_among_equals() -> None:
    layers = [
        layer(LayerRank.COMMAND_LINE, a="set", b="set"),
        layer(LayerRank.FILE, a="first", c="first"),
        layer(LayerRank.FILE, a="second", c="second"),
        layer(LayerRank.DEFAULTS, a="default", d="default"),
    ]
    assert plain_value(merge_layers(layers)) == {"a": "set", "b": "set", "c": "second", "d": "default"}


def test_a_weak_layer_may_be_added_after_a_strong_one() -> None:
    strong = LayerStack().with_layers(layer(LayerRank.FILE, a="file", b={"x": 1}))
    both = strong.with_layers(layer(LayerRank.SITE, a="site", b={"y": 2}), layer(LayerRank.DEFAULTS, c=3))
    assert plain_value(both.root()) == {"a": "file", "b": {"x": 1, "y": 2}, "c": 3}
    assert plain_value(strong.root()) == {"a": "file", "b": {"x": 1}}
    assert [each.rank for each in both.layers] == [LayerRank.FILE, LayerRank.SITE, LayerRank.DEFAULTS]


def test_a_layer_over_all_others_may_delete() -> None:
    root = merge_layers([layer(LayerRank.FILE, a=1, b={"c": 2, "d": 3})])
    last = layer(LayerRank.COMMAND_LINE, a=Marker.DELETE, b={"c": Marker.DELETE, "e": 4})
    assert plain_value(merge_over(root, last)) == {"b": {"d": 3, "e": 4}}


def test_a_value_knows_all_it_replaced() -> None:
    node: Node | None = merge_layers([layer(rank, a=int(rank)) for rank in LayerRank])
    assert node is not None
    assert isinstance(node.value, dict)
    node = node.value["a"]
    seen = []
    while node is not None:
        seen.append((node.value, node.origin.layer))
        node = node.replaced_node
    assert seen == [(int(rank), rank.label) for rank in sorted(LayerRank, reverse=True)]


def test_deleted_keys_are_gone_and_may_come_back() -> None:
    defaults = layer(LayerRank.DEFAULTS, a={"x": 1, "y": 2}, b=1, c=1)
    user = layer(LayerRank.FILE, a={"x": Marker.DELETE}, b=Marker.DELETE, never=Marker.DELETE)
    assert plain_value(merge_layers([defaults, user])) == {"a": {"y": 2}, "c": 1}
    again = layer(LayerRank.COMMAND_LINE, b={"new": 1})
    assert plain_map(merge_layers([defaults, user, again]))["b"] == {"new": 1}


def test_a_map_after_a_deletion_takes_nothing_from_before() -> None:
    layers = [
        layer(LayerRank.DEFAULTS, a={"old": 1}),
        layer(LayerRank.USER, a=Marker.DELETE),
        layer(LayerRank.FILE, a={"new": 1}),
    ]
    assert plain_value(merge_layers(layers)) == {"a": {"new": 1}}


def test_nothing_merges_to_nothing() -> None:
    assert plain_value(merge_layers([])) == {}


def test_the_top_of_a_layer_is_a_map() -> None:
    with pytest.raises(ConfigError, match="'x' must hold keys"):
        merge_layers([Layer("x", LayerRank.FILE, Node(3, Origin("x")))])


def test_values_from_no_file() -> None:
    made = make_layer({"a": (1, PurePosixPath("/x")), 2: {"b": None}}, "--site", LayerRank.COMMAND_LINE)  # type: ignore[dict-item]
    assert plain_value(made.root) == {"a": [1, "/x"], "2": {"b": None}}
    assert made.root.origin == Origin("--site", layer="command line")
    named = make_layer({}, "x", LayerRank.SITE, Origin("y"))
    assert named.root.origin == Origin("y")


def test_plain_is_a_copy() -> None:
    node = to_node({"a": [1]}, Origin("x"))
    copy = plain_map(node)["a"]
    assert isinstance(copy, list)
    copy.append(2)
    assert plain_value(node) == {"a": [1]}


SCALARS = st.none() | st.booleans() | st.integers(0, 3) | st.text("ab", max_size=2)
TREES = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        SCALARS | st.just(Marker.DELETE),
        lambda below: st.dictionaries(st.sampled_from("abc"), below, max_size=3),
        max_leaves=8,
    ),
    max_size=3,
)


@given(TREES, TREES, TREES)
def test_grouping_does_not_matter(a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]) -> None:
    first, second, third = (to_node(value, Origin(name)) for value, name in ((a, "a"), (b, "b"), (c, "c")))
    assert overlay(overlay(first, second), third) == overlay(first, overlay(second, third))


@given(TREES)
def test_a_layer_over_nothing_is_itself(a: dict[str, Any]) -> None:
    only = make_layer(a, "a", LayerRank.FILE)
    assert plain_value(merge_layers([only])) == plain_value(drop_deleted_keys(only.root))
    assert plain_value(merge_layers([only, only])) == plain_value(merge_layers([only]))


@given(TREES, TREES)
def test_inputs_are_left_alone(a: dict[str, Any], b: dict[str, Any]) -> None:
    layers = [make_layer(a, "a", LayerRank.FILE), make_layer(b, "b", LayerRank.FILE)]
    merge_layers(layers)
    assert plain_value(layers[0].root) == plain_value(to_node(a, Origin("a")))
    assert plain_value(layers[1].root) == plain_value(to_node(b, Origin("b")))
