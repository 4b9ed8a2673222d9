"""All calls of the keeper to the operating system go through one object, which a simulation can replace."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.doors import replace_calls

from longshore.keeper.program import FILES, FOLDER
from longshore.keeper.program.attempts import Records
from longshore.keeper.program.kernel import read_file, system

PURE = {
    *("os.path.join", "os.path.basename", "os.path.dirname", "os.path.isabs", "os.path.abspath"),
    *("os.fsencode", "os.fsdecode", "os.environ.get"),
    *("os.WIFSIGNALED", "os.WTERMSIG", "os.WIFEXITED", "os.WEXITSTATUS"),
}
"""Functions that compute and do not ask the system."""


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

    records = Records(str(tmp_path / "records"))
    records.take("{a record}")
    with replace_calls(system, SimpleNamespace(write=fail)):
        assert not records.flush()
    assert written[0].startswith(b"{a record")
    assert records.flush()
    assert read_file(str(tmp_path / "records")).startswith(b"{a record")
