"""Messages and help name the state of a run as reports do: no "live run", and no placeholder where a run is known."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Final

from tests.house.source_trees import MODULES, PACKAGE, nodes_of

_LIVE_RUN: Final = re.compile(r"\blive[ -]runs?\b", re.IGNORECASE)
_UNNAMED_RUN: Final = re.compile(r"longshore [a-z-]+ (?:--[a-z-]+ )*RUN\b")


def documentation(nodes: Iterable[ast.AST], *, has_help: bool) -> set[int]:
    """Identities of docstrings; with `has_help`, those of functions are help of commands and left out."""
    kinds = (ast.Module, ast.ClassDef) if has_help else (ast.Module, ast.ClassDef, ast.FunctionDef)
    owners = [node for node in nodes if isinstance(node, kinds)]
    bodies = [statement for owner in owners for statement in owner.body]
    return {id(each.value) for each in bodies if isinstance(each, ast.Expr)}


def messages(pattern: re.Pattern[str]) -> Iterator[str]:
    """Place and text of each string that users may see and that has the pattern."""
    for path in MODULES:
        name = str(path.relative_to(PACKAGE))
        if name.startswith("testing/"):
            continue
        unseen = documentation(nodes_of(path), has_help=name.startswith("cli/"))
        for node in nodes_of(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in unseen:
                yield from (f"{name}:{node.lineno}: {found[0]}" for found in pattern.finditer(node.value))


def test_no_message_says_live_run() -> None:
    assert list(messages(_LIVE_RUN)) == [], "say 'is not over', or name its state"


def test_commands_in_hints_name_the_run() -> None:
    assert list(messages(_UNNAMED_RUN)) == [], "name the run, or '@last' in an example"
