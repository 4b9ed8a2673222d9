"""Budgets: maximum sizes of functions, modules, folders, tests and first sentences; one meaning per class name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.house.source_trees import MODULES, nodes_of, tree_of

ROOT: Final = Path(__file__).resolve().parents[2]

MAX_FUNCTION_LINES: Final = 60
MAX_PARAMETERS: Final = 7
MAX_MODULES: Final = 15
MAX_MODULE_LINES: Final = 450
MAX_TEST_LINES: Final = 600
MAX_SENTENCE_WORDS: Final = 20
EXCUSE: Final = "one file because"
"""Words in the docstring of a longer module, followed by the reason."""

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


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """List the parameters of a function, without those that Python fills in."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [each.arg for each in every if each.arg not in {"self", "cls"}]


def first_sentence(docstring: str) -> str:
    """Return the first sentence of a docstring, or what stands before its first colon or semicolon."""
    return re.split(r"(?<=[.;:!?])\s", " ".join(docstring.partition("\n\n")[0].split()), maxsplit=1)[0]


def test_a_docstring_begins_with_a_short_sentence() -> None:
    found = [
        f"{place(path, getattr(node, 'lineno', 1))}: {words} words: {sentence}"
        for path in MODULES
        for node in nodes_of(path)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for sentence in [first_sentence(ast.get_docstring(node) or "")]
        if (words := len(sentence.split())) > MAX_SENTENCE_WORDS
    ]
    assert not found, report(found, f"At most {MAX_SENTENCE_WORDS} words: divide the sentence, or say it in fewer.")


def test_a_function_is_short() -> None:
    found = [
        f"{place(path, node.lineno)}: {node.name} has {lines} lines"
        for path, node in functions()
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]
    way_out = f"At most {MAX_FUNCTION_LINES} lines with the docstring: move a step into a function that has a name."
    assert not found, report(found, way_out)


def test_a_function_has_few_parameters() -> None:
    found = [
        f"{place(path, node.lineno)}: {node.name} has {len(names)} parameters: {', '.join(names)}"
        for path, node in functions()
        if len(names := parameters(node)) > MAX_PARAMETERS
    ]
    way_out = f"At most {MAX_PARAMETERS} parameters: pass those that belong together as one frozen record."
    assert not found, report(found, way_out)


def test_a_folder_has_few_modules() -> None:
    counts: dict[Path, int] = defaultdict(int)
    for path in MODULES:
        counts[path.parent] += path.name != "__init__.py"
    found = [f"{place(folder)}: {count} modules" for folder, count in counts.items() if count > MAX_MODULES]
    way_out = f"At most {MAX_MODULES} modules a folder: move those of one topic into a folder of their own."
    assert not found, report(found, way_out)


def test_a_module_is_short() -> None:
    found = []
    for path in MODULES:
        lines = path.read_text("utf-8").count("\n")
        if lines > MAX_MODULE_LINES and EXCUSE not in " ".join((ast.get_docstring(tree_of(path)) or "").split()):
            found.append(f"{place(path, 1)}: {lines} lines")
    way_out = f"At most {MAX_MODULE_LINES} lines: divide the module, or write '{EXCUSE} ...' in its docstring."
    assert not found, report(found, way_out)


def test_a_test_module_is_short() -> None:
    lengths = {path: path.read_text("utf-8").count("\n") for path in sorted((ROOT / "tests").rglob("*.py"))}
    found = [f"{place(path, 1)}: {lines} lines" for path, lines in lengths.items() if lines > MAX_TEST_LINES]
    way_out = f"At most {MAX_TEST_LINES} lines: divide the module by behaviour."
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


def test_the_budgets_see_what_they_measure() -> None:
    (function,) = ast.parse("def f(self, a, /, b, *rest, c=1, **more):\n    pass\n").body
    assert isinstance(function, ast.FunctionDef)
    assert parameters(function) == ["a", "b", "c"]
    assert len(list(functions())) > 1000
    assert first_sentence("One of\n two: more.\n\nText.") == "One of two:"
