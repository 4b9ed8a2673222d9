"""The engine while files cannot be read or written: a full disk, and credentials that expired."""

from __future__ import annotations

import resource
from collections import Counter
from pathlib import Path

import pytest
from tests.engine.simulation import Hooked, Simulation

from longshore.model.event import Finished, Steer
from longshore.model.states import JobState
from longshore.rundir.interventions import InterventionRecord, read_interventions, write_intervention
from longshore.rundir.journal import lives
from longshore.testing.fakes import (
    AttemptOutcome,
)


class FullDisk:
    """No file grows beyond what the journal has, from one wait to another."""

    def __init__(self, sim: Simulation, begin: int, end: int) -> None:
        self._world = sim
        self._begin, self._end = begin, end
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def __call__(self, number: int) -> None:
        if number == self._begin:
            size = lives(self._world.run.journal)[-1][1].stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, self._limits[1]))
        if number == self._end:
            self.end()

    def end(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)


@pytest.mark.parametrize("begin", range(1, 15))
def test_a_full_disk_is_waited_out(tmp_path: Path, begin: int) -> None:
    """Whichever events meet it, the last one included."""
    sim = Simulation(tmp_path, outcome=lambda job, _attempt: AttemptOutcome(run_s=0.7, exit=int(job == 2)))
    disk = FullDisk(sim, begin, begin + 12)
    try:
        assert sim.engine(executor=Hooked(sim, disk)).run() is JobState.FAILED
    finally:
        disk.end()
    sim.check()
    assert list(sim.state().attempts) == [1, 1, 1]
    assert Counter(type(event) for event in sim.events())[Finished] == 1
    assert not [word for word in sim.said if not word.startswith("the journal cannot be written: ")]


def test_an_order_on_a_full_disk_is_taken_once(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=lambda _job, _attempt: AttemptOutcome(run_s=100.0))
    disk = FullDisk(sim, 3, 30)

    def hook(number: int) -> None:
        if number == 3:
            write_intervention(sim.run, InterventionRecord(who="me", act="cancel"))
        disk(number)

    try:
        assert sim.engine(executor=Hooked(sim, hook)).run() is JobState.DELETED
    finally:
        disk.end()
    sim.check()
    assert len(sim.of(Steer)) == 1
    assert read_interventions(sim.run) == []


class Locked:
    """Takes all rights to a folder away, from one wait to another: expired credentials."""

    def __init__(self, folder: Path, begin: int, end: int) -> None:
        self._folder, self._begin, self._end = folder, begin, end

    def __call__(self, number: int) -> None:
        if number in {self._begin, self._end}:
            self._folder.chmod(0 if number == self._begin else 0o755)


@pytest.mark.parametrize("begin", range(1, 12))
@pytest.mark.parametrize("what", ["", "journal", "steer"])
def test_expired_credentials_are_waited_out(unprivileged: Path, begin: int, what: str) -> None:
    sim = Simulation(unprivileged, outcome=lambda job, _attempt: AttemptOutcome(run_s=0.7, exit=int(job == 2)))
    sim.run.steer.mkdir()
    locked = Locked(sim.run.root / what, begin, begin + 12)
    try:
        assert sim.engine(executor=Hooked(sim, locked)).run() is JobState.FAILED
    finally:
        (sim.run.root / what).chmod(0o755)
    sim.check()
    assert list(sim.state().attempts) == [1, 1, 1]
    if what != "steer":
        assert any("Permission denied" in word for word in sim.said)


def test_nothing_starts_while_it_cannot_be_told_who_the_newest_is(unprivileged: Path) -> None:
    sim = Simulation(unprivileged)
    seen: list[int] = []

    def look(number: int) -> None:
        if number == 1:
            sim.run.journal.chmod(0)
        if number == 40:
            seen.append(len(sim.asked("submit")))
            sim.run.journal.chmod(0o755)

    assert sim.engine(executor=Hooked(sim, look)).run() is JobState.SUCCEEDED
    sim.check()
    assert seen == [1]
