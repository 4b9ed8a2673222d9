"""Attempts whose jobs go back into the queue after they began, and tasks that a person removes from a pending array."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.services.batch.executor.watched_batch import (
    TAG,
    AnsweringCluster,
    account,
    ends_at,
    ends_of,
    read_queue,
    row,
    watching,
)
from tests.services.scripts import member as batch_member

from longshore.config.plugins import shipped_path
from longshore.contract.service import RunPaths
from longshore.engine.job_wrapper import WRAPPER
from longshore.model.event import Ended, Lost
from longshore.model.states import Cause
from longshore.rundir.batch_records import REQUEUED, RUN_ONCE, read_marks
from longshore.services.batch.client import PollSchedule
from longshore.services.batch.executor.copies import CopyWatch
from longshore.services.batch.executor.ends import EndGatherer
from longshore.services.batch.executor.monitor import BatchMonitor
from longshore.services.batch.jobs import ClusterFacts, TaskId
from longshore.services.batch.records import BatchRecord, BatchRecords
from longshore.services.sge.dialect import SgeDialect
from longshore.services.slurm.dialect import SlurmDialect
from longshore.system.sharing import seconds_since_boot

BACK = row("29_0", "PENDING", "BeginTime")
HELD = row("29_0", "PENDING", "job requeued in held state")
GONE = row("29_0", "CANCELLED")
LATER_S = 40.0
"""Seconds after which no answer of the queue is older than what a record says."""


@pytest.fixture
def records(tmp_path: Path) -> BatchRecords:
    run = RunPaths(tmp_path / "run")
    run.batches.mkdir(parents=True)
    run.ends.mkdir()
    (run.root / "wms").mkdir()
    shutil.copy(shipped_path("bin", WRAPPER.name), run.root / WRAPPER)
    return BatchRecords(run)


def leave(records: BatchRecords, status: int, more: str = "") -> None:
    """Leave the end record of the first member, and have it read."""
    values = f'"j":3,"a":1,"status":{status},"run":2.50,"host":"vm","batch":"{TAG}"{more}'
    (records.files(TAG).ends / "3.1").write_text(f'{{{values},"again":{{{values}}}}}\n', "utf-8")


def told(records: BatchRecords, monitor: BatchMonitor, status: int = 143, more: str = ',"signalled":true') -> None:
    leave(records, status, more)
    list(monitor.read_end_records())


def read_later(monitor: BatchMonitor, *rows: str) -> None:
    """Take an answer that was asked for after all that was read so far."""
    read_queue(monitor, *rows, at=seconds_since_boot() + 1.0)


def only_end(monitor: BatchMonitor, ends: EndGatherer, now: float) -> Ended:
    (end,) = (end for end in ends_at(ends, monitor, now) if isinstance(end, Ended))
    return end


def requeued(records: BatchRecords) -> BatchMonitor:
    """Watch a batch whose first member was told to end, and is back in the queue."""
    monitor = watching(records)
    read_queue(monitor, row("29_0", "RUNNING", node="n1"))
    told(records, monitor)
    read_later(monitor, BACK)
    return monitor


def test_a_requeued_job_is_cancelled_and_its_attempt_ends_as_preempted(records: BatchRecords) -> None:
    monitor = requeued(records)
    (found,) = monitor.find_requeued()
    assert found.attempt == (3, 1)
    assert monitor.find_requeued() == [], "cancelled once"
    # What waits would run it again once its record is gone: nothing ends before it is out of the queue.
    assert ends_at(ends_of(AnsweringCluster(), records), monitor, 1e4) == []
    read_queue(monitor, GONE, at=1e4)
    end = only_end(monitor, ends_of(AnsweringCluster(), records), 1e4 + 1)
    assert (end.cause, end.reason, end.signal, end.exit) == (Cause.PREEMPTED, REQUEUED, 15, None)


def test_another_life_knows_that_a_job_was_requeued(records: BatchRecords) -> None:
    requeued(records).find_requeued()
    again = BatchMonitor(SlurmDialect({}), records, PollSchedule())
    known = records.read(TAG)
    assert known is not None
    assert known.requeued == (0,)
    again.add_batch(known, 0.0)
    list(again.read_end_records())
    # Its cancellation may have been lost.
    read_later(again, BACK)
    assert [member.attempt for member in again.find_requeued()] == [(3, 1)]
    read_queue(again, GONE, at=200.0)
    assert only_end(again, ends_of(AnsweringCluster(), records), 201.0).cause is Cause.PREEMPTED


@pytest.mark.parametrize(("status", "cause"), [(0, None), (3, Cause.EXIT)])
def test_a_job_that_ended_by_itself_ends_so_once_the_queue_has_no_other(
    records: BatchRecords, status: int, cause: Cause | None
) -> None:
    monitor = watching(records)
    told(records, monitor, status, "")
    # Also what a person holds is of no use any more.
    read_later(monitor, HELD)
    assert [member.attempt for member in monitor.find_requeued()] == [(3, 1)]
    over = monitor.find_ended(1e4)
    assert (over.complete, over.to_query) == ([], [])
    read_queue(monitor, GONE, at=1e4)
    over = monitor.find_ended(1e4 + 1)
    if status == 0:
        assert [member.attempt for member in over.complete] == [(3, 1)]
    else:
        end = only_end(monitor, ends_of(AnsweringCluster(), records), 1e4 + 1)
        assert (end.cause, end.exit, end.reason) == (cause, status, None)


def test_what_a_person_holds_is_left_until_it_is_released(records: BatchRecords) -> None:
    monitor = watching(records)
    told(records, monitor)
    read_later(monitor, HELD)
    assert monitor.waiting is not None
    assert monitor.waiting.held == {"job requeued in held state"}
    assert monitor.find_requeued() == []
    assert ends_at(ends_of(AnsweringCluster(), records), monitor, 1e5) == []
    read_later(monitor, row("29_0", "PENDING"))
    assert len(monitor.find_requeued()) == 1


def test_a_released_job_that_starts_at_once_was_requeued(records: BatchRecords) -> None:
    monitor = watching(records)
    told(records, monitor)
    read_later(monitor, HELD)
    # Its wrapper did not run it, and says so.
    (records.files(TAG).ends / "3.1.again").touch()
    read_queue(monitor, row("29_0", "FAILED", "NonZeroExitCode"), at=110.0)
    end = only_end(monitor, ends_of(AnsweringCluster(), records), 111.0)
    assert (end.cause, end.reason) == (Cause.PREEMPTED, REQUEUED)
    list(monitor.remove_ended([end]))
    monitor.discard_ends([(3, 1)], lambda *_: False)
    assert not list(records.files(TAG).ends.iterdir())


def test_a_held_job_that_a_person_removes_is_cancelled(records: BatchRecords) -> None:
    monitor = watching(records)
    told(records, monitor)
    read_later(monitor, HELD)
    assert monitor.find_requeued() == []
    read_queue(monitor, GONE, at=110.0)
    cluster = AnsweringCluster({TaskId(29, 0): account("CANCELLED")})
    ends = ends_of(cluster, records)
    assert ends_at(ends, monitor, 111.0) == [], "accounting knows who did it"
    assert only_end(monitor, ends, 112.5).cause is Cause.CANCELLED


@pytest.mark.parametrize("state", ["SUSPENDED", "STOPPED", "RUNNING", "COMPLETING"])
def test_other_states_are_no_requeue(records: BatchRecords, state: str) -> None:
    monitor = watching(records)
    (records.files(TAG).ends / "3.1.began").write_text("vm 7 x\n", "utf-8")
    list(monitor.read_end_records())
    read_queue(monitor, row("29_0", state), at=seconds_since_boot() + LATER_S)
    assert monitor.find_requeued() == []


def test_an_answer_from_before_the_end_delays_no_success(records: BatchRecords) -> None:
    monitor = watching(records)
    asked_at = seconds_since_boot() - 1.0
    told(records, monitor, 0, "")
    read_queue(monitor, row("29_0", "PENDING"), at=asked_at)
    assert monitor.find_requeued() == []
    assert [member.attempt for member in monitor.find_ended(seconds_since_boot()).complete] == [(3, 1)]


def test_an_answer_from_before_the_start_is_no_requeue(records: BatchRecords) -> None:
    monitor = watching(records)
    read_queue(monitor, row("29_0", "RUNNING"))
    read_queue(monitor, BACK, at=1e6)
    assert monitor.find_requeued() == [], "its wrapper has not begun: its next start is its first"
    (records.files(TAG).ends / "3.1.began").write_text("vm 7 x\n", "utf-8")
    list(monitor.read_end_records())
    read_queue(monitor, BACK, at=seconds_since_boot() + 5.0)
    assert monitor.find_requeued() == []
    read_queue(monitor, BACK, at=seconds_since_boot() + LATER_S)
    assert len(monitor.find_requeued()) == 1


def fenced(records: BatchRecords) -> EndGatherer:
    copies = CopyWatch(records.files(TAG).run, fence=True, now=0.0)
    facts = ClusterFacts(accounting=False)
    return EndGatherer(AnsweringCluster(), records, facts, schedule=PollSchedule(), copies=copies)  # type: ignore[arg-type]


@pytest.mark.parametrize("refused", [False, True])
def test_of_a_job_that_left_no_record_a_copy_may_live(records: BatchRecords, refused: bool) -> None:
    monitor = watching(records)
    read_queue(monitor, row("29_0", "RUNNING", node="n1"))
    (records.files(TAG).ends / "3.1.began").write_text("vm 7 x\n", "utf-8")
    list(monitor.read_end_records())
    if refused:
        # Its node failed, and it was started on another one before the queue was asked.
        (records.files(TAG).ends / "3.1.began").unlink()
        told(records, monitor, 99, ',"refused":true')
        read_queue(monitor, row("29_0", "FAILED", "NonZeroExitCode"), at=1000.0)
    else:
        read_queue(monitor, BACK, at=seconds_since_boot() + LATER_S)
        assert len(monitor.find_requeued()) == 1
        read_queue(monitor, GONE, at=seconds_since_boot() + LATER_S + 1)
    ends, now = fenced(records), seconds_since_boot() + 100
    assert ends_at(ends, monitor, now) == []
    (mark,) = read_marks(records.files(TAG).run)
    # The row may be that of the second start.
    assert (mark.id, mark.host) == ((3, 1), "" if refused else "n1")
    assert ends_at(ends, monitor, now + 10) == []
    end = only_end(monitor, ends, now + 1000)
    assert (end.cause, end.reason) == (Cause.PREEMPTED, RUN_ONCE if refused else REQUEUED)


def test_a_success_of_the_first_copy_counts_after_a_refusal(records: BatchRecords) -> None:
    monitor = watching(records)
    told(records, monitor, 99, ',"refused":true')
    read_queue(monitor, row("29_0", "FAILED", "NonZeroExitCode"), at=1000.0)
    ends, now = fenced(records), seconds_since_boot() + 100
    assert ends_at(ends, monitor, now) == []
    told(records, monitor, 0, "")
    over = monitor.find_ended(now + 5)
    assert [member.attempt for member in over.complete] == [(3, 1)]


# ------------------------------------------------------------------------------------------------------------ removed


def rows_without_the_second() -> tuple[str, str]:
    return row("29_0", "PENDING"), row("29_2", "PENDING")


@pytest.mark.parametrize("accounting", [True, False])
def test_a_task_removed_from_a_pending_array_is_cancelled_and_not_lost(records: BatchRecords, accounting: bool) -> None:
    monitor = watching(records)
    read_queue(monitor, *rows_without_the_second(), row("29_1", "PENDING"))
    for at in (110.0, 120.0):
        read_queue(monitor, *rows_without_the_second(), at=at)
    ends = ends_of(AnsweringCluster(), records, accounting=accounting)
    assert ends_at(ends, monitor, 120.0) == [], "a record of its end may be late"
    end = only_end(monitor, ends, 131.0)
    assert (end.j, end.cause, end.reason) == (4, Cause.CANCELLED, "Slurm says CANCELLED")


@pytest.mark.parametrize("was_seen", [True, False])
def test_a_task_is_lost_that_was_never_seen_or_whose_job_is_gone(records: BatchRecords, was_seen: bool) -> None:
    monitor = watching(records)
    rows = rows_without_the_second()
    read_queue(monitor, *rows, *([row("29_1", "PENDING")] if was_seen else []))
    for at in (110.0, 120.0):
        # A controller that lost its memory has none of them.
        read_queue(monitor, *([] if was_seen else rows), at=at)
    ends = ends_of(AnsweringCluster(), records)
    assert ends_at(ends, monitor, 121.0) == []
    found = ends_at(ends, monitor, 190.0)
    assert all(isinstance(end, Lost) for end in found)
    assert [end.j for end in found] == ([3, 4, 5] if was_seen else [4])


def test_grid_engine_forgets_single_jobs_too(records: BatchRecords) -> None:
    dialect = SgeDialect({})
    monitor = BatchMonitor(dialect, records, PollSchedule())
    made = BatchRecord(tag=TAG, name=TAG, members=((3, 1),), at=1000.0, id=29)
    records.write(made, [batch_member(3)])
    monitor.add_batch(made, 10.0)
    (waits,) = SlurmDialect({}).parse_queue(row("29", "qw"))
    list(monitor.read_queue([waits], 100.0))
    for at in (110.0, 120.0):
        list(monitor.read_queue([], at))
    cluster = AnsweringCluster()
    cluster.dialect = dialect  # type: ignore[assignment]
    ends = ends_of(cluster, records)
    assert ends_at(ends, monitor, 120.0) == []
    assert only_end(monitor, ends, 131.0).cause is Cause.CANCELLED
