"""All calls of the keeper to the operating system go through one object, which a simulation can replace."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from longshore.engine.keeper import FILES, FOLDER
from longshore.engine.keeper.kernel import System, read_file, system
from longshore.engine.keeper.records import Records

PURE = {
    *("os.path.join", "os.path.basename", "os.path.dirname", "os.path.isabs", "os.path.abspath"),
    *("os.fsencode", "os.fsdecode", "os.environ.get"),
    *("os.WIFSIGNALED", "os.WTERMSIG", "os.WIFEXITED", "os.WEXITSTATUS"),
}
"""Functions that compute and do not ask the system."""


@pytest.fixture(autouse=True)
def real_again() -> Iterator[None]:
    yield
    system.use(System)


@pytest.mark.parametrize("name", sorted({*FILES} - {"kernel.py", "guard.py"}))
def test_only_the_door_calls_the_system(name: str) -> None:
    tree = ast.parse(Path(FOLDER / name).read_text("utf-8"))
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found = {each for each in called if re.fullmatch(r"(os|time|signal|select|fcntl)(\.\w+)+|open", each)}
    assert found <= PURE


def test_another_object_takes_the_place_of_the_system(tmp_path: Path) -> None:
    written: list[bytes] = []

    def fail(_file: int, data: bytes) -> int:
        written.append(bytes(data))
        raise OSError

    calls = {name: getattr(System, name) for name in vars(System) if not name.startswith("_")}
    failing = SimpleNamespace(**{**calls, "write": fail})
    records = Records(str(tmp_path / "records"))
    system.use(failing)
    records.take("{a record}")
    assert not records.flush()
    assert written[0].startswith(b"{a record")
    system.use(System)
    assert records.flush()
    assert read_file(str(tmp_path / "records")).startswith(b"{a record")
