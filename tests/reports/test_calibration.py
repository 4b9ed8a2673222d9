"""The estimated time left holds the true end 8 times in 10, over recorded workflows that run in virtual time.

The parameters of the estimate were chosen with other numbers of slots; `tests.bench.time_left` prints these.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from tests.replayed_runs import INSTANCES, Estimate, ReplayedRun

SLOTS = (3, 6)
SHARES = tuple(number / 10 for number in range(1, 10))


@pytest.fixture(scope="module")
def estimates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Estimate]]:
    """Estimates of runs whose payload never ran before, and of runs that know an earlier one; both also summed."""
    folder: Path = tmp_path_factory.mktemp("runs")
    found: dict[str, list[Estimate]] = {"fresh": [], "again": [], "fresh summed": [], "again summed": []}
    for instance in INSTANCES:
        for slots in SLOTS:
            run = ReplayedRun(instance, slots, folder / f"{instance.stem}-{slots}")
            found["fresh"] += run.estimates(SHARES)
            found["again"] += run.estimates(SHARES, run.counted)
            found["fresh summed"] += run.estimates(SHARES, is_summed=True)
            found["again summed"] += run.estimates(SHARES, run.counted, is_summed=True)
    return found


def test_the_end_lies_in_the_range_8_times_in_10(estimates: dict[str, list[Estimate]]) -> None:
    made = [each for each in estimates["fresh"] if each.range_s is not None]
    assert len(made) > 0.9 * len(estimates["fresh"]), "an estimate needs one job that ended"
    assert sum(each.is_right for each in made) >= 0.8 * len(made)
    assert statistics.median(each.width for each in made) < 3.0


def test_the_history_of_a_payload_makes_the_range_narrow(estimates: dict[str, list[Estimate]]) -> None:
    again = estimates["again"]
    assert sum(each.is_right for each in again) >= 0.8 * len(again)
    assert statistics.median(each.width for each in again) < 0.6


def test_the_end_lies_in_the_summed_range_8_times_in_10(estimates: dict[str, list[Estimate]]) -> None:
    """Which runs with very many open jobs have; in these small ones, chains of jobs matter more than in those."""
    made = [each for each in estimates["fresh summed"] if each.range_s is not None]
    assert len(made) > 0.9 * len(estimates["fresh summed"])
    assert sum(each.is_right for each in made) >= 0.8 * len(made)
    assert statistics.median(each.width for each in made) < 3.0
    again = estimates["again summed"]
    assert sum(each.is_right for each in again) >= 0.8 * len(again)
    assert statistics.median(each.width for each in again) < 0.9
