"""Several engines and one machine: what all their jobs take together never comes to more than there is."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from longshore.engine.schedule.resource_pool import Identities, Pool
from longshore.engine.share.pool_share import Demand, PoolShare, machine_resources
from longshore.model.run.claim import ResourceClaim
from longshore.testing.fakes import FakeClock
from longshore.world.runs.claims import claims_folder

GPUS = ("0", "1", "2")


class Run:
    """A run that starts jobs of one processor, some with a GPU, whenever its share allows."""

    def __init__(self, name: str, clock: FakeClock, tmp_path: Path, *, left: int, cpus: int = 6) -> None:
        self.said: list[str] = []
        self.pool = Pool({"cpus": cpus}, {"gpus": GPUS})
        self.left = left
        self.jobs: list[tuple[dict[str, int], Identities]] = []
        self.clock = clock
        self.share = PoolShare(
            ResourceClaim(run=name, keeper=str(tmp_path / name)),
            self.pool,
            machine_resources(),
            clock=clock,
            log_line=self.said.append,
        )

    def demand(self) -> Demand:
        wants = {name: min(most, amount + self.left) for (name, amount), most in self._amounts()}
        return Demand(wants=wants, next={"cpus": 1} if self.left else {}, rest_s=float(self.left))

    def _amounts(self) -> list[tuple[tuple[str, int], int]]:
        return [((name, amount), self.pool.capacity[name]) for name, amount in self.pool.amounts_in_use.items()]

    def turn(self, gpus: int = 0) -> None:
        self.share.negotiate(self.demand)
        asked = {"cpus": 1, "gpus": gpus}
        while self.left and self.pool.fits(asked):
            self.jobs.append((asked, self.pool.take(asked)))
            self.left -= 1
        self.share.claim_starts()

    def end(self, dice: Random) -> None:
        if self.jobs:
            self.pool.give(*self.jobs.pop(dice.randrange(len(self.jobs))))


def used(runs: list[Run]) -> tuple[int, list[str]]:
    cpus = sum(amounts["cpus"] for run in runs for amounts, _ in run.jobs)
    return cpus, [each for run in runs for _, given in run.jobs for each in given.get("gpus", ())]


def test_alone_a_run_has_the_machine_at_once(tmp_path: Path) -> None:
    run = Run("a", FakeClock(), tmp_path, left=9)
    run.turn()
    assert used([run])[0] == 6
    assert run.said == []


@pytest.mark.parametrize("seed", range(10))
def test_together_they_never_have_more_than_there_is_and_all_finish(seed: int, tmp_path: Path) -> None:
    dice, clock = Random(seed), FakeClock()
    runs: list[Run] = []
    for _ in range(2000):
        if len(runs) < 4 and dice.random() < 0.05:
            runs.append(Run(f"run{len(runs)}", clock, tmp_path, left=dice.randint(1, 40)))
        for run in dice.sample(runs, len(runs)):
            run.turn(dice.randint(0, 1))
            cpus, gpus = used(runs)
            assert cpus <= 6
            assert len(gpus) == len(set(gpus))
            if dice.random() < 0.4:
                run.end(dice)
            if not run.left and not run.jobs:
                run.share.release()
        clock.advance(dice.choice([0.1, 0.3, 1.1]))
        if len(runs) == 4 and not any(run.left or run.jobs for run in runs):
            break
    else:
        pytest.fail("a run starves")
    assert len(runs) == 4


def test_the_other_gets_all_when_one_ends(tmp_path: Path) -> None:
    clock = FakeClock()
    first, second = Run("a", clock, tmp_path, left=99), Run("b", clock, tmp_path, left=9)
    first.turn()
    second.turn()
    assert (len(first.jobs), len(second.jobs)) == (6, 0)
    assert second.share.is_idle
    for _ in range(6):
        first.end(Random(1))
        clock.advance(1.1)
        first.turn()
        second.turn()
    assert (len(first.jobs), len(second.jobs)) == (1, 5), "the second ends first, and the first has a job's worth"
    assert first.said == ["this machine is shared with 1 other run"]
    while second.left or second.jobs:
        second.end(Random(1))
        clock.advance(1.1)
        second.turn()
    second.share.release()
    clock.advance(1.1)
    first.turn()
    assert len(first.jobs) == 6
    assert first.said[-1] == "this machine is no longer shared"


def test_what_jobs_leave_between_two_turns_is_not_taken_again(tmp_path: Path) -> None:
    clock = FakeClock()
    first, second = Run("a", clock, tmp_path, left=99), Run("b", clock, tmp_path, left=99)
    first.turn()
    second.turn()
    for _ in range(3):
        # When they look at each other, all processors are busy; those jobs end only after that.
        clock.advance(1.1)
        first.turn()
        second.turn()
        for run in (first, second):
            for _ in range(len(run.jobs)):
                run.end(Random(1))
            run.turn()
    assert (len(first.jobs), len(second.jobs)) == (5, 1), "the one that ends later has a job's worth"


def test_jobs_of_an_engine_that_was_killed_keep_what_they_hold(tmp_path: Path) -> None:
    import fcntl

    clock = FakeClock()
    dead = Run("dead", clock, tmp_path, left=4)
    dead.turn(gpus=0)
    keeper = tmp_path / "dead"
    keeper.mkdir()
    records = os.open(keeper / "0001.1.jsonl", os.O_RDWR | os.O_CREAT)
    fcntl.flock(records, fcntl.LOCK_EX)
    assert dead.share._file
    os.close(dead.share._file._lock.file)
    other = Run("other", clock, tmp_path, left=9)
    other.turn()
    assert len(other.jobs) == 2
    os.close(records)
    clock.advance(1.1)
    other.turn()
    assert len(other.jobs) == 6


def test_shares_are_worked_out_once_a_second(tmp_path: Path) -> None:
    clock = FakeClock()
    run = Run("a", clock, tmp_path, left=1)
    asked: list[float] = []

    def demand() -> Demand:
        asked.append(clock.elapsed())
        return run.demand()

    for _ in range(50):
        run.share.negotiate(demand)
        clock.advance(0.1)
    assert len(asked) == 5


def test_without_a_place_for_claims_a_run_takes_the_machine(tmp_path: Path, own_environment: Path) -> None:
    folder = claims_folder()
    folder.parent.parent.mkdir(parents=True)
    folder.parent.write_text("no folder", "utf-8")
    run = Run("a", FakeClock(), tmp_path, left=9)
    run.turn()
    assert len(run.jobs) == 6
    (words,) = run.said
    assert words.startswith("this machine is not shared with other runs: '")
