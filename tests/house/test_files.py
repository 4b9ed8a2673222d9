"""All writes go through one door; what writes files elsewhere is named here, with the reason."""

from __future__ import annotations

import ast
from functools import cache

import pytest
from tests.house.source_trees import MODULES, PACKAGE, nodes_of, tree_of

HOME = "system/"
EXCEPTIONS = {
    "services/batch/pilots/program/pilot_system.py": "the door of a program of its own, which uses the disk of a node",
    "cli/exports.py": "the user names the file, which may be a device",
    "cli/terminal.py": "opens /dev/null",
    "services/htcondor/schedd/client.py": "opens /dev/null",
    "testing/conformance/executor.py": "writes programs for jobs to run",
    "testing/conformance/service.py": "takes files away that a service must miss, and writes those that jobs wait for",
    "system/processes.py": "the door of processes loads what makes temporary folders when it is first called",
}

_MODULES = {"os", "fcntl", "shutil", "tempfile"}
_CALLS = {
    "chmod",
    "chown",
    "copy",
    "copy2",
    "copyfile",
    "copytree",
    "fchmod",
    "fchown",
    "fdatasync",
    "fdopen",
    "flock",
    "fsync",
    "ftruncate",
    "link",
    "lockf",
    "makedirs",
    "mkdir",
    "mkdtemp",
    "mkfifo",
    "mkstemp",
    "move",
    "NamedTemporaryFile",
    "open",
    "posix_fallocate",
    "pwrite",
    "remove",
    "removedirs",
    "rename",
    "renames",
    "replace",
    "rmdir",
    "rmtree",
    "symlink",
    "TemporaryDirectory",
    "TemporaryFile",
    "truncate",
    "unlink",
    "utime",
    "write",
}
_METHODS = {
    "chmod",
    "hardlink_to",
    "mkdir",
    "rename",
    "rmdir",
    "symlink_to",
    "touch",
    "unlink",
    "write_bytes",
    "write_text",
}
_BELOW = {
    "AppendedFile",
    "atomic_file",
    "copy_file",
    "create_atomically",
    "create_file",
    "file_system_time",
    "make_executable",
    "make_folders",
    "move",
    "open_to_append",
    "remove_empty_folder",
    "remove_file",
    "take_lock",
    "truncate_file",
    "write_atomically",
}
"""Functions of the door that can follow links above the folder they are given."""
_IN_RUNS = (
    "control/interventions",
    "control/re",
    "engine/",
    "keeper/",
    "plan/",
    "rundir/batch_records",
    "rundir/interventions",
    "rundir/journal",
    "rundir/liveness",
    "rundir/notices",
    "runstate/",
    "services/",
)
"""Packages that write into run directories."""


def violations(tree: ast.AST) -> list[int]:
    """Lines of the calls that write, rename, remove or lock a file."""
    return [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_violation(node)]


def _is_violation(call: ast.Call) -> bool:
    receiver, _, method = ast.unparse(call.func).rpartition(".")
    if receiver in {"files", "system"}:
        # The doors of the package and of the keeper.
        return False
    if receiver in _MODULES:
        return method in _CALLS
    # `str.replace` has two arguments, and `msgspec.structs.replace` has names.
    if receiver and (method in _METHODS or (method == "replace" and len(call.args) == 1 and not call.keywords)):
        return True
    modes = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    modes += [keyword.value.value for keyword in call.keywords if isinstance(keyword.value, ast.Constant)]
    return method == "open" and any(
        isinstance(mode, str) and len(mode) <= 3 and set(mode) & set("wax+") for mode in modes
    )


def unguarded(tree: ast.AST) -> list[int]:
    """Lines of the calls that do not say below which folder no link is followed."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _BELOW
        and "below" not in {keyword.arg for keyword in node.keywords}
    ]


def _modules() -> dict[str, ast.AST]:
    return {path.relative_to(PACKAGE).as_posix(): tree_of(path) for path in MODULES}


@cache
def _violations() -> dict[str, list[int]]:
    return {name: lines for name, tree in _modules().items() if (lines := violations(tree))}


def test_files_are_written_and_locked_in_one_place() -> None:
    found = _violations()
    assert not {name: lines for name, lines in found.items() if not name.startswith(HOME) and name not in EXCEPTIONS}
    assert set(EXCEPTIONS) <= set(found), "an exception that is none any more"


def test_only_the_door_calls_the_operating_system() -> None:
    found = {name: lines for name, lines in _violations().items() if name.startswith(HOME)}
    assert not found.keys() - EXCEPTIONS.keys()


def test_writes_into_a_run_say_below_which_folder_no_link_is_followed() -> None:
    found = {
        name: lines
        for name, tree in _modules().items()
        if (lines := unguarded(tree))
        and name.startswith(_IN_RUNS)
        and name not in {"engine/shares.py", "plan/probe.py"}
    }
    assert not found


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
        ("os.write(1, b'')", True),
        ("shutil.rmtree(path)", True),
        ("path.parent.mkdir(parents=True)", True),
        ("files.mkdir(path)", False),
        ("move(source, target)", False),
    ],
)
def test_such_calls_are_recognised(source: str, is_one: bool) -> None:
    assert bool(violations(ast.parse(source))) == is_one


@pytest.mark.parametrize(
    ("library", "homes"),
    [
        (
            "fcntl",
            {
                "system/sharing.py",
                "system/files.py",
                "keeper/program/attempts.py",
                "keeper/program/kernel.py",
                "keeper/program/units.py",
            },
        ),
        ("difflib", {"model/wording.py"}),
    ],
)
def test_one_module_speaks_to_a_library(library: str, homes: set[str]) -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in MODULES
        for node in nodes_of(path)
        if (isinstance(node, ast.Import) and library in {alias.name for alias in node.names})
        or (isinstance(node, ast.ImportFrom) and node.module == library)
    }
    assert found == homes
