"""The reader of YAML tells where each character of a value's text stands, where the text allows it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from longshore.config.merge import Node
from longshore.config.yaml_text import find_character, parse_yaml
from longshore.errors import ConfigError


def place_of(text: str) -> str:
    """Place of the first brace in the value of the key 'a'; empty if it cannot be found."""
    value = parse_yaml(text, "f").value
    assert isinstance(value, dict)
    node = value["a"]
    place = find_character(text, node.origin.line, node.origin.column, str(node.value).index("{"))
    return f"{place[0]}:{place[1]}" if place else ""


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: echo {x}", "1:9"),
        ("a: 'echo {x}'", "1:10"),
        ('a: "echo {x}"', "1:10"),
        ("b: 1\na:\n  'echo {x}'  # why", "3:9"),
        ("a: &name 'echo {x}'", "1:16"),
        ("a: !!str 'echo {x}'", "1:16"),
        ("a: |\n  echo\n    cat {x}\n", "3:9"),
        ("a: |2-\n   echo {x}\n", "2:9"),
        ("a: | # why\n\n  echo {x}\n", "3:8"),
        ("a: |\r\n  echo\r\n  {x}\r\n", "3:3"),
        ("b: [é, &n '{x}']\na: *n", "1:12"),
        # Escapes and folded lines move characters.
        ('a: "ec\\x68o {x}"', ""),
        ("a: 'it''s {x}'", ""),
        ("a: echo\n  {x}", ""),
        ("a: >\n  echo\n  {x}\n", ""),
    ],
)
def test_place_of_a_character(text: str, place: str) -> None:
    assert place_of(text) == place


def scalars(node: Node) -> Iterator[Node]:
    if isinstance(node.value, dict | list):
        for below in node.value.values() if isinstance(node.value, dict) else node.value:
            yield from scalars(below)
    elif isinstance(node.value, str):
        yield node


@given(st.lists(st.sampled_from(["a: ", "- ", "'", '"', "|", "\n", "\n  ", "\n    ", "{x}", "{{", " ", "b", "&n "])))
def test_a_place_that_is_found_has_that_character(pieces: list[str]) -> None:
    text = "".join(pieces)
    try:
        tree = parse_yaml(text, "f")
    except ConfigError:
        assume(False)
    lines = text.split("\n")
    for node in scalars(tree):
        for index, character in enumerate(str(node.value)):
            place = find_character(text, node.origin.line, node.origin.column, index)
            if place is not None and character != "\n":
                assert lines[place[0] - 1][place[1] - 1] == character
