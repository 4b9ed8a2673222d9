"""What is watched and told: records, rows of the queue, waits that are too long, and the last word of Slurm."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.services.slurm.scripts import member as batch_member

from longshore.batch.commands.poll_schedule import PollSchedule, poll_schedule
from longshore.batch.executor.batch_monitor import NO_REASON, BatchMonitor, LiveAttempt
from longshore.batch.executor.gather_ends import EndGatherer
from longshore.batch.jobs import AccountRow, ClusterFacts, TaskId
from longshore.batch.records import BatchRecord, BatchRecords
from longshore.contract.batch import MemberEvent
from longshore.contract.context import RunPaths, Unreachable
from longshore.errors import ConfigError
from longshore.model.run.event import Ended, Lost, Started
from longshore.model.run.states import Cause
from longshore.services.slurm.dialect import SlurmDialect

TAG = "k1-1-1"
DIALECT = SlurmDialect({})


@pytest.fixture
def records(tmp_path: Path) -> BatchRecords:
    run = RunPaths(tmp_path / "run")
    run.batches.mkdir(parents=True)
    run.ends.mkdir()
    return BatchRecords(run)


def book(**fields: Any) -> BatchRecord:
    return BatchRecord(tag=TAG, name=TAG, members=((3, 1), (4, 1), (5, 2)), at=1000.0, id=29, **fields)


def watching(records: BatchRecords, **fields: Any) -> BatchMonitor:
    monitor = BatchMonitor(DIALECT, records, PollSchedule())
    made = book(**fields)
    records.write(made, [batch_member(job, attempt=attempt) for job, attempt in made.members])
    monitor.add_batch(made, 10.0)
    return monitor


def read_queue(monitor: BatchMonitor, *rows: str, at: float = 100.0) -> list[MemberEvent]:
    return list(monitor.read_queue(DIALECT.parse_queue("".join(row + "\n" for row in rows)), at))


def row(task: str, state: str, reason: str = "None", node: str = "") -> str:
    return f"{task}|40|{state}|{reason}|N/A|{node}|{TAG}"


def leave_record(records: BatchRecords, name: str, status: int) -> None:
    folder = records.files(TAG).ends
    (folder / f"{name}.began").touch()
    job, attempt = name.split(".")
    text = f'{{"j":{job},"a":{attempt},"status":{status},"run":2.5,"host":"n1"}}'
    (folder / name).write_text(text, "utf-8")


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


def test_what_jobs_wrote_down_is_told_once(records: BatchRecords) -> None:
    monitor = watching(records)
    leave_record(records, "3.1", 0)
    (records.files(TAG).ends / "4.1.began").touch()
    starts = list(monitor.read_end_records())
    assert [(event.j, event.host) for event in starts if isinstance(event, Started)] == [(3, "n1"), (4, None)]
    assert list(monitor.read_end_records()) == []
    over = monitor.find_ended(100.0, gathers=False)
    assert [member.attempt for member in over.complete] == [(3, 1)]
    assert over.to_query == []
    asked = monitor.find_ended(100.0, gathers=True)
    assert (asked.complete, [member.attempt for member in asked.to_query]) == ([], [(3, 1)])


def test_an_attempt_is_gone_after_two_answers_without_it(records: BatchRecords) -> None:
    monitor = watching(records)
    read_queue(monitor, row("29_0", "PENDING"), at=12.0)
    # Asked so soon that it may not know them yet.
    assert monitor.find_ended(12.0, gathers=False).to_query == []
    for at in (20.0, 30.0):
        read_queue(monitor, row("29_0", "PENDING"), at=at)
    over = monitor.find_ended(30.0, gathers=False)
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
    monitor.discard_ends([(3, 1), (4, 1)])
    assert records.read(TAG) is not None
    monitor.discard_ends([(5, 2)])
    assert records.read(TAG) is None
    assert records.files(TAG).read_members() == book().members
    assert not records.files(TAG).ends.exists()


# -------------------------------------------------------------------------------------------------------------- ends


class _Cluster:
    """Answers like Slurm's programs, as a test has it."""

    dialect = DIALECT

    def __init__(self, accounts: Any = None, shown: Any = None) -> None:
        self._accounts = accounts if accounts is not None else {}
        self._shown = shown
        self.to_query: list[list[TaskId]] = []

    def query_accounting(self, tasks: Iterable[TaskId]) -> Any:
        self.to_query.append(list(tasks))
        return self._accounts

    def show_job(self, task: TaskId) -> Any:
        return self._shown


def ends_of(cluster: _Cluster, records: BatchRecords, *, accounting: bool = True, gathers: bool = True) -> EndGatherer:
    facts = ClusterFacts(accounting=accounting)
    return EndGatherer(cluster, records, facts, schedule=PollSchedule(), gathers=gathers)  # type: ignore[arg-type]


def member(monitor: BatchMonitor, *, wanted_at: float = 100.0, status: int | None = 0) -> LiveAttempt:
    found = monitor.members[3, 1]
    found.end_seen_at = wanted_at
    if status is not None:
        list(monitor.read_end_records())
    return found


def account(state: str, **fields: Any) -> AccountRow:
    return AccountRow(id=TaskId(29, 0), state=state, state_text=state, exit=0, signal=0, **fields)


def test_a_success_gets_what_accounting_knows(records: BatchRecords) -> None:
    monitor = watching(records)
    leave_record(records, "3.1", 0)
    one = member(monitor)
    kept = {"Account": "test", "WorkDir": "/somewhere"}
    cluster = _Cluster({TaskId(29, 0): account("COMPLETED", peak_memory_b=9, gathered=kept, queue_s=4.0)})
    ends = ends_of(cluster, records)
    # Not at once: the cluster has to write it down first; and never twice in a floor.
    assert list(ends.of([one], 100.5)) == []
    (end,) = ends.of([one], 101.0)
    assert isinstance(end, Ended)
    assert (end.exit, end.cause, end.rss_b, end.extra, end.queue_s) == (0, None, 9, kept, 4.0)
    assert list(ends.of([one], 102.0)) == []
    assert cluster.to_query == [[TaskId(29, 0)]]


@pytest.mark.parametrize("accounts", [Unreachable(why="down"), {}])
def test_a_success_does_not_wait_for_ever(records: BatchRecords, accounts: Any) -> None:
    monitor = watching(records)
    leave_record(records, "3.1", 0)
    one = member(monitor)
    ends = ends_of(_Cluster(accounts), records)
    at_once = list(ends.of([one], 101.0))
    assert bool(at_once) is isinstance(accounts, Unreachable)
    (end,) = at_once or ends.of([one], 110.0)
    assert isinstance(end, Ended)
    assert (end.exit, end.extra) == (0, {})


def test_half_a_record_of_accounting_is_waited_for(records: BatchRecords) -> None:
    monitor = watching(records)
    leave_record(records, "3.1", 0)
    one = member(monitor)
    ends = ends_of(
        _Cluster({TaskId(29, 0): account("COMPLETED", gathered={"Account": "test"}, is_partial=True)}), records
    )
    assert list(ends.of([one], 105.0)) == []
    (end,) = ends.of([one], 110.0)
    assert isinstance(end, Ended)
    assert end.extra == {"Account": "test"}


def test_who_left_nothing_is_asked_for_until_he_is_lost(records: BatchRecords) -> None:
    monitor = watching(records)
    one = member(monitor, status=None)
    ends = ends_of(_Cluster({}), records)
    assert list(ends.of([one], 150.0)) == []
    (lost,) = ends.of([one], 161.0)
    assert lost == Lost(j=3, a=1, why="job 29_0 is gone from Slurm, and left no record of its end")


@pytest.mark.parametrize("shown", [Unreachable(why="down"), account("RUNNING")])
def test_silence_loses_nobody(records: BatchRecords, shown: Any) -> None:
    monitor = watching(records)
    ends = ends_of(_Cluster(Unreachable(why="down"), shown), records)
    assert list(ends.of([member(monitor, status=None)], 1e6)) == []


def test_a_wait_that_was_too_long_is_no_cancellation(records: BatchRecords) -> None:
    monitor = watching(records, max_wait_s=60.0)
    read_queue(monitor, row("29_0", "PENDING", "Resources"))
    monitor.find_expired(2000.0)
    ends = ends_of(_Cluster({TaskId(29, 0): account("CANCELLED")}), records)
    (end,) = ends.of([member(monitor, status=None)], 101.0)
    assert isinstance(end, Ended)
    assert (end.cause, end.exit) == (Cause.PEND_TIMEOUT, None)
    assert end.reason == "it waited longer than the 60 s of 'maxpendtime'; Slurm's reason was Resources"


def test_an_attempt_that_started_after_expiry_ends_as_recorded(records: BatchRecords) -> None:
    monitor = watching(records, max_wait_s=60.0)
    read_queue(monitor, row("29_0", "PENDING", "Resources"))
    monitor.find_expired(2000.0)
    leave_record(records, "3.1", 3)
    ends = ends_of(_Cluster({TaskId(29, 0): account("FAILED")}), records)
    (end,) = ends.of([member(monitor)], 101.0)
    assert isinstance(end, Ended)
    assert (end.cause, end.exit) == (Cause.EXIT, 3)


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
