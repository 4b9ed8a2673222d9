"""A bounded share of the fuzz: a few hundred cases of each kind, always the same; `python -m tests.fuzz` runs more."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fuzz.cases import KINDS, make_case
from tests.fuzz.session import make_runs, run_cases

CASES = 150


@pytest.mark.parametrize("kind", KINDS)
def test_no_case_ends_in_a_traceback_or_takes_too_much(tmp_path: Path, kind: str) -> None:
    runs = make_runs(tmp_path / "made") if kind == "journal" else None
    found = list(run_cases(kind, 1, 0, CASES, tmp_path / "work", runs))
    assert not [f"case {case.number}: {case.finding.signature}\n{case.finding.text}" for case in found]


@pytest.mark.parametrize("kind", ["config", "pipeline", "wfformat", "graph"])
def test_a_seed_and_a_number_give_the_same_files(kind: str) -> None:
    assert make_case(kind, 3, 5) == make_case(kind, 3, 5)
    assert len({tuple(make_case(kind, 3, number).values()) for number in range(20)}) > 15
