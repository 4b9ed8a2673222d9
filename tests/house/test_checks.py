"""Style, types and imports: ruff, mypy and import-linter pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(1200)
@pytest.mark.flaky(reruns=0)
@pytest.mark.parametrize("command", ["mypy", "lint-imports --no-logo", "ruff check", "ruff format --check"])
def test_check(command: str, pytestconfig: pytest.Config) -> None:
    name, *options = command.split()
    if name == "lint-imports":
        assert pytestconfig.cache is not None
        options.append(f"--cache-dir={pytestconfig.cache.mkdir('import-linter')}")
    done = subprocess.run(
        [Path(sys.executable).with_name(name), *options],
        cwd=ROOT,
        # Coverage is of the package, not of those who look at it.
        env={variable: value for variable, value in os.environ.items() if not variable.startswith("COV")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
