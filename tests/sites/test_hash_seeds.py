"""Matching and the algorithm ``constraint`` give the same results in processes with different seeds of hashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from importlib.util import module_from_spec, spec_from_file_location

def load(path):
    spec = spec_from_file_location("cases", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

matching, constraint = map(load, sys.argv[1:])
wrong = 0
for _ in range(20):
    wrong += sum(matching.matches(name) is not case[3] for name, case in matching.CASES.items())
    wrong += sum(constraint.select(steps).site != site for steps, site in constraint.WORKED)
print(wrong)
"""
MODULES = ("test_document_cases.py", "test_constraint.py")


@pytest.mark.full
@pytest.mark.parametrize("seed", range(5))
def test_a_hundred_repetitions_show_no_difference(seed: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *(Path(__file__).parent / name for name in MODULES)],
        env={**os.environ, "PYTHONHASHSEED": str(seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "0"
