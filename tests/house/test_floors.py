"""The order of the package: floors, imports of the front door, and names of modules."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.house.source_trees import MODULES, PACKAGE, tree_of

from longshore.keeper.program import FILES, FOLDER

ROOT = Path(__file__).resolve().parents[2]

BANNED_NAMES = {"utils", "helpers", "common", "base", "manager"}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def front_door_imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every line and name of ``from longshore import name``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module == "longshore":
            yield from ((node.lineno, alias.name) for alias in node.names)


def test_the_package_does_not_import_from_its_top() -> None:
    found = [
        f"{relative(path)}:{line}: {name}"
        for path in MODULES
        for line, name in front_door_imports(tree_of(path))
        if name != "__version__"
    ]
    assert not found, "write `from longshore.<module> import <name>`"


def test_the_front_door_is_seen() -> None:
    tree = ast.parse("from longshore import model\nfrom longshore.model import dag\nfrom . import x\n")
    assert list(front_door_imports(tree)) == [(1, "model")]


def test_nothing_is_named_after_nothing() -> None:
    paths = [path for path in PACKAGE.rglob("*") if "__pycache__" not in path.parts]
    assert not [relative(path) for path in paths if path.stem.strip("_") in BANNED_NAMES]


def test_a_module_has_a_docstring() -> None:
    trees = {path: tree_of(path) for path in MODULES}
    assert not [relative(path) for path, tree in trees.items() if tree.body and not ast.get_docstring(tree)]


def test_programs_that_run_without_the_package_need_only_the_standard_library() -> None:
    # The programs of the keeper lie beside each other wherever they run.
    beside = {name.removesuffix(".py") for name in FILES}
    foreign = {
        f"{relative(path)}: {name}"
        for path in (
            *(ROOT / "bin").glob("*.py"),
            *(FOLDER / name for name in FILES),
            ROOT / "python" / "longshore" / "services" / "htcondor" / "render" / "barrier_script.py",
        )
        for node in run_time_nodes(tree_of(path))
        for name in imported(node)
        if name.partition(".")[0] not in sys.stdlib_module_names | beside
    }
    assert not foreign


def run_time_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a tree but those that only a type checker sees."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and any(
            isinstance(name, ast.Name) and name.id == "TYPE_CHECKING" for name in ast.walk(node.test)
        ):
            # Or what only whoever imports a program sees.
            for other in node.orelse:
                yield other
                yield from run_time_nodes(other)
        else:
            yield node
            yield from run_time_nodes(node)


def imported(node: ast.AST) -> list[str]:
    """Names of the modules that a node of the tree imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or "."] if isinstance(node, ast.ImportFrom) else []
