"""Pilots under faults: killed at random, cut off from the file system, and behind one that shows files late."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest
from tests.depth import rounds
from tests.faults.mount import Mount
from tests.faults.shim import require_compiler
from tests.services.batch.pilots.late_files import show_late
from tests.services.batch.pilots.pilot_runs import SETTINGS, Killer, PilotRun, RetryingRun, marking, marks

from longshore.model.event import Ended
from longshore.services.batch.pilots.allocations import PilotSettings

LATE_S = 1.5
LATE_AND_SHORT_S = 0.3
"""Delay of a mount on whose pilots are killed all the time: they live several times as long."""


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[RunMaker]:
    maker = RunMaker(tmp_path)
    yield maker
    maker.end()


class RunMaker:
    """Makes a run whose pilots see their mailboxes through a mount."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.made: PilotRun | None = None

    def make(
        self, settings: PilotSettings = SETTINGS, *, late_s: float = 0.0, error: int = 0
    ) -> tuple[PilotRun, Mount]:
        """Return a run, and the mount of its pilots' hosts."""
        require_compiler()
        run = self.root / "run"
        run.mkdir()
        mount = Mount(run / "pilots" / "mail", self.root / "gate", late_s=late_s, error=error)
        self.made = PilotRun(run, settings)
        self.made.allocations.mount = mount
        return self.made, mount

    def end(self) -> None:
        """End what runs."""
        if self.made is not None:
            self.made.allocations.cancel(list(self.made.allocations.processes))


@pytest.mark.parametrize("seed", rounds(1, 2, 50))
def test_pilots_that_are_killed_at_random_lose_only_what_had_begun(runs: RunMaker, seed: int) -> None:
    pilot_run, _ = runs.make()
    jobs = RetryingRun(pilot_run.begin_life(), [0.05] * 150, budget=50)
    killer = Killer(pilot_run.allocations, seed, most=8, every_s=0.4)
    while not jobs.is_over:
        jobs.step()
        killer.strike(time.monotonic())
    assert killer.kills > 1
    jobs.check()


@pytest.mark.parametrize(
    ("number", "kills"),
    [
        pytest.param(2_000, 10, marks=pytest.mark.full),
        pytest.param(10_000, 50, marks=[pytest.mark.bulk, pytest.mark.timeout(900)]),
    ],
)
def test_many_jobs_while_many_pilots_are_killed(
    runs: RunMaker, monkeypatch: pytest.MonkeyPatch, number: int, kills: int
) -> None:
    # The records of a dead pilot are complete once the mount has shown them.
    settings = msgspec.structs.replace(SETTINGS, cpus=4, count=4, settle_s=4 * LATE_AND_SHORT_S)
    pilot_run, _ = runs.make(settings, late_s=LATE_AND_SHORT_S)
    show_late(monkeypatch, LATE_AND_SHORT_S)
    random = Random(50)
    # Some run long enough to be killed; the budget is that of an engine whose `retryOnLost` is 10.
    seconds = [0.4 if random.random() < 0.05 else 0.0 for _ in range(number)]
    jobs = RetryingRun(pilot_run.begin_life(), seconds, budget=10)
    killer = Killer(pilot_run.allocations, 50, most=kills, every_s=0.8)
    while not jobs.is_over:
        jobs.step()
        killer.strike(time.monotonic())
    assert jobs.check() > 0
    assert killer.kills == kills


@pytest.mark.parametrize("seconds", [2.0, 8.0], ids=["shorter than the lease", "longer"])
def test_a_mailbox_that_nobody_can_see_for_a_while_loses_nothing(runs: RunMaker, seconds: float) -> None:
    pilot_run, _ = runs.make()
    driver = pilot_run.begin_life()
    members = [marking(driver, 0.2) for _ in range(60)]
    driver.submit(*members)
    driver.poll_until(lambda: len(driver.ends) >= 5, "the first ends")
    mail = pilot_run.run.root / "pilots" / "mail"
    mail.rename(mail.with_name("gone"))
    back_at = time.monotonic() + seconds
    while time.monotonic() < back_at:
        driver.poll()
        driver.executor.wait(0.1)  # type: ignore[attr-defined]
    mail.with_name("gone").rename(mail)
    driver.poll_until(lambda: len(driver.ends) == len(members), "the end of all jobs")
    assert [marks(pilot_run.run, member) for member in members] == [1] * 60
    assert {type(end) for ends in driver.ends.values() for end in ends} == {Ended}


def go_through_partition(pilot_run: PilotRun, mount: Mount, seconds: float, *, jobs: int, run_s: float) -> RetryingRun:
    """Run jobs, and cut their hosts off from the mailboxes for some time while they run."""
    running = RetryingRun(pilot_run.begin_life(), [run_s] * jobs, budget=3)
    while len(running.driver.ends) < 5:
        running.step()
    with mount.hidden():
        back_at = time.monotonic() + seconds
        while time.monotonic() < back_at:
            running.step()
    while not running.is_over:
        running.step()
    return running


@pytest.mark.full
@pytest.mark.parametrize("error", [0, errno.EIO], ids=["hangs", "fails"])
def test_hosts_that_are_cut_off_for_longer_than_their_lease_lose_what_had_begun(runs: RunMaker, error: int) -> None:
    pilot_run, mount = runs.make(error=error)
    running = go_through_partition(pilot_run, mount, 8.0, jobs=60, run_s=0.3)
    # Their pilots ended what ran, and others took the rest.
    assert running.check() <= 2 * SETTINGS.cpus * SETTINGS.count
    assert len(pilot_run.allocations.processes) > SETTINGS.count


def test_hosts_that_are_cut_off_for_less_than_their_lease_lose_nothing(runs: RunMaker) -> None:
    pilot_run, mount = runs.make(msgspec.structs.replace(SETTINGS, lease_s=30.0))
    running = go_through_partition(pilot_run, mount, 3.0, jobs=120, run_s=0.1)
    assert running.check() == 0
    assert len(pilot_run.allocations.processes) == SETTINGS.count


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("lease_s", [120.0, 30.0], ids=["the usual lease", "the shortest lease"])
def test_hosts_that_are_cut_off_for_a_minute(runs: RunMaker, lease_s: float) -> None:
    pilot_run, mount = runs.make(msgspec.structs.replace(SETTINGS, lease_s=lease_s, margin_s=15.0))
    # Work for most of the minute, so that some runs and some waits when the lease is over.
    running = go_through_partition(pilot_run, mount, 60.0, jobs=160, run_s=1.0)
    lost = running.check()
    if lease_s > 60.0:
        assert lost == 0
        assert len(pilot_run.allocations.processes) == SETTINGS.count
    else:
        assert lost <= 2 * SETTINGS.cpus * SETTINGS.count
        assert len(pilot_run.allocations.processes) > SETTINGS.count


def test_files_that_are_seen_late_lose_nothing(runs: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    pilot_run, _ = runs.make(late_s=LATE_S)
    show_late(monkeypatch, LATE_S)
    first = pilot_run.begin_life()
    members = [marking(first) for _ in range(300)]
    tags = first.submit(*members)
    first.poll_until(lambda: len(first.ends) >= 50, "the first ends")
    # The next engine gives its orders in a file that is not seen at once.
    second = pilot_run.begin_life()
    taken = frozenset().union(*second.find(*tags).values())
    second.poll_until(lambda: taken <= second.ends.keys() | {*second.never_started}, "the end of all that was taken")
    for member in members:
        attempt = (member.job, member.attempt)
        assert marks(pilot_run.run, member) == (1 if attempt in second.ends else 0)
    assert len(second.ends) >= 50
