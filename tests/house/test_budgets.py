"""Budgets: maximum sizes of functions and modules; one meaning per class name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.house.source_trees import MODULES, lines_of_code, nodes_of, tree_of

ROOT: Final = Path(__file__).resolve().parents[2]

MAX_FUNCTION_LINES: Final = 100
MAX_MODULE_LINES: Final = 1200

SHARED_CLASS_NAMES: Final[dict[str, str]] = {
    "Workflow": "`longshore.Workflow` is what users write; that of `model` is what is made of it",
}
"""Names of several public classes, each with the reason for sharing it."""


def place(path: Path, line: int = 0) -> str:
    """Return a path below the root, and a line of it, as editors open it."""
    return f"{path.relative_to(ROOT)}:{line}" if line else str(path.relative_to(ROOT))


def report(found: list[str], way_out: str) -> str:
    """Return the message of a failure: the way out, then a line per place."""
    return "\n".join([way_out, *found])


def functions() -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Iterate over all functions and methods of the package."""
    for path in MODULES:
        yield from ((path, node) for node in nodes_of(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_a_function_is_short() -> None:
    found = [
        f"{place(path, node.lineno)}: {node.name} has {lines} lines"
        for path, node in functions()
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]
    way_out = f"At most {MAX_FUNCTION_LINES} lines with the docstring, and only where it reads as one list of steps."
    assert not found, report(found, way_out)


def test_a_module_is_short() -> None:
    paths = [*MODULES, *sorted((ROOT / "tests").rglob("*.py"))]
    # Parsing takes a hundred times as long as counting lines.
    lengths = {path: lines_of_code(path) for path in paths if path.read_bytes().count(b"\n") > MAX_MODULE_LINES}
    found = [f"{place(path, 1)}: {lines} lines" for path, lines in lengths.items() if lines > MAX_MODULE_LINES]
    way_out = f"At most {MAX_MODULE_LINES} lines of code: divide it where two things change for different reasons."
    assert not found, report(found, way_out)


def test_a_public_class_has_a_name_of_its_own() -> None:
    classes: dict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(place(path, node.lineno))
    shared = {name: places for name, places in classes.items() if len(places) > 1}
    found = [f"{name}: {', '.join(places)}" for name, places in shared.items() if name not in SHARED_CLASS_NAMES]
    way_out = "One name, one thing: rename one of the classes, or give the reason in SHARED_CLASS_NAMES."
    assert not found, report(found, way_out)
    assert not SHARED_CLASS_NAMES.keys() - shared.keys(), "these names are no longer shared: remove them from the list"


def test_the_budgets_see_what_they_measure(tmp_path: Path) -> None:
    assert len(list(functions())) > 1000
    path = tmp_path / "module.py"
    path.write_text(
        '"""Words."""\n\n# More.\nA = 1\n"""Of A."""\n\n\ndef f():\n    """F."""\n    return "#"\n', "utf-8"
    )
    assert lines_of_code(path) == 3
