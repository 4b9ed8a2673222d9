"""Allocations for pilots on real schedulers: they begin, end, are cancelled, and survive another life of the engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.live.pools import SlurmPool
from tests.live.run_folder import make_run_folder
from tests.live.runs import until
from tests.live.sge_pools import PROGRAMS, SgePool

from longshore.contract.service import WmsService
from longshore.model.workflow import MIB
from longshore.services.batch.client import BatchClient
from longshore.services.batch.dialect import Dialect
from longshore.services.batch.pilots.allocations import AllocationNews, BatchAllocations, PilotSettings
from longshore.services.batch.pilots.pilot_link import CheckedReader, CheckedWriter
from longshore.services.batch.pilots.setup import make_allocations
from longshore.services.sge.dialect import SgeDialect
from longshore.services.sge.service import SgeService
from longshore.services.slurm.dialect import SlurmDialect
from longshore.services.slurm.service import SlurmService

pytestmark = pytest.mark.live

PILOT = PilotSettings(cpus=1, memory_b=64 * MIB, walltime_s=600.0, idle_s=500.0)


class _Run:
    """A run with allocations on a cluster."""

    def __init__(self, folder: Path, service: type[WmsService], dialect: type[Dialect], own: Mapping[str, Any]) -> None:
        self.paths, self.dialect, self.own = make_run_folder(folder, service, dialect.name), dialect, own
        self.gone: dict[int, str] = {}

    def open(self, life: int, pilot: PilotSettings = PILOT) -> BatchAllocations:
        name = self.dialect.name
        source = make_allocations({name: self.own}, lambda own: BatchClient(self.dialect(own[name])), pilot, {})
        source.open(self.paths, life)
        return source

    def is_gone(self, source: BatchAllocations, *numbers: int) -> bool:
        """Whether allocations are gone by the newest answer."""
        self.news(source)
        return self.gone.keys() >= set(numbers)

    def news(self, source: BatchAllocations) -> AllocationNews:
        """Return the newest answer; nothing while there is none."""
        answer = source.poll()
        if not isinstance(answer, AllocationNews):
            return AllocationNews()
        self.gone |= answer.gone
        return answer


def first_record(mailbox: Path) -> dict[str, Any]:
    """Wait for the first record of a pilot, and return it."""
    reader = CheckedReader(mailbox / "records")

    def lines() -> bytes:
        try:
            return reader.read()
        except OSError:
            return b""

    record: dict[str, Any] = json.loads(until(lines, f"a pilot in '{mailbox}'").splitlines()[0])
    return record


def end_pilot(run: _Run, mailbox: Path) -> None:
    """Order a pilot to end."""
    writer = CheckedWriter(mailbox / "orders.1", below=run.paths.root)
    writer.add(b'{"o":"end"}')
    writer.flush()


@pytest.fixture
def slurm_run(tmp_path: Path, slurm_pool: SlurmPool) -> _Run:
    return _Run(tmp_path, SlurmService, SlurmDialect, {"config": str(slurm_pool.conf), "pollInterval": 0.5})


@pytest.fixture
def sge_run(tmp_path: Path, sge_pool: SgePool) -> _Run:
    own = {"bin": str(PROGRAMS), "root": str(sge_pool.root), "mem_resource": "h_vmem", "pollInterval": 0.5}
    return _Run(tmp_path, SgeService, SgeDialect, own)


def test_allocations_of_slurm(slurm_run: _Run) -> None:
    follow_allocations(slurm_run)


def test_allocations_of_grid_engine(sge_run: _Run) -> None:
    follow_allocations(sge_run)


def follow_allocations(run: _Run) -> None:
    """Follow three allocations: one ends, one is cancelled, and one lives on in another life."""
    first = run.open(1)
    first.request(3)
    until(lambda: run.news(first).running == [1, 2, 3], "the start of three allocations")
    for number in (1, 2, 3):
        (mailbox,) = first.mailboxes(number)
        record = first_record(mailbox)
        assert [record[key] for key in ("r", "node", "cpus", "memory")] == ["pilot", 0, 1, 64 * MIB]
        assert 500 < record["until"] <= 570
    end_pilot(run, first.mailboxes(1)[0])
    until(lambda: run.is_gone(first, 1), "the end of an allocation")
    assert run.gone == {1: "the pilot ended"}
    first.close()
    second = run.open(2)
    until(lambda: run.news(second).running == [2, 3], "two allocations of the life before")
    assert list(run.gone) == [1]
    second.cancel([2])
    until(lambda: run.is_gone(second, 2), "the end of a cancelled allocation")
    second.request(1)
    until(lambda: run.news(second).running == [3, 4], "a new allocation")
    second.cancel([3, 4])
    until(lambda: run.is_gone(second, 3, 4), "the end of all allocations")


def test_an_allocation_of_several_nodes(slurm_run: _Run) -> None:
    source = slurm_run.open(1, PilotSettings(cpus=1, memory_b=64 * MIB, walltime_s=600.0, idle_s=500.0, nodes=2))
    source.request(1)
    source.poll()
    mailboxes = source.mailboxes(1)
    until(lambda: slurm_run.news(source).running == [1], "the start of an allocation")
    assert [first_record(box)["node"] for box in mailboxes] == [0, 1]
    for box in mailboxes:
        end_pilot(slurm_run, box)
    until(lambda: slurm_run.is_gone(source, 1), "the end of both")
    assert slurm_run.gone == {1: "the pilot ended"}
