"""Mutations of trees of values and of text, most of which leave a document that still parses."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

Path = tuple[Any, ...]

SCALARS: Sequence[Any] = (
    None, True, False, 0, 1, -1, 2, 7, 10**6, 10**18, 2**63, -(2**70),
    0.0, -0.0, 0.5, 1e308, float("inf"), float("nan"),
    "", " ", "a", "A", "x", "0", "-1", "1.5", "8G", "1 GB", "1:30:00", "2d", "1e5", "yes", "NULL", "~", "*", "**/", "?",
    "{label}", "{{", "{", "}", "${HOME}", "${NONE}", "$$", "<ENV:HOME>", "<FILE:x>", "{a:06}", "{a!r}", "{a.b}", "{_x}",
    "bpsEval(int, 3)", "bpsEval(os.getpid)", "(a+)+$", "(", "[", "a..b", "..", "a#b", "/", "../x", "a/b", "a,b",
    ":", "a:b", "a=b", "visit > 5", "NOT", "IN (1..5)", "é", "☃" * 3, "\x00", "\x1b[31m", "\ud800", "\u2028",
    "a\nb", "a\tb", "x" * 300, [], {}, [[]], ["a"], ["a", "a"], [1, "a", None], {"a": 1}, {"": None}, {"a": {"b": []}},
)  # fmt: skip
"""Values at the edge of what a key may hold."""


def paths_of(tree: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the path of every node below the root."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from paths_of(value, (*path, key))


def node_at(tree: Any, path: Path) -> Any:
    """Return the node at a path."""
    for key in path:
        tree = tree[key]
    return tree


def mutate_tree(tree: Any, donors: Sequence[Any], chance: Random) -> Any:
    """Return a tree with one to four changes; `donors` are trees whose parts may replace others."""
    tree = copy.deepcopy(tree)
    for _ in range(chance.choice((1, 1, 1, 2, 2, 4))):
        paths = list(paths_of(tree))
        if not paths:
            return chance.choice(SCALARS)
        path = chance.choice(paths)
        _change(node_at(tree, path[:-1]), path[-1], tree, donors, chance)
    return tree


def alter_tree(tree: Any, chance: Random) -> Any:
    """Return a tree of the same form: one to three of its values become others of their type."""
    tree = copy.deepcopy(tree)
    for _ in range(chance.choice((1, 1, 2, 3))):
        paths = list(paths_of(tree))
        if not paths:
            return tree
        path = chance.choice(paths)
        parent = node_at(tree, path[:-1])
        parent[path[-1]] = _other_of_type(tree, path, paths, chance)
    return tree


def _other_of_type(tree: Any, path: Path, paths: Sequence[Path], chance: Random) -> Any:
    """Return another value for a node: one of its type, often one that the same key has elsewhere."""
    value = node_at(tree, path)
    if isinstance(value, list) and value:
        at = chance.randrange(len(value))
        return chance.choice(
            (value[::-1], value[:at] + value[at + 1 :], [*value[: at + 1], *copy.deepcopy(value[at:])])
        )
    alike = [each for each in paths if _name_of(each) == _name_of(path) and type(node_at(tree, each)) is type(value)]
    if isinstance(value, dict | list) or chance.random() < 0.5:
        return copy.deepcopy(node_at(tree, chance.choice(alike)))
    return chance.choice([value, *(each for each in SCALARS if type(each) is type(value))])


def _name_of(path: Path) -> tuple[int, Any]:
    """Return the key of a node; for an item of a list, that of the list."""
    keys = [key for key in path if isinstance(key, str)]
    return len(path) - len(keys), keys[-1] if keys else ""


def _change(parent: Any, key: Any, tree: Any, donors: Sequence[Any], chance: Random) -> None:
    kind = chance.randrange(9)
    if kind < 3:
        parent[key] = copy.deepcopy(chance.choice(SCALARS))
    elif kind == 3:
        del parent[key]
    elif kind == 4:
        parent[key] = copy.deepcopy(_part_of(chance.choice(donors), chance))
    elif kind == 5:
        parent[key] = copy.deepcopy(_part_of(tree, chance))
    elif kind == 6:
        parent[key] = _near(parent[key], chance)
    elif isinstance(parent, list):
        parent.insert(key, copy.deepcopy(parent[key]))
    elif kind == 7:
        parent[str(_near(key, chance))] = parent.pop(key)
    else:
        donor = chance.choice(donors)
        if isinstance(donor, dict) and donor:
            name = chance.choice(list(donor))
            parent[name] = copy.deepcopy(donor[name])


def _part_of(tree: Any, chance: Random) -> Any:
    paths = list(paths_of(tree))
    return node_at(tree, chance.choice(paths)) if paths else tree


def _near(value: Any, chance: Random) -> Any:
    """Return a value like another."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return chance.choice((-value, value + 1, value - 1, value * 1000, str(value), [value]))
    if isinstance(value, str):
        at = chance.randrange(len(value) + 1)
        piece = chance.choice(("", "{", "}", "$", "*", "..", " ", "\n", "0", "é", "/", "'", '"', "\\", "x" * 50))
        return value[:at] + piece + value[at + chance.randrange(2) :]
    if isinstance(value, list):
        return chance.choice((value * 2, value[::-1], value[:-1], {str(each): each for each in value[:5]}))
    return chance.choice(([*value], [value], {**value, "x": 1}))


def mutate_text(text: bytes, chance: Random) -> bytes:
    """Return text with one change of bytes or lines."""
    if not text:
        return chance.choice((b"\xff", b"\n", b"{", b"\0"))
    kind, at = chance.randrange(8), chance.randrange(len(text))
    lines = text.splitlines(keepends=True)
    row = chance.randrange(len(lines))
    if kind == 0:
        return text[:at]
    if kind == 1:
        return text[:at] + bytes([chance.randrange(256)]) + text[at + 1 :]
    if kind == 2:
        return (
            text[:at]
            + chance.choice((b"\xff", b"\0", b"\t", b"{", b"[" * 2000, b"&a ", b"*a", b"<<: ", b"!!x "))
            + text[at:]
        )
    if kind == 3:
        return b"".join(lines[:row] + lines[row + 1 :])
    if kind == 4:
        return b"".join([*lines[: row + 1], *lines[row:]])
    if kind == 5:
        return b"".join([*lines[:row], b" " * chance.randrange(1, 9) + lines[row], *lines[row + 1 :]])
    if kind == 6:
        chance.shuffle(lines)
        return b"".join(lines)
    return text[:at] + text[at + chance.randrange(1, 40) :]
