"""Pilots in allocations of real schedulers: many short jobs, jobs of their own beside them, and deaths in between."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.live.pools import SlurmPool
from tests.live.run_folder import make_run_folder
from tests.live.sge_pools import PROGRAMS, SgePool

from longshore.contract.executor import Accepted, Batch, BatchMember
from longshore.contract.service import RunPaths, Unreachable, WmsService
from longshore.model.event import Ended, Lost
from longshore.model.workflow import MIB, Request
from longshore.services.batch.client import BatchClient
from longshore.services.batch.dialect import Dialect
from longshore.services.batch.pilots.allocations import PilotSettings
from longshore.services.batch.pilots.setup import make_combined_executor
from longshore.services.batch.records import BatchRecords
from longshore.services.sge.dialect import SgeDialect
from longshore.services.sge.service import SgeService
from longshore.services.slurm.dialect import SlurmDialect
from longshore.services.slurm.service import SlurmService
from longshore.testing.conformance.executor import ExecutorDriver

pytestmark = pytest.mark.live

PILOT = PilotSettings(cpus=2, memory_b=512 * MIB, walltime_s=600.0, count=2, idle_s=20.0, lease_s=30.0)
PACKED = {"packing": "pilot"}
SMALL = Request(cpus=1, memory_b=16 * MIB)


class _Run:
    """A run on a cluster, with pilots."""

    def __init__(self, folder: Path, service: type[WmsService], dialect: type[Dialect], own: Mapping[str, Any]) -> None:
        self.paths, self.dialect, self.own = make_run_folder(folder, service, dialect.name), dialect, own

    def driver(self, life: int = 1) -> ExecutorDriver:
        """Return an open executor."""
        name = self.dialect.name
        executor = make_combined_executor({name: self.own}, lambda own: BatchClient(self.dialect(own[name])), PILOT, {})
        return ExecutorDriver(executor, self.paths, life, timeout_s=120.0)


@pytest.fixture
def slurm_run(tmp_path: Path, slurm_without_accounting: SlurmPool, monkeypatch: pytest.MonkeyPatch) -> _Run:
    monkeypatch.setenv("SLURM_CONF", str(slurm_without_accounting.conf))
    own = {"config": str(slurm_without_accounting.conf), "pollInterval": 0.5}
    return _Run(tmp_path, SlurmService, SlurmDialect, own)


@pytest.fixture
def sge_run(tmp_path: Path, sge_pool: SgePool) -> _Run:
    own = {"bin": str(PROGRAMS), "root": str(sge_pool.root), "pollInterval": 0.5, "parallelEnvironment": "smp"}
    return _Run(tmp_path, SgeService, SgeDialect, own)


def submit(driver: ExecutorDriver, members: list[BatchMember], number: int, request: Request = SMALL) -> None:
    """Submit members that want pilots."""
    tag = f"k1-1-{number}"
    batch = Batch(id=tag, tag=tag, request=request, members=tuple(members), attributes=PACKED)
    assert isinstance(driver.executor.submit(batch), Accepted)


def ends_of(driver: ExecutorDriver, members: list[BatchMember]) -> list[Ended | Lost]:
    """Wait for the ends of members, and return the one of each."""
    wanted = [(member.job, member.attempt) for member in members]
    driver.poll_until(lambda: set(wanted) <= driver.ends.keys(), f"the ends of {len(wanted)} jobs")
    assert all(len(driver.ends[attempt]) == 1 for attempt in wanted), "an end is reported twice"
    return [driver.ends[attempt][0] for attempt in wanted]


def run_many(run: _Run) -> None:
    """Run three hundred short jobs in pilots, and one job of its own."""
    driver = run.driver()
    note = run.paths.root / "notes"
    members = [driver.member(f"echo {number} >> '{note}'; exit {number % 3}") for number in range(300)]
    submit(driver, members, 1)
    large = driver.member("exit 7")
    submit(driver, [large], 2, Request(cpus=1, memory_b=600 * MIB))
    exits = [end.exit for end in ends_of(driver, members) if isinstance(end, Ended)]
    assert exits == [number % 3 for number in range(300)]
    assert sorted(map(int, note.read_text("utf-8").split())) == list(range(300))
    (alone,) = ends_of(driver, [large])
    assert isinstance(alone, Ended)
    assert alone.exit == 7
    driver.executor.close()


def test_many_short_jobs_on_slurm(slurm_run: _Run) -> None:
    run_many(slurm_run)


def test_many_short_jobs_on_grid_engine(sge_run: _Run) -> None:
    run_many(sge_run)


def test_a_pilot_that_is_cancelled_by_hand(slurm_run: _Run) -> None:
    driver = slurm_run.driver()
    note = slurm_run.paths.root / "notes"
    members = [driver.member(f"echo {number} >> '{note}'; sleep 0.5") for number in range(30)]
    attempts = {(member.job, member.attempt) for member in members}
    submit(driver, members, 1)
    driver.poll_until(lambda: len(driver.ends) >= 4, "the first ends")
    (record, *_) = BatchRecords(RunPaths(slurm_run.paths.pilots)).all()
    subprocess.run(["scancel", str(record.id)], check=True, timeout=60)
    driver.poll_until(lambda: attempts <= driver.ends.keys() | set(driver.never_started), "the end of all jobs")
    lost = [attempt for attempt in attempts if not _is_success(driver, attempt) and attempt in driver.ends]
    # Those that ran, and those that took their places before the pilots were told; and none ran twice.
    assert len(lost) <= 2 * PILOT.cpus * PILOT.count
    began = note.read_text("utf-8").split()
    assert len(began) == len(set(began))
    driver.executor.close()


def test_another_life_of_the_engine_takes_the_pilots_over(slurm_run: _Run) -> None:
    first = slurm_run.driver()
    note = slurm_run.paths.root / "notes"
    members = [first.member(f"echo {number} >> '{note}'; sleep 0.3") for number in range(40)]
    attempts = {(member.job, member.attempt) for member in members}
    submit(first, members, 1)
    first.poll_until(lambda: len(first.ends) >= 4, "the first ends")
    # An engine that is killed closes nothing.
    second = slurm_run.driver(life=2)
    second.poll_until(lambda: bool(_found(second)), "what the pilots took")
    taken = _found(second)
    left = attempts - taken
    second.poll_until(
        lambda: taken <= second.ends.keys() | first.ends.keys() | set(second.never_started), "the end of all jobs"
    )
    ended = second.ends.keys() | first.ends.keys()
    began = {int(word) for word in note.read_text("utf-8").split()}
    assert len(note.read_text("utf-8").split()) == len(began)
    assert left.isdisjoint(ended)
    assert all(_is_success(second, attempt) for attempt in second.ends)
    second.executor.close()


def _found(driver: ExecutorDriver) -> frozenset[tuple[int, int]]:
    """Members of the first batch that pilots have or had; empty while that is not known."""
    found = driver.executor.find(["k1-1-1"])
    return frozenset() if isinstance(found, Unreachable) else found.taken.get("k1-1-1", frozenset())


def _is_success(driver: ExecutorDriver, attempt: tuple[int, int]) -> bool:
    return [end.cause for end in driver.ends.get(attempt, ()) if isinstance(end, Ended)] == [None]
