"""A finding about a key points to the key, wherever its value stands."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.config.check import Finding
from longshore.config.locate import Lines, at_keys
from longshore.config.merge import Node
from longshore.origin import Origin
from longshore.world.yamlfile import parse_yaml


def placed(text: str, *path: str) -> str:
    """Where a finding about the key at a path points."""
    node: Any = parse_yaml(text, "f")
    for step in path:
        node = node.value[step if isinstance(node.value, dict) else int(step)]
    finding = Finding(message="x", origin=node.origin, path=path, at_key=True)
    (found,) = at_keys([finding], Lines({"f": text}))
    assert list(at_keys([found], Lines({"f": text}))) == [found], "once is enough"
    return f"{found.origin.line}:{found.origin.column}"


@pytest.mark.parametrize(
    ("text", "path", "place"),
    [
        ("key: 5", "key", "1:1"),
        ("'key'  :  5", "key", "1:1"),
        ('"key": 5', "key", "1:1"),
        ("key:", "key", "1:1"),
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
        ("k.e+y: 5", "k.e+y", "1:1"),
    ],
)
def test_the_place_of_a_key(text: str, path: str, place: str) -> None:
    steps = (path,) if path == "k.e+y" else tuple(path.split("."))
    assert placed(text, *steps) == place


@pytest.mark.parametrize("text", ["base: &b {key: 5}\nkey: *b", '"k\\u0065y": 5', "? key\n: 5"])
def test_where_the_text_does_not_tell_the_place_of_the_value_stays(text: str) -> None:
    node = parse_yaml(text, "f")
    value = node.value
    assert isinstance(value, dict)
    assert isinstance(value["key"], Node)
    assert placed(text, "key") == f"{value['key'].origin.line}:{value['key'].origin.column}"


def test_findings_about_values_and_other_files_stay() -> None:
    here = Finding(message="x", origin=Origin("f", 1, 6), path=("key",))
    there = Finding(message="x", origin=Origin("g", 1, 6), path=("key",), at_key=True)
    nowhere = Finding(message="x", origin=Origin("--set"), path=("key",), at_key=True)
    beyond = Finding(message="x", origin=Origin("f", 9, 1), path=("key",), at_key=True)
    findings = [here, there, nowhere, beyond]
    assert list(at_keys(findings, Lines({"f": "key: 5"}))) == findings


@given(st.text(st.sampled_from("key:&! \t#{,\"'\n"), max_size=30), st.integers(0, 4), st.integers(1, 20))
def test_any_text_is_searched(text: str, line: int, column: int) -> None:
    finding = Finding(message="x", origin=Origin("f", line, column), path=("key",), at_key=True)
    (found,) = at_keys([finding], Lines({"f": text}))
    if found != finding:
        assert (
            Lines({"f": text}).of("f")[found.origin.line - 1][found.origin.column - 1 :].lstrip("'\"").startswith("key")
        )
