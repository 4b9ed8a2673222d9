"""Rooms: deep ones keep the rules of `doc/explanation/the-house.md`, and elsewhere breaches of them may only fall."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

import pytest
from tests.house.measure import SMALL, figure_lines, forwards_of, is_forward
from tests.house.source_trees import MODULES, PACKAGE, lines_of_code, tree_of

PAGE: Final = PACKAGE.parents[1] / "doc" / "explanation" / "the-house.md"
STATES: Final = {"old", "moved", "deep"}
SMALL_ELSEWHERE: Final = 3
FORWARDS_ELSEWHERE: Final = 12
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


def split_by_state(paths: list[Path]) -> tuple[list[Path], list[Path]]:
    """Return the modules of deep rooms, and the others."""
    rooms = read_rooms()
    deep = [path for path in paths if rooms.get(room_of(path, rooms)) == "deep"]
    return deep, [path for path in paths if path not in set(deep)]


def test_every_module_has_a_room_and_every_room_a_state() -> None:
    rooms = read_rooms()
    assert rooms
    assert set(rooms.values()) <= STATES
    missing = [room for room, state in rooms.items() if state != "old" and not _exists(room)]
    assert not missing, "rooms that are moved or deep have a folder"
    if "old" not in rooms.values():
        assert not [
            str(path) for path in MODULES if path.parent != PACKAGE and lines_of_code(path) and not room_of(path, rooms)
        ]


def _exists(room: str) -> bool:
    return (PACKAGE / room).is_dir() or (PACKAGE / f"{room}.py").exists()


def test_a_small_module_gives_its_reason() -> None:
    deep, elsewhere = split_by_state([path for path in MODULES if lacks_reason(path)])
    assert not [str(path.relative_to(PACKAGE)) for path in deep], "say why in the first sentence, or merge it"
    assert len(elsewhere) <= SMALL_ELSEWHERE, "merge a small module instead of adding one"


def test_no_public_function_only_forwards() -> None:
    found = {path: names for path in MODULES if (names := forwards_of(path))}
    deep, elsewhere = split_by_state(list(found))
    assert not [f"{path.relative_to(PACKAGE)}: {', '.join(found[path])}" for path in deep], "call the other one"
    assert sum(len(found[path]) for path in elsewhere) <= FORWARDS_ELSEWHERE


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
