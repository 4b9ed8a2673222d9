"""The reader of YAML tells where each key begins, wherever its value stands."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.config.yaml_text import key_places, parse_yaml
from longshore.errors import ConfigError


def place_of(text: str, *path: str) -> str:
    """Line and column of the key at a path."""
    node: Any = parse_yaml(text, "f")
    for step in path:
        node = node.value[step if isinstance(node.value, dict) else int(step)]
    line, column = key_places(text)[node.origin.line, node.origin.column, path[-1]]
    return f"{line}:{column}"


@pytest.mark.parametrize(
    ("text", "path", "place"),
    [
        ("key: 5", "key", "1:1"),
        ("'key'  :  5", "key", "1:1"),
        ('"key": 5', "key", "1:1"),
        ('"k\\u0065y": 5', "key", "1:1"),
        ("? key\n: 5", "key", "1:3"),
        ("key:", "key", "1:1"),
        ("a:\nkey:\n", "key", "2:1"),
        ("key:\n  below: 1\n", "key", "1:1"),
        ("key:   # why\n\n  # more\n  - a\n", "key", "1:1"),
        ("key: &anchor !!str\n  5", "key", "1:1"),
        ("key: &anchor 5", "key", "1:1"),
        ("key: |\n  key: 5\n", "key", "1:1"),
        ("a: {b: 1, key: 5}", "a.key", "1:11"),
        ("a: {b: 1, 'key':5, c: 3}", "a.key", "1:11"),
        ("a:\n- key: 5\n", "a.0.key", "2:3"),
        ("key:\n  key:\n    5\n", "key.key", "2:3"),
        ("key:\n  key: 5\n", "key", "1:1"),
        ("monkey: {key: 5}", "monkey.key", "1:10"),
        ("base: &b {key: 5}\nother: *b", "other", "2:1"),
        ("base: &b {key: 5}\nother: *b", "other.key", "1:11"),
        ("base: &b {key: 5}\nother: {<<: *b}", "other.key", "1:11"),
    ],
)
def test_place_of_a_key(text: str, path: str, place: str) -> None:
    assert place_of(text, *path.split(".")) == place


def test_values_without_keys_have_no_places() -> None:
    assert key_places("") == {}
    assert key_places("[1, [2]]") == {}


@given(st.text(st.sampled_from("key:&! \t#{,\"'?\n-"), max_size=30))
def test_every_key_of_a_document_has_a_place(text: str) -> None:
    try:
        node = parse_yaml(text, "f")
    except ConfigError:
        return
    places = key_places(text)
    for key, below in node.value.items() if isinstance(node.value, dict) else ():
        line, column = places[below.origin.line, below.origin.column, key]
        assert (line, column) <= (below.origin.line, below.origin.column)
        assert key[:1] in text.split("\n")[line - 1][column - 1 :]
