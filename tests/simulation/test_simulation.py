"""Whole runs under one seeded scheduler: whatever strikes, every promise is kept, and each history replays."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import pytest
from tests.depth import DEPTH
from tests.simulation.history import run_history
from tests.simulation.mutants import MUTANTS, replaced
from tests.simulation.plan import AttemptPlan, Fault, JobPlan, Order, Plan, World, make_plan
from tests.simulation.shrink import kinds_of, shrink
from tests.simulation.story import tell

# Measured, histories take several times as long.
pytestmark = pytest.mark.no_cover

_SHARE: Final = 50
_HISTORIES: Final = {"change": 150, "all": 500, "night": 2_000}[DEPTH]
_PILOT_SHARE: Final = 25
_PILOT_HISTORIES: Final = {"change": 25, "all": 50, "night": 150}[DEPTH]
_MUTANT_HISTORIES: Final = 600
"""Histories within which each mutant must be found."""


def failures(seeds: Sequence[int], world: World | None = None) -> list[str]:
    """Return the stories of failing histories, each made smaller."""
    outcomes = (run_history(make_plan(seed, world=world)) for seed in seeds)
    return [tell(shrink(outcome, tries=200)) for outcome in outcomes if outcome.broken]


@pytest.mark.parametrize("first", range(0, _HISTORIES, _SHARE))
def test_every_promise_is_kept(first: int) -> None:
    assert not (told := failures(range(first, first + _SHARE))), "\n\n".join(told)


@pytest.mark.parametrize("first", range(0, _PILOT_HISTORIES, _PILOT_SHARE))
def test_every_promise_is_kept_by_pilots(first: int) -> None:
    assert not (told := failures(range(first, first + _PILOT_SHARE), "pilots")), "\n\n".join(told)


@pytest.mark.bulk
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("first", range(2_000_000, 2_010_000, 250))
def test_every_promise_is_kept_by_pilots_in_ten_thousand_histories(first: int) -> None:
    assert not (told := failures(range(first, first + 250), "pilots")), "\n\n".join(told)


@pytest.mark.bulk
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("first", range(1_000_000, 1_100_000, 1_000))
def test_every_promise_is_kept_in_a_hundred_thousand_histories(first: int) -> None:
    assert not (told := failures(range(first, first + 1_000))), "\n\n".join(told)


@pytest.mark.parametrize("world", [None, "pilots"], ids=["single jobs", "pilots"])
@pytest.mark.parametrize("seed", range(3, 30, 3))
def test_a_history_replays_exactly(seed: int, world: World | None) -> None:
    plan = make_plan(seed, world=world)
    first, second = run_history(plan), run_history(plan)
    assert first.broken == second.broken
    assert first.trace == second.trace


def test_a_plan_survives_being_written_down() -> None:
    plan = make_plan(17)
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_broken_promise_is_found(name: str) -> None:
    mutant = MUTANTS[name]
    with replaced(*mutant.change):
        found = any(
            run_history(make_plan(seed, world=mutant.world)).broken
            for seed in range(mutant.first, mutant.first + _MUTANT_HISTORIES)
        )
    assert found


def test_a_failing_history_is_made_smaller() -> None:
    plan = Plan(
        seed=1,
        jobs=(JobPlan(), JobPlan(parents=(0,)), JobPlan(attempts=(AttemptPlan(exit=1), AttemptPlan()))),
        faults=(Fault(kind="stop", after=5, seconds=0.3), Fault(kind="kill", after=9, at="engine")),
        orders=(Order(at_s=0.5, act="pause"),),
    )
    with replaced(*MUTANTS["the journal is not synced"].change):
        outcome = run_history(plan)
        small = shrink(outcome)
    assert kinds_of(small) & kinds_of(outcome)
    assert (len(small.plan.jobs), small.plan.faults, small.plan.orders) == (1, (), ())
    assert "started before its intent was durable" in tell(small)


class Found(msgspec.Struct):
    """A history that broke a promise once."""

    name: str
    plan: Plan


FOUND: Final = msgspec.json.Decoder(Found).decode_lines(Path(__file__).with_name("found.jsonl").read_bytes())


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.name)
def test_a_promise_that_was_broken_is_kept(found: Found) -> None:
    assert not (outcome := run_history(found.plan)).broken, tell(outcome)


def test_the_command_shares_histories_among_processes() -> None:
    words = [sys.executable, "-m", "tests.simulation", "--histories", "3", "--workers", "2"]
    done = subprocess.run(words, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("0 of 3 histories break a promise\n")


def test_a_loss_of_power_at_any_call_breaks_no_promise() -> None:
    plan = next(each.plan for each in FOUND if each.name == "records of the keeper are lost with the machine")
    for after in range(0, 200, 9):
        fault = msgspec.structs.replace(plan.faults[0], after=after)
        outcome = run_history(msgspec.structs.replace(plan, faults=(fault,)))
        assert not outcome.broken, tell(outcome)
