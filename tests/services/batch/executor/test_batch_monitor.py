"""What is watched and told: records, rows of the queue, waits that are too long, and the last word of Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.services.batch.executor.watched_batch import (
    DIALECT,
    TAG,
    AnsweringCluster,
    account,
    book,
    ends_at,
    ends_of,
    leave_record,
    read_queue,
    row,
    watching,
)
from tests.services.scripts import member as batch_member

from longshore.contract.service import RunPaths, Unreachable
from longshore.errors import ConfigError
from longshore.model.event import Ended, Lost, Started
from longshore.model.states import Cause
from longshore.services.batch.client import PollSchedule, poll_schedule
from longshore.services.batch.executor.monitor import NO_REASON, BatchMonitor, LiveAttempt
from longshore.services.batch.jobs import TaskId
from longshore.services.batch.records import BatchRecord, BatchRecords
from longshore.services.batch.settings import hopeless_after_s


@pytest.fixture
def records(tmp_path: Path) -> BatchRecords:
    run = RunPaths(tmp_path / "run")
    run.batches.mkdir(parents=True)
    run.ends.mkdir()
    return BatchRecords(run)


def test_the_queue_tells_who_runs_and_why_others_wait(records: BatchRecords) -> None:
    monitor = watching(records)
    rows = (row("29_0", "RUNNING", node="n2"), row("29_1", "PENDING", "JobHeldUser"), row("29_2", "PENDING"))
    (start,) = read_queue(monitor, *rows)
    assert isinstance(start, Started)
    assert (start.j, start.a, start.host) == (3, 1, "n2")
    assert monitor.waiting is not None
    assert monitor.waiting.reasons == {"JobHeldUser": (4,), NO_REASON: (5,)}
    assert monitor.waiting.held == {"JobHeldUser"}
    assert read_queue(monitor, *rows) == []


def test_a_job_that_is_held_after_its_start_is_told(records: BatchRecords) -> None:
    monitor = watching(records)
    read_queue(monitor, row("29_0", "RUNNING", node="n2"), row("29_1", "RUNNING", node="n2"))
    read_queue(monitor, row("29_0", "PENDING", "JobHeldUser"), row("29_1", "PENDING", "BeginTime"))
    assert monitor.waiting is not None
    assert monitor.waiting.reasons == {"JobHeldUser": (3,)}
    assert monitor.waiting.held == {"JobHeldUser"}


@pytest.mark.parametrize("is_newer_first", [False, True])
def test_an_attempt_in_two_batches_is_that_of_the_newer_one(records: BatchRecords, *, is_newer_first: bool) -> None:
    older = book()
    newer = BatchRecord(tag="k1-3-2", name="k1-3-2", members=((4, 1), (3, 1)), at=2000.0, id=48)
    monitor = BatchMonitor(DIALECT, records, PollSchedule())
    for made in (newer, older) if is_newer_first else (older, newer):
        records.write(made, [batch_member(job, attempt=attempt) for job, attempt in made.members])
        monitor.add_batch(made, 10.0)
    assert {attempt: member.task for attempt, member in monitor.members.items()} == {
        (3, 1): TaskId(48, 1),
        (4, 1): TaskId(48, 0),
        (5, 2): TaskId(29, 2),
    }


def test_what_jobs_wrote_down_is_told_once(records: BatchRecords) -> None:
    monitor = watching(records)
    leave_record(records, "3.1", 0)
    (records.files(TAG).ends / "4.1.began").touch()
    starts = list(monitor.read_end_records())
    assert [(event.j, event.host) for event in starts if isinstance(event, Started)] == [(3, "n1"), (4, None)]
    assert list(monitor.read_end_records()) == []
    over = monitor.find_ended(100.0)
    assert [member.attempt for member in over.complete] == [(3, 1)]
    assert over.to_query == []


@pytest.mark.parametrize(("walltime_s", "is_sure"), [(4.9, False), (5.1, True), (11.0, True), (None, True)])
def test_a_success_at_its_time_limit_waits_for_the_queue(
    records: BatchRecords, walltime_s: float | None, is_sure: bool
) -> None:
    monitor = watching(records, walltime_s=walltime_s)
    leave_record(records, "3.1", 0)  # it ran 2.5 s
    list(monitor.read_end_records())
    assert bool(monitor.find_ended(100.0).complete) is is_sure
    if not is_sure:
        assert monitor.find_ended(100.0).to_query == []
        read_queue(monitor, row("29_0", "TIMEOUT"))
        (end,) = ends_at(ends_of(AnsweringCluster(), records), monitor, 101.0)
        assert isinstance(end, Ended)
        assert (end.exit, end.cause) == (0, Cause.WALLTIME)


def test_an_attempt_is_gone_after_two_answers_without_it(records: BatchRecords) -> None:
    monitor = watching(records)
    read_queue(monitor, row("29_0", "PENDING"), at=12.0)
    # Asked so soon that it may not know them yet.
    assert monitor.find_ended(12.0).to_query == []
    for at in (20.0, 30.0):
        read_queue(monitor, row("29_0", "PENDING"), at=at)
    over = monitor.find_ended(30.0)
    assert [member.attempt for member in over.to_query] == [(4, 1), (5, 2)]


def test_an_expired_wait_is_returned_once_and_recorded(records: BatchRecords) -> None:
    monitor = watching(records, max_wait_s=60.0)
    read_queue(monitor, row("29_0", "RUNNING"), row("29_1", "PENDING", "Resources"), row("29_2", "PENDING"))
    assert monitor.find_expired(1060.0) == []
    assert [member.attempt for member in monitor.find_expired(1060.5)] == [(4, 1), (5, 2)]
    assert monitor.find_expired(2000.0) == []
    again = BatchMonitor(DIALECT, records, PollSchedule())
    known = records.read(TAG)
    assert known is not None
    again.add_batch(known, 0.0)
    assert [member.is_expired for member in again.members.values()] == [False, True, True]
    assert again.find_expired(2000.0) == [again.members[3, 1]]


def test_without_a_limit_nobody_waits_too_long(records: BatchRecords) -> None:
    assert watching(records).find_expired(1e12) == []


def test_what_is_settled_leaves_nothing_but_the_table(records: BatchRecords) -> None:
    monitor = watching(records)
    for name in ("3.1", "4.1", "5.2"):
        leave_record(records, name, 0)
    list(monitor.read_end_records())
    ends = [Ended(j=job, a=attempt, exit=0) for job, attempt in ((3, 1), (4, 1), (5, 2))]
    assert list(monitor.remove_ended(ends)) == ends
    monitor.discard_ends([(3, 1), (4, 1)], lambda *_: False)
    assert records.read(TAG) is not None
    monitor.discard_ends([(5, 2)], lambda *_: False)
    assert records.read(TAG) is None
    assert records.files(TAG).read_members() == book().members
    assert not records.files(TAG).ends.exists()


# -------------------------------------------------------------------------------------------------------------- ends


def member(monitor: BatchMonitor, *, wanted_at: float = 100.0, status: int | None = 0) -> LiveAttempt:
    found = monitor.members[3, 1]
    found.end_seen_at = wanted_at
    if status is not None:
        list(monitor.read_end_records())
    return found


def test_a_failure_that_its_record_and_the_queue_tell_ends_at_once(records: BatchRecords) -> None:
    monitor = watching(records)
    leave_record(records, "3.1", 3)
    one = member(monitor)
    read_queue(monitor, row("29_0", "FAILED"))
    cluster = AnsweringCluster()
    (end,) = ends_of(cluster, records).of([one], 100.0)
    assert isinstance(end, Ended)
    assert (end.exit, end.cause, cluster.to_query) == (3, Cause.EXIT, [])


def test_a_job_killed_for_an_unknown_reason_waits_for_accounting(records: BatchRecords) -> None:
    monitor = watching(records, memory_b=100)
    leave_record(records, "3.1", 137)
    one = member(monitor)
    read_queue(monitor, row("29_0", "FAILED"))
    kept = {"Account": "test", "WorkDir": "/somewhere"}
    cluster = AnsweringCluster({TaskId(29, 0): account("FAILED", peak_memory_b=99, gathered=kept, queue_s=4.0)})
    ends = ends_of(cluster, records)
    # Not at once: the cluster has to write it down first; and never twice in a floor.
    assert list(ends.of([one], 100.5)) == []
    (end,) = ends.of([one], 101.0)
    assert isinstance(end, Ended)
    assert (end.cause, end.rss_b, end.extra, end.queue_s) == (Cause.OOM, 99, kept, 4.0)
    assert list(ends.of([one], 102.0)) == []
    assert cluster.to_query == [[TaskId(29, 0)]]


@pytest.mark.parametrize("accounts", [Unreachable(why="down"), {}])
def test_a_killed_job_does_not_wait_for_ever(records: BatchRecords, accounts: Any) -> None:
    monitor = watching(records)
    leave_record(records, "3.1", 137)
    one = member(monitor)
    read_queue(monitor, row("29_0", "FAILED"))
    ends = ends_of(AnsweringCluster(accounts), records)
    assert list(ends.of([one], 101.0)) == []
    (end,) = ends.of([one], 110.0)
    assert isinstance(end, Ended)
    assert (end.signal, end.cause, end.extra) == (9, Cause.SIGNAL, {})


def test_who_left_nothing_is_asked_for_until_he_is_lost(records: BatchRecords) -> None:
    monitor = watching(records)
    one = member(monitor, status=None)
    ends = ends_of(AnsweringCluster({}), records)
    assert list(ends.of([one], 150.0)) == []
    (lost,) = ends.of([one], 161.0)
    assert lost == Lost(j=3, a=1, why="job 29_0 is gone from Slurm, and left no record of its end")


@pytest.mark.parametrize("shown", [Unreachable(why="down"), account("RUNNING")])
def test_silence_loses_nobody(records: BatchRecords, shown: Any) -> None:
    monitor = watching(records)
    ends = ends_of(AnsweringCluster(Unreachable(why="down"), shown), records)
    assert list(ends.of([member(monitor, status=None)], 1e6)) == []


def test_a_wait_that_was_too_long_is_no_cancellation(records: BatchRecords) -> None:
    monitor = watching(records, max_wait_s=60.0)
    read_queue(monitor, row("29_0", "PENDING", "Resources"))
    monitor.find_expired(2000.0)
    ends = ends_of(AnsweringCluster({TaskId(29, 0): account("CANCELLED")}), records)
    (end,) = ends.of([member(monitor, status=None)], 101.0)
    assert isinstance(end, Ended)
    assert (end.cause, end.exit) == (Cause.PEND_TIMEOUT, None)
    assert end.reason == "it waited longer than the 60 s of 'maxpendtime'; Slurm's reason was Resources"


def test_an_attempt_that_started_after_expiry_ends_as_recorded(records: BatchRecords) -> None:
    monitor = watching(records, max_wait_s=60.0)
    read_queue(monitor, row("29_0", "PENDING", "Resources"))
    monitor.find_expired(2000.0)
    leave_record(records, "3.1", 3)
    ends = ends_of(AnsweringCluster({TaskId(29, 0): account("FAILED")}), records)
    (end,) = ends.of([member(monitor)], 101.0)
    assert isinstance(end, Ended)
    assert (end.cause, end.exit) == (Cause.EXIT, 3)


def expired(records: BatchRecords) -> BatchMonitor:
    """Watch a batch whose members all wait, and have waited too long."""
    monitor = watching(records, max_wait_s=60.0)
    read_queue(monitor, *(row(f"29_{index}", "PENDING", "Resources") for index in range(3)))
    assert len(monitor.find_expired(2000.0)) == 3
    return monitor


def test_a_whole_batch_is_cancelled_by_one_id(records: BatchRecords) -> None:
    monitor = expired(records)
    assert monitor.tasks_of([(3, 1), (4, 1), (5, 2)]) == [TaskId(29)]
    assert monitor.tasks_of([(3, 1), (5, 2)]) == [TaskId(29, 0), TaskId(29, 2)]


@pytest.mark.parametrize("accounting", [True, False])
def test_an_array_that_slurm_folded_into_one_row_is_over(records: BatchRecords, accounting: bool) -> None:
    monitor = expired(records)
    # As squeue --array prints it once the members were cancelled one by one.
    read_queue(monitor, row("29", "CANCELLED", "Resources"), at=110.0)
    ends = ends_of(AnsweringCluster(), records, accounting=accounting)
    early = ends_at(ends, monitor, 112.0)
    found = early or ends_at(ends, monitor, 122.5)
    assert bool(early) is not accounting, "accounting may still know more"
    assert [(end.j, end.cause) for end in found if isinstance(end, Ended)] == [
        (job, Cause.PEND_TIMEOUT) for job in (3, 4, 5)
    ]


def test_a_member_cancelled_without_a_trace_ends_as_what_it_is(records: BatchRecords) -> None:
    monitor = expired(records)
    for at in (110.0, 120.0):
        read_queue(monitor, at=at)
    (*found,) = ends_at(ends_of(AnsweringCluster(), records, accounting=False), monitor, 121.0)
    assert [end.cause for end in found if isinstance(end, Ended)] == [Cause.PEND_TIMEOUT] * 3


def test_a_running_job_that_was_cancelled_is_over_at_once_without_accounting(records: BatchRecords) -> None:
    monitor = watching(records)
    read_queue(monitor, *(row(f"29_{position}", "RUNNING", node="n2") for position in range(3)))
    monitor.mark_cancelled([(3, 1), (4, 1)])
    for at in (110.0, 120.0):
        read_queue(monitor, at=at)
    (*found,) = ends_at(ends_of(AnsweringCluster(), records, accounting=False), monitor, 121.0)
    # The third one may still be told of.
    assert [(end.j, end.cause) for end in found if isinstance(end, Ended)] == [
        (3, Cause.CANCELLED),
        (4, Cause.CANCELLED),
    ]


def test_a_members_cancellation_by_the_user_needs_no_trace(records: BatchRecords) -> None:
    monitor = watching(records)
    monitor.mark_cancelled([(4, 1)])
    for at in (110.0, 120.0):
        read_queue(monitor, row("29_0", "PENDING"), row("29_2", "PENDING"), at=at)
    (end,) = ends_at(ends_of(AnsweringCluster(), records, accounting=False), monitor, 121.0)
    assert isinstance(end, Ended)
    assert (end.j, end.cause) == (4, Cause.CANCELLED)


def test_the_folded_row_says_nothing_of_a_member_that_started(records: BatchRecords) -> None:
    monitor = watching(records)
    read_queue(monitor, row("29_0", "RUNNING"), at=100.0)
    read_queue(monitor, row("29", "CANCELLED"), at=110.0)
    assert not monitor.members[3, 1].is_over_in_queue
    assert monitor.members[4, 1].is_over_in_queue
    ends = ends_of(AnsweringCluster({TaskId(29): account("CANCELLED")}), records)
    assert ends_at(ends, monitor, 112.0) == [], "accounting is asked a moment later"
    assert [end.j for end in ends_at(ends, monitor, 114.0)] == [4, 5]


def test_a_job_that_only_the_controller_still_has_is_not_over(records: BatchRecords) -> None:
    monitor = expired(records)
    for at in (110.0, 120.0):
        read_queue(monitor, at=at)
    ends = ends_of(AnsweringCluster({}, account("PENDING")), records, accounting=False)
    assert ends_at(ends, monitor, 1e5) == []


# ---------------------------------------------------------------------------------------------------------- hopeless


def hopeless(records: BatchRecords, after_s: float | None = 600.0) -> BatchMonitor:
    """Watch a batch of which two members can never start, as seen at 100 s."""
    monitor = watching(records, hopeless_after_s=after_s)
    read_queue(monitor, *hopeless_rows("PartitionNodeLimit"), at=100.0)
    return monitor


def hopeless_rows(reason: str) -> list[str]:
    return [row("29_0", "PENDING", reason), row("29_1", "PENDING", reason), row("29_2", "PENDING", "Priority")]


def test_what_can_never_start_is_told_with_its_mend(records: BatchRecords) -> None:
    monitor = hopeless(records)
    assert monitor.waiting is not None
    mend = "request fewer nodes, or choose a partition that allows as many"
    assert monitor.waiting.hopeless == {"PartitionNodeLimit": mend}
    assert monitor.waiting.reasons == {"PartitionNodeLimit": (3, 4), "Priority": (5,)}


def test_what_can_never_start_is_given_up_once_and_recorded(records: BatchRecords) -> None:
    monitor = hopeless(records)
    assert monitor.find_hopeless(699.0) == []
    found = monitor.find_hopeless(700.0)
    assert [member.attempt for member in found] == [(3, 1), (4, 1)]
    assert monitor.find_hopeless(2000.0) == []
    known = records.read(TAG)
    assert known is not None
    assert known.hopeless == ((0, "PartitionNodeLimit"), (1, "PartitionNodeLimit"))
    again = BatchMonitor(DIALECT, records, PollSchedule())
    again.add_batch(known, 0.0)
    assert [member.hopeless_reason for member in again.members.values()] == ["PartitionNodeLimit"] * 2 + [""]


def test_an_end_without_hope_is_no_cancellation_and_not_retried(records: BatchRecords) -> None:
    monitor = hopeless(records)
    monitor.find_hopeless(700.0)
    ends = ends_of(AnsweringCluster({TaskId(29, 0): account("CANCELLED")}), records)
    (end,) = ends.of([member(monitor, status=None)], 101.0)
    assert isinstance(end, Ended)
    assert (end.cause, end.hopeless, end.exit) == (Cause.SUBMIT, True, None)
    assert end.reason == (
        "Slurm can never start it (PartitionNodeLimit): request fewer nodes, or choose a partition that allows as many"
    )


@pytest.mark.parametrize(("reason", "found"), [("Resources", 0), ("None", 2), ("PartitionConfig", 2)])
def test_only_another_reason_gives_hope_again(records: BatchRecords, reason: str, found: int) -> None:
    monitor = hopeless(records)
    read_queue(monitor, *hopeless_rows(reason), at=400.0)
    read_queue(monitor, *hopeless_rows("PartitionNodeLimit"), at=690.0)
    assert len(monitor.find_hopeless(710.0)) == found


@pytest.mark.parametrize(("after_s", "found"), [(None, 0), (0.0, 2)])
def test_the_wait_without_hope_is_the_sites(records: BatchRecords, after_s: float | None, found: int) -> None:
    assert len(hopeless(records, after_s).find_hopeless(100.0 if found else 1e9)) == found


def test_what_started_after_all_goes_on(records: BatchRecords) -> None:
    monitor = hopeless(records)
    read_queue(monitor, row("29_0", "RUNNING"), *hopeless_rows("PartitionNodeLimit")[1:], at=400.0)
    assert [member.attempt for member in monitor.find_hopeless(1000.0)] == [(4, 1)]


def test_the_values_of_hopeless_after() -> None:
    assert hopeless_after_s("slurm", {}) == 600.0
    assert hopeless_after_s("slurm", {"hopelessAfter": "never"}) is None
    assert hopeless_after_s("slurm", {"hopelessAfter": 0}) == 0.0
    assert hopeless_after_s("slurm", {"hopelessAfter": "01:00:00"}) == 3600.0
    with pytest.raises(ConfigError, match=r"slurm\.hopelessAfter"):
        hopeless_after_s("slurm", {"hopelessAfter": "soon"})


# -------------------------------------------------------------------------------------------------------------- pace


def test_the_pace_slows_down_to_the_ceiling_and_hurries_back() -> None:
    schedule = PollSchedule(2.0, 5.0)
    assert schedule.is_due(0.0)
    intervals = []
    for at in (1.0, 2.0, 3.0, 4.0):
        schedule.record_answer(at)
        intervals.append(schedule.interval_s)
    assert intervals == [3.0, 4.5, 5.0, 5.0]
    assert not schedule.is_due(8.9)
    assert schedule.is_due(9.0)
    schedule.request_query(9.0)
    assert (schedule.interval_s, schedule.not_before) == (2.0, 9.0)
    schedule.record_failure(20.0, "down")
    assert not schedule.is_due(21.0)
    # While nobody answers, nothing that happens here is a reason to ask more often.
    schedule.reset_interval()
    assert schedule.interval_s == 3.0
    assert schedule.failure == "down"
    schedule.record_answer(30.0)
    assert (schedule.failure, schedule.interval_s) == ("", 3.0)
    for at in range(40, 50):
        schedule.record_failure(at, "down")
    assert schedule.interval_s == 5.0


def test_the_keys_of_a_site() -> None:
    assert (poll_schedule("slurm", {}).floor_s, poll_schedule("slurm", {}).ceiling_s) == (2.0, 60.0)
    asked = poll_schedule("slurm", {"pollInterval": "0:00:30", "pollCeiling": 300})
    assert (asked.floor_s, asked.ceiling_s) == (30.0, 300.0)
    # Nobody goes below the floor of a site, and a ceiling below it is lifted.
    bounded = poll_schedule("slurm", {"pollInterval": 5}, 90.0)
    assert (bounded.floor_s, bounded.ceiling_s) == (90.0, 90.0)
    # An interval beyond the usual ceiling is the ceiling as well.
    assert poll_schedule("slurm", {"pollInterval": 100}).ceiling_s == 100.0


@pytest.mark.parametrize(
    "slurm", [{"pollInterval": "soon"}, {"pollInterval": 0}, {"pollInterval": 9, "pollCeiling": 8}]
)
def test_invalid_poll_intervals_are_refused(slurm: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"slurm\.poll"):
        poll_schedule("slurm", slurm)


def test_records_of_earlier_versions_have_no_wait_limit() -> None:
    old = msgspec.json.decode(b'{"tag":"t","name":"n","members":[[1,1]],"at":1.0,"id":4}', type=BatchRecord)
    assert (old.max_wait_s, old.expired) == (None, ())
