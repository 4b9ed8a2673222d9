"""Syntax trees of source files; each file is parsed and walked once, whatever the number of tests that look at it."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parents[2] / "python" / "longshore"
MODULES: Final = sorted(PACKAGE.rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file, which is not to be changed."""
    # Parsing makes no garbage, and the tree is kept: three quarters of the time went to looking through all of them.
    gc.disable()
    try:
        return ast.parse(path.read_bytes())
    finally:
        gc.freeze()
        gc.enable()


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a file, in the order of `ast.walk`."""
    return tuple(ast.walk(tree_of(path)))


def lines_of_code(path: Path) -> int:
    """Number of lines without blank lines, comments and docstrings."""
    passed: set[int] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            passed |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(path.read_text("utf-8").splitlines(), 1)
    return sum(1 for number, line in lines if number not in passed and line.strip() and line.strip()[0] != "#")
