"""Conformance of the capabilities of executors, a class for each; see `longshore.contract.executor`."""

# ruff: noqa: D102 - the name of a test says what it checks

from __future__ import annotations

import os
import time
from shlex import quote
from typing import ClassVar

from msgspec import structs

from longshore.contract.batch import Urgency
from longshore.contract.context import RunPaths
from longshore.contract.executor import (
    BatchSizing,
    EndRetention,
    HostBound,
    JobPacking,
    LateFactSource,
    NewsWait,
    ProcessCleanup,
    Reprioritisable,
    ResourceProbe,
    SubmitWindow,
    UnitHolder,
)
from longshore.engine.keeper.units import UnitFile
from longshore.model.workflow.request import Request
from longshore.testing.conformance.executor import ExecutorTestCase, MakeExecutor
from longshore.testing.conformance.executor_driver import assert_no_heartbeat, heartbeat_line
from longshore.world.files.system import files


class ResourceProbeConformance(ExecutorTestCase):
    """Executors that know what resources there are."""

    capability: ClassVar[type] = ResourceProbe
    probe_timeout_s: ClassVar[float] = 10.0

    def test_a_probe_answers_soon(self, make_executor: MakeExecutor) -> None:
        executor = make_executor()
        assert isinstance(executor, ResourceProbe)
        begin = time.monotonic()
        report = executor.probe()
        assert time.monotonic() < begin + self.probe_timeout_s
        assert report.ok, report.message
        assert report.service
        assert "\n" not in report.message.strip()
        assert all(amount >= 0 for amount in (report.capacity or {}).values())


class NewsWaitConformance(ExecutorTestCase):
    """Executors that notice news by themselves."""

    capability: ClassVar[type] = NewsWait

    def test_news_ends_the_wait(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            assert isinstance(driver.executor, NewsWait)
            member = driver.member("sleep 0.3")
            driver.submit(member)
            begin = time.monotonic()
            while (member.job, member.attempt) not in driver.ends:
                driver.executor.wait(self.timeout_s)
                driver.poll()
                assert time.monotonic() < begin + self.timeout_s, "the end of a job did not end the wait"

    def test_a_wait_without_news_ends_in_time(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            assert isinstance(driver.executor, NewsWait)
            member = driver.member("sleep 600")
            driver.submit(member)
            driver.poll()
            begin = time.monotonic()
            for _ in range(5):
                driver.executor.wait(0.05)
            assert time.monotonic() < begin + self.timeout_s, "the wait did not end in time"
            driver.executor.cancel([(member.job, member.attempt)], grace_s=0.0)
            attempt = (member.job, member.attempt)
            # An executor with a queue of its own may not have started it yet.
            driver.poll_until(lambda: attempt in driver.ends or attempt in driver.never_started, "its end")


class SubmitWindowConformance(ExecutorTestCase):
    """Executors that take only so many batches at a time."""

    capability: ClassVar[type] = SubmitWindow

    def test_the_window_opens_again(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            executor = driver.executor
            assert isinstance(executor, SubmitWindow)

            def has_room() -> bool:
                free = executor.free_submissions()
                return free is None or free > 0

            assert has_room(), "a new executor takes no batch"
            driver.run_members(*[driver.member("true") for _ in range(3)])
            driver.poll_until(has_room, "room for another batch")


class BatchSizingConformance(ExecutorTestCase):
    """Executors that take batches of some jobs only up to a smaller size."""

    capability: ClassVar[type] = BatchSizing

    def test_the_size_is_within_the_limit(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            assert isinstance(driver.executor, BatchSizing)
            assert 1 <= driver.executor.max_batch_for({}) <= driver.executor.limits.max_batch


class JobPackingConformance(ExecutorTestCase):
    """Executors that run some jobs in allocations of their own."""

    capability: ClassVar[type] = JobPacking

    def test_a_job_that_asks_for_nothing_is_not_packed(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            assert isinstance(driver.executor, JobPacking)
            assert not driver.executor.packs({}, {}, Request())
            assert driver.executor.packed_limits.max_batch >= 1


class ReprioritisableConformance(ExecutorTestCase):
    """Executors that can change the order in which waiting batches start."""

    capability: ClassVar[type] = Reprioritisable

    def test_urgencies_do_no_harm(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            assert isinstance(driver.executor, Reprioritisable)
            member = driver.member("true")
            urgency = Urgency(pressure_s=100.0, end_at=time.time() + 100.0)
            driver.executor.reprioritise(dict.fromkeys([*driver.submit(member), "c0-no-such-tag"], urgency))
            assert driver.wait_for_end(member).exit == 0


class LateFactSourceConformance(ExecutorTestCase):
    """Executors that know facts of attempts only after their ends."""

    capability: ClassVar[type] = LateFactSource

    def test_facts_are_of_attempts_that_ended(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            executor = driver.executor
            assert isinstance(executor, LateFactSource)
            members = [driver.member("true") for _ in range(2)]
            assert not executor.take_facts()
            assert not executor.awaited_facts()
            driver.run_members(*members)
            ended = {(member.job, member.attempt) for member in members}
            found = _take_all_facts(executor, self.timeout_s)
            assert ended.issuperset(found)
            assert len(found) == len(set(found)), "facts were returned twice"


def _take_all_facts(executor: LateFactSource, timeout_s: float) -> list[tuple[int, int]]:
    """Take facts until none are awaited; return the attempts that they are of."""
    deadline = time.monotonic() + timeout_s
    found: list[tuple[int, int]] = []
    while executor.awaited_facts() and time.monotonic() < deadline:
        found += [(facts.j, facts.a) for facts in executor.take_facts()]
        time.sleep(0.1)
    return found


class EndRetentionConformance(ExecutorTestCase):
    """Executors that keep the ends of attempts until the engine has recorded them."""

    capability: ClassVar[type] = EndRetention

    def test_ends_are_reported_again_until_they_are_discarded(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            member = driver.member("exit 3")
            driver.run_members(member)
        attempt = (member.job, member.attempt)
        with self.open_driver(make_executor, run, 2) as driver:
            assert isinstance(driver.executor, EndRetention)
            assert driver.wait_for_end(member).exit == 3
            if isinstance(driver.executor, LateFactSource):
                _take_all_facts(driver.executor, self.timeout_s)
            driver.executor.discard_ends([attempt])
        with self.open_driver(make_executor, run, 3) as driver:
            other = driver.member("true")
            driver.run_members(other)
            assert attempt not in driver.ends, "an end that was discarded is reported again"


class ProcessCleanupConformance(ExecutorTestCase):
    """Executors that can end processes that jobs of a cancelled run left behind."""

    capability: ClassVar[type] = ProcessCleanup

    def test_nothing_is_left_after_the_cleanup(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            assert isinstance(driver.executor, ProcessCleanup)
            note = run.root / "note"
            member = driver.member(f"setsid sh -c {quote(heartbeat_line(note))} & sleep 600")
            driver.submit(member)
            driver.poll_until(note.exists, "the start of the job")
            driver.executor.cancel([(member.job, member.attempt)], grace_s=self.grace_s)
            driver.wait_for_end(member)
            assert driver.executor.end_leftovers().alive == ()
            assert_no_heartbeat([note])
            assert driver.executor.end_leftovers().ended == 0


class UnitHolderConformance(ExecutorTestCase):
    """Executors whose attempts hold units of a machine and of limits."""

    capability: ClassVar[type] = UnitHolder

    def test_units_are_held_while_an_attempt_runs(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        path = run.root / "units"
        seen = UnitFile(files.open(path, os.O_RDWR | os.O_CREAT, 0o600), files)
        try:
            with self.open_driver(make_executor, run) as driver:
                assert isinstance(driver.executor, UnitHolder)
                driver.executor.hold_units(path)
                first = structs.replace(driver.member("sleep 1"), units=((0, 2, 3),))
                second = structs.replace(driver.member("true"), units=((0, 2, 3),))
                driver.submit(first)
                driver.poll_until(lambda: (first.job, first.attempt) in driver.starts, "the start of the first")
                assert seen.count_locked(0, 3) == 2
                driver.submit(second)
                driver.poll_until(lambda: (second.job, second.attempt) in driver.never_started, "the second is refused")
                driver.wait_for_end(first)
                assert seen.count_locked(0, 3) == 0
        finally:
            files.close(seen.file)


class HostBoundConformance(ExecutorTestCase):
    """Executors that start processes which are visible only from their host."""

    capability: ClassVar[type] = HostBound

    def test_no_process_of_this_host_is_unseen(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        executor = make_executor()
        assert isinstance(executor, HostBound)
        assert executor.unseen_processes(run) == ""
        with self.open_driver(make_executor, run) as driver:
            member = driver.member("sleep 0.5")
            driver.submit(member)
            assert executor.unseen_processes(run) == ""
            driver.wait_for_end(member)
