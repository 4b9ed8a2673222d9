"""A batch system is a dialect of 600 lines, and Slurm adds what only Slurm has in 1,000 (decision 0095)."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest
from tests.house.source_trees import PACKAGE, tree_of

DIALECT_LINES: Final = 600
EXTENSION_LINES: Final = 1000
BESIDE_A_DIALECT: Final = {
    "service.py": "the entry point: names the dialect and its checks",
    "inventory.py": "what the cluster has, for checks before a run and for profiles",
    "load.py": "how busy the cluster is, for the choice of a site",
    "check.py": "checks of a site and of jobs for keys that only this service has",
}
"""Modules of a service that are no part of its dialect."""
EXTENSIONS: Final = "extensions"
"""Folder of what only one batch system has."""


def lines_of_code(path: Path) -> int:
    """Number of lines without blank ones, comments and texts that describe."""
    passed: set[int] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            passed |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(path.read_text("utf-8").splitlines(), 1)
    return sum(1 for number, line in lines if number not in passed and line.strip() and line.strip()[0] != "#")


def count_lines(service: str) -> tuple[int, int]:
    """Lines of a service's dialect, and of all beside it."""
    dialect = beside = 0
    for path in (PACKAGE / "services" / service).rglob("*.py"):
        if path.name in BESIDE_A_DIALECT or path.parent.name == EXTENSIONS:
            beside += lines_of_code(path)
        else:
            dialect += lines_of_code(path)
    return dialect, beside


@pytest.mark.parametrize("service", ["slurm", "sge", "lsf"])
def test_a_dialect_is_small(service: str) -> None:
    dialect, beside = count_lines(service)
    assert 300 < dialect <= DIALECT_LINES, f"{service}: move what is no business of one batch system into the kit"
    assert beside <= EXTENSION_LINES


def test_only_slurm_has_extensions() -> None:
    folders = {path.parent.name for path in (PACKAGE / "services").glob(f"*/{EXTENSIONS}")}
    assert folders == {"slurm"}


def test_code_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        '"""Words."""\n\n# More.\nA = 1\n"""Of A."""\n\n\ndef f():\n    """F."""\n    return "#"\n', "utf-8"
    )
    assert lines_of_code(path) == 3
