"""What the pilot executor asks of the batch system, and what it tells of allocations that wait or are refused."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from longshore.contract.executor import Batch, PollResult, Rejected
from longshore.contract.service import RunPaths
from longshore.model.workflow import Request
from longshore.services.batch.pilots.allocations import AllocationNews, PilotSettings
from longshore.services.batch.pilots.executor import PilotExecutor
from longshore.system.processes import processes
from longshore.testing.conformance.executor import ExecutorDriver


class QueuedAllocations:
    """Allocations that wait in a queue for ever."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.pending: list[int] = []
        self.refused = ""
        self.cancelled: list[int] = []

    def open(self, run: RunPaths, life: int) -> None:
        """Do nothing: the state is in this object."""

    def request(self, count: int) -> None:
        """Queue allocations."""
        for _ in range(count):
            self.pending.append(len(self.pending) + 1)
            self.mailboxes(self.pending[-1])[0].mkdir(parents=True)

    def poll(self) -> AllocationNews:
        """Return what waits, and why."""
        waiting = {"Priority": tuple(self.pending)} if self.pending else {}
        gone = dict.fromkeys(self.cancelled, "cancelled")
        pending = [number for number in self.pending if number not in gone]
        return AllocationNews(pending=pending, gone=gone, waiting=waiting, refused=self.refused)

    def cancel(self, numbers: Collection[int]) -> None:
        """Take allocations out of the queue."""
        self.cancelled += numbers

    def mailboxes(self, number: int) -> Sequence[Path]:
        """Return the mailbox."""
        return [self.root / "mail" / f"{number:05}.0"]

    def close(self) -> None:
        """Do nothing."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(processes, "monotonic", lambda: now[0])
    return now


def test_allocations_are_asked_for_once_and_cancelled_without_work(tmp_path: Path, clock: list[float]) -> None:
    source = QueuedAllocations(tmp_path)
    executor = PilotExecutor(source, PilotSettings(cpus=1, count=3, idle_s=60.0))
    driver = ExecutorDriver(executor, RunPaths(tmp_path), 1, timeout_s=10.0)
    members = [driver.member("true") for _ in range(9)]
    driver.submit(*members)
    reasons = []
    for _ in range(5):
        answer = executor.poll("")
        assert isinstance(answer, PollResult)
        reasons += [answer.waiting] if answer.waiting else []
        clock[0] += 1.0
    assert source.pending == [1, 2, 3]
    assert reasons[-1].reasons == {"its pilot waits: Priority": tuple(member.job for member in members)}
    executor.cancel([(member.job, member.attempt) for member in members], grace_s=1.0)
    driver.poll()
    assert sorted(driver.never_started) == [(member.job, member.attempt) for member in members]
    assert source.cancelled == []
    clock[0] += 61.0
    driver.poll()
    assert source.cancelled == [1, 2, 3]


def test_a_refused_allocation_is_the_answer_to_the_next_submission(tmp_path: Path, clock: list[float]) -> None:
    source = QueuedAllocations(tmp_path)
    driver = ExecutorDriver(PilotExecutor(source, PilotSettings()), RunPaths(tmp_path), 1, timeout_s=10.0)
    member = driver.member("true")
    driver.submit(member)
    source.refused = "Invalid account"
    for _ in range(3):
        clock[0] += 1.0
        driver.poll()
    assert driver.never_started == [(member.job, member.attempt)]
    answer = driver.executor.submit(Batch(id="2", tag="t-1-2", request=Request(), members=(member,)))
    assert isinstance(answer, Rejected)
    assert answer.why == "no allocation for pilots: Invalid account"
