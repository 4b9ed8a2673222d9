"""A bounded share of the fuzz: some cases of each kind, always the same; `python -m tests.fuzz` runs more."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.depth import DEPTH
from tests.fuzz.kinds import KINDS, make_case
from tests.fuzz.run_directories import make_runs
from tests.fuzz.session import CaseCounts, run_cases

CASES = {"change": 20, "all": 60, "night": 600}[DEPTH]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run directories that cases change."""
    return make_runs(tmp_path_factory.mktemp("made"))


@pytest.mark.parametrize("kind", KINDS)
def test_no_case_ends_in_a_traceback_or_takes_too_much(tmp_path: Path, runs: Path, kind: str) -> None:
    counts = CaseCounts()
    found = list(run_cases(kind, 1, range(CASES), tmp_path / "work", runs, counts))
    assert not [f"case {case.number}: {case.finding.signature}\n{case.finding.text}" for case in found]
    assert counts.run == CASES
    assert counts.read > CASES / 4, f"many cases must get past the parser: {counts}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_and_a_number_give_the_same_files(runs: Path, kind: str) -> None:
    assert make_case(kind, 3, 5, runs) == make_case(kind, 3, 5, runs)
    assert len({tuple(make_case(kind, 3, number, runs).values()) for number in range(20)}) > 15
