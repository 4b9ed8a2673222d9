"""Test modules stand alone: what several of them use is in modules of helpers."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.house.source_trees import nodes_of

TESTS = Path(__file__).resolve().parents[1]
MODULES = sorted(TESTS.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(TESTS).as_posix()


def test_no_module_imports_a_test_module() -> None:
    imports = [
        (name_of(path), module)
        for path in MODULES
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom) and node.module
        for module in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        if module.startswith("tests.") and any(part.startswith("test_") for part in module.split("."))
    ]
    assert imports == []


def test_no_test_is_named_after_a_row_of_a_table() -> None:
    named = [
        (name_of(path), node.name)
        for path in MODULES
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_row_")
    ]
    assert named == []
