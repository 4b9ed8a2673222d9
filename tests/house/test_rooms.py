"""Rooms keep the rules of `doc/explanation/the-house.md`."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

import pytest
from tests.house.measure import SMALL, figure_lines, forwards_of, is_forward
from tests.house.source_trees import MODULES, PACKAGE, lines_of_code, nodes_of, tree_of

import longshore

PAGE: Final = PACKAGE.parents[1] / "doc" / "explanation" / "the-house.md"
_REASON: Final = re.compile(r"\b(?:because|so that)\b")


def read_rooms() -> dict[str, str]:
    """Return the state of each room by its folder, as the page says."""
    rows = re.findall(r"^\| (`.*?) \|.*?\| (\w+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    return {room: state for rooms, state in rows for room in re.findall(r"`(.+?)`", rooms)}


def room_of(path: Path, rooms: dict[str, str]) -> str:
    """Return the room in which a module lies: the longest that fits."""
    words = path.relative_to(PACKAGE).with_suffix("").as_posix() + "/"
    return max((room for room in rooms if words.startswith(f"{room}/")), key=len, default="")


def lacks_reason(path: Path) -> bool:
    """Whether a module is small, and its first sentence does not say why."""
    if not 0 < lines_of_code(path) < SMALL:
        return False
    sentence = re.split(r"(?<=[.:])\s", ast.get_docstring(tree_of(path)) or "", maxsplit=1)[0]
    return not _REASON.search(sentence)


def interface_methods() -> frozenset[tuple[str, str]]:
    """Return the methods that others call or replace as parts of an interface: class and name.

    They are those that the contract declares, those beside abstract ones, and those that a subclass has, too, be it a
    stand-in of the tests.
    """
    classes = [
        (path, node)
        for path in (*MODULES, *(PACKAGE.parents[1] / "tests" / "services").rglob("*.py"))
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef)
    ]
    methods = {id(node): {each.name for each in node.body if isinstance(each, ast.FunctionDef)} for _, node in classes}
    declared = {
        name for path, node in classes if path.is_relative_to(PACKAGE / "contract") for name in methods[id(node)]
    }
    abstract = {
        node.name
        for _, node in classes
        for each in node.body
        if isinstance(each, ast.FunctionDef)
        and any(ast.unparse(word) == "abstractmethod" for word in each.decorator_list)
    }
    replaced = {
        (ast.unparse(base).rpartition(".")[2], name)
        for _, node in classes
        for base in node.bases
        for name in methods[id(node)]
    }
    own = {(node.name, name) for _, node in classes for name in methods[id(node)]}
    return frozenset(each for each in own if each[1] in declared or each[0] in abstract or each in replaced)


def needless_forwards() -> dict[Path, list[str]]:
    """Return the public functions per module that only forward, and that no interface asks for."""
    asked = {f"{owner}.{name}" for owner, name in interface_methods()}
    found = {path: [name for name in forwards_of(path) if name not in asked] for path in MODULES}
    return {path: names for path, names in found.items() if names}


def test_every_module_has_a_room_and_every_room_a_folder() -> None:
    rooms = read_rooms()
    assert rooms
    assert set(rooms.values()) == {"deep"}
    assert not [room for room in rooms if not (PACKAGE / room).is_dir() and not (PACKAGE / f"{room}.py").exists()]
    homeless = [path for path in MODULES if path.parent != PACKAGE and not room_of(path, rooms)]
    assert not [str(path) for path in homeless if lines_of_code(path)]


def test_no_room_takes_a_name_of_the_python_interface() -> None:
    # The import of such a room would put it in place of the function.
    assert not {path.stem for path in PACKAGE.iterdir()} & set(longshore.__all__)


def test_a_small_module_gives_its_reason() -> None:
    small = [path for path in MODULES if path != PACKAGE / "__init__.py" and lacks_reason(path)]
    assert not [str(path.relative_to(PACKAGE)) for path in small], "say why in the first sentence, or merge it"


def test_no_public_function_only_forwards() -> None:
    found = {str(path.relative_to(PACKAGE)): names for path, names in needless_forwards().items()}
    assert not found, "call the other one"


@pytest.mark.parametrize(
    ("text", "forwards"),
    [
        ("def f(a, b): return g(b, a)", True),
        ("def f(self, *rows): self.x.add(*rows)", True),
        ("def f(a): return g(a, 1)", False),
        ("def f(a): return a.b(a.c)", False),
        ("def f(): return g()", False),
        ("def f(a):\n    'Doc.'\n    return g(key=a)", True),
    ],
)
def test_a_forward_is_told_from_work(text: str, forwards: bool) -> None:
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    assert is_forward(function) is forwards


def test_figures_are_printed_beside_their_baseline() -> None:
    assert figure_lines({"modules": 12, "new": 0.5}, {"modules": 40}) == [
        "         baseline       now",
        "modules        40        12",
        "new             0       0.5",
    ]
