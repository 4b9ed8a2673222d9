"""One place writes files and one locks them; what does it elsewhere is named here, with the reason."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "longshore"

HOMES = {"world/files/atomic.py", "world/files/locks.py"}
EXCEPTIONS = {
    "engine/keeper/scratch.py": "the keeper runs without the package, and has a door of its own",
    "cli/inspect/draw.py": "the user names the file, which may be a device",
    "cli/main.py": "opens /dev/null",
    "services/htcondor/schedd/bindings.py": "opens /dev/null",
    "world/files/read_file.py": "opens a file to read it",
    "world/files/presence.py": "opens a folder, so that a network file system looks again",
    "testing/conformance/executor.py": "writes programs for jobs to run",
    "testing/conformance/service_capabilities.py": "writes the files that jobs wait for",
}

_CALLS = {
    "os.open",
    "os.replace",
    "os.rename",
    "os.link",
    "os.fsync",
    "os.fdatasync",
    "fcntl.flock",
    "fcntl.lockf",
    "tempfile.mkstemp",
    "tempfile.NamedTemporaryFile",
}
_METHODS = {"write_text", "write_bytes", "touch", "rename", "hardlink_to"}


def violations(tree: ast.AST) -> list[int]:
    """Lines of the calls that write, rename or lock a file."""
    return [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_violation(node)]


def _is_violation(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    method = name.rpartition(".")[2]
    # `str.replace` has two arguments, and `msgspec.structs.replace` has names.
    if name in _CALLS or method in _METHODS or (method == "replace" and len(call.args) == 1 and not call.keywords):
        return True
    modes = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    modes += [keyword.value.value for keyword in call.keywords if isinstance(keyword.value, ast.Constant)]
    return method == "open" and any(
        isinstance(mode, str) and len(mode) <= 3 and set(mode) & set("wax+") for mode in modes
    )


def test_files_are_written_and_locked_in_one_place() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): lines
        for path in sorted(PACKAGE.rglob("*.py"))
        if (lines := violations(ast.parse(path.read_text("utf-8"))))
    }
    assert not {name: lines for name, lines in found.items() if name not in HOMES | set(EXCEPTIONS)}
    assert set(EXCEPTIONS) <= set(found), "an exception that is none any more"


@pytest.mark.parametrize(
    ("source", "is_one"),
    [
        ("path.open('wb')", True),
        ("open(path, mode='a')", True),
        ("path.open('rb')", False),
        ("path.replace(other)", True),
        ("'a'.replace('a', 'b')", False),
        ("os.replace(a, b)", True),
        ("structs.replace(record, a=1)", False),
        ("fcntl.flock(file, fcntl.LOCK_EX)", True),
        ("path.write_text('', 'utf-8')", True),
    ],
)
def test_such_calls_are_recognised(source: str, is_one: bool) -> None:
    assert bool(violations(ast.parse(source))) == is_one


@pytest.mark.parametrize(
    ("library", "homes"),
    [
        ("fcntl", {"world/files/locks.py", "engine/keeper/kernel.py", "engine/keeper/records.py"}),
        ("difflib", {"model/suggestions.py"}),
    ],
)
def test_one_module_speaks_to_a_library(library: str, homes: set[str]) -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if (isinstance(node, ast.Import) and library in {alias.name for alias in node.names})
        or (isinstance(node, ast.ImportFrom) and node.module == library)
    }
    assert found == homes
