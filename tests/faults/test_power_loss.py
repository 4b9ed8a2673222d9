"""After a power failure at any moment, a run reads as it was, and is resumed to its end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tests.faults.places import in_memory
from tests.faults.power_loss import Case, cases, on_disk, read_case, resume_case
from tests.faults.scenarios import SCENARIOS, record

pytestmark = [pytest.mark.usefixtures("compiler"), pytest.mark.no_cover]

SOME, MANY, VERY_MANY = (9, 0, 1), (3, 1, 3), (1, 60, 150)
"""Calls between two looks, random states for each, and states of each scenario that are really resumed."""
QUICK = ("engine-killed", "sync-failed")
CASES = [
    *(pytest.param(name, SOME, id=f"{name}-some") for name in QUICK),
    *(pytest.param(name, MANY, id=f"{name}-many", marks=pytest.mark.full) for name in SCENARIOS),
    *(pytest.param(name, VERY_MANY, id=f"{name}-very-many", marks=pytest.mark.bulk) for name in SCENARIOS),
]


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder on a disk that need not be waited for."""
    folder = in_memory()
    yield folder
    shutil.rmtree(folder)


def choose_resumed(found: list[Case], number: int) -> list[Case]:
    """Choose among the states that have a run, evenly."""
    with_run = [case for case in found if any(name.startswith("work/run/") for name in case.state)]
    return Random(1).sample(with_run, min(number, len(with_run)))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("scenario", "depth"), CASES)
def test_each_legal_state_reads_truly_and_is_resumed(memory: Path, scenario: str, depth: tuple[int, int, int]) -> None:
    every, rounds, resumed = depth
    wrong: dict[str, list[str]] = {}
    found = []
    for case in cases(record(scenario, memory / "recorded"), every=every, rounds=rounds):
        with on_disk(case, memory) as run:
            _, problems = read_case(case, run)
        if problems:
            wrong[str(case)] = problems
        if case.number < 4:
            found.append(case)
    assert wrong == {}
    for case in choose_resumed(found, resumed):
        with on_disk(case, memory) as run:
            if problems := resume_case(case, run, read_case(case, run)[0]):
                wrong[str(case)] = problems
    assert wrong == {}
