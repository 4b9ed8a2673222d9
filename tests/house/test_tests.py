"""Test modules stand alone: what several of them use is in modules of helpers."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
MODULES = sorted(TESTS.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(TESTS).as_posix()


def test_no_module_imports_a_test_module() -> None:
    # By text: to parse all tests takes seconds.
    imports = [
        (name_of(path), line)
        for path in MODULES
        for line in re.findall(r"^ *(?:from|import) tests\b.*", path.read_text("utf-8"), re.MULTILINE)
        if re.search(r"[ .,]test_", line)
    ]
    assert imports == []


def test_no_test_is_named_after_a_row_of_a_table() -> None:
    named = [
        (name_of(path), name)
        for path in MODULES
        for name in re.findall(r"^ *def (test_row_\w+)", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert named == []
