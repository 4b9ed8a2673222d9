"""Commands in messages and help run as printed: they name the run where it is known, and quote paths."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from tests.house.source_trees import MODULES, PACKAGE, nodes_of

_COMMAND: Final = re.compile(r"longshore (?:[a-z-]+ )(?:--[a-z-]+ |[a-z]+ )*$")
_PATH: Final = re.compile(r"\b(?:root|path|parent|directory|folder|file)\b")
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


def test_commands_in_hints_name_the_run() -> None:
    assert list(messages(_UNNAMED_RUN)) == [], "name the run, or '@last' in an example"


def unquoted_paths() -> Iterator[str]:
    """Place and expression of each path in a command for the shell that is not quoted."""
    for path in MODULES:
        for text in (node for node in nodes_of(path) if isinstance(node, ast.JoinedStr)):
            for before, value in pairwise(text.values):
                if not (isinstance(before, ast.Constant) and isinstance(value, ast.FormattedValue)):
                    continue
                expression = ast.unparse(value.value)
                if _COMMAND.search(str(before.value)) and _PATH.search(expression) and "quote(" not in expression:
                    yield f"{path.relative_to(PACKAGE)}:{value.lineno}: {expression}"


def test_paths_in_commands_are_quoted() -> None:
    assert list(unquoted_paths()) == [], "use shlex.quote: a path may have blanks"
