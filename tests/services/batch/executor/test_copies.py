"""Copies of attempts whose machine was lost: when they are certainly dead, and what waits for that."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.services.scripts import member as batch_member
from tests.waiting import eventually

from longshore.config.plugins import shipped_path
from longshore.contract.service import RunPaths
from longshore.engine.job_wrapper import WRAPPER
from longshore.errors import ConfigError
from longshore.model.event import Ended, Lost
from longshore.model.states import Cause
from longshore.rundir.batch_records import LEASE_S, MARGIN_S, GivenUp, describe_copy, mark_path, read_marks
from longshore.rundir.check_records import find_batch_damages
from longshore.services.batch.answers import parse_time
from longshore.services.batch.client import PollSchedule
from longshore.services.batch.executor.copies import BootTimes, CopyWatch, LeaseWatch
from longshore.services.batch.executor.monitor import BatchMonitor, LiveAttempt
from longshore.services.batch.records import BatchRecord, BatchRecords
from longshore.services.batch.settings import wants_fence
from longshore.services.slurm.dialect import SlurmDialect
from longshore.system.sharing import seconds_since_boot

TAG = "k1-1-1"
DIALECT = SlurmDialect({})
NODE_FAIL = Ended(j=3, a=1, cause=Cause.LOST, reason="Slurm says NODE_FAIL")
PAST_S = LEASE_S + MARGIN_S
STARTED = "2026-11-20T14:06:30"

gaps = st.lists(st.floats(1.0, LEASE_S), max_size=30)
"""Seconds between renewals that succeed: the wrapper kills its job when there is none for the time of the lease."""


@given(
    gaps=gaps,
    delays=st.lists(st.floats(0.0, MARGIN_S), min_size=31, max_size=31),
    looks=st.lists(st.floats(0.1, 40.0), min_size=1, max_size=200),
    begin=st.floats(0.0, 500.0),
    skew=st.integers(-(10**15), 10**15),
)
def test_no_lease_is_over_while_its_holder_can_live(
    gaps: list[float], delays: list[float], looks: list[float], begin: float, skew: int
) -> None:
    """Renewals are seen late, looks come at any time, and the clocks of host and file server do not agree."""
    renewals = [0.0]
    for gap in gaps:
        renewals.append(renewals[-1] + gap)
    dead_at = renewals[-1] + LEASE_S

    def stamp(now: float) -> int:
        seen = [at for at, delay in zip(renewals, delays, strict=False) if at + delay <= now]
        return int(max(seen, default=0.0) * 1e9) + skew

    now = begin
    watch = LeaseWatch(now, stamp(now))
    for look in looks:
        now += look
        if watch.is_over(now, stamp(now)):
            assert now >= dead_at
            return


@given(st.floats(0.0, 1e6), st.one_of(st.none(), st.integers(0, 10**18)))
def test_a_lease_that_nobody_renews_is_over_in_the_end(since: float, stamp: int | None) -> None:
    watch = LeaseWatch(since, stamp)
    assert not watch.is_over(since + PAST_S - 0.1, stamp)
    assert watch.is_over(since + PAST_S + 0.1, stamp)
    # A file server that does not answer is no renewal.
    assert watch.is_over(since + PAST_S + 0.2, None)


class _Run:
    """A run with one batch of one member, which began on node n1."""

    def __init__(self, root: Path) -> None:
        self.paths = RunPaths(root)
        (root / "wms").mkdir(parents=True)
        shutil.copy(shipped_path("bin", WRAPPER.name), root / WRAPPER)
        self.records = BatchRecords(self.paths)
        book = BatchRecord(tag=TAG, name=TAG, members=((3, 1),), at=1000.0, id=29)
        self.records.write(book, [batch_member(3)])
        self.monitor = BatchMonitor(DIALECT, self.records, PollSchedule())
        self.monitor.add_batch(book, 0.0)
        self.files = self.records.files(TAG)
        self.began = self.files.ends / "3.1.began"

    @property
    def member(self) -> LiveAttempt:
        return self.monitor.members[3, 1]

    def begin(self) -> None:
        self.began.write_text("n1 77 /run/wms/longshore-job\n", "utf-8")
        rows = DIALECT.parse_queue(f"29|29|RUNNING|None|{STARTED}|n1|{TAG}\n")
        list(self.monitor.read_queue(rows, 100.0))

    def leave_record(self, status: int, more: str = "") -> None:
        values = f'"j":3,"a":1,"status":{status},"run":1.05,"host":"n1","batch":"{TAG}"{more}'
        self.began.write_text(f'{{{values},"again":{{{values}}}}}\n', "utf-8")
        self.began.rename(self.files.ends / "3.1")

    def end(self) -> None:
        """Take the end as the executor does."""
        list(self.monitor.remove_ended([NODE_FAIL]))

    @property
    def mark(self) -> GivenUp:
        (mark,) = read_marks(self.paths)
        return mark


@pytest.fixture
def run(tmp_path: Path) -> Iterator[_Run]:
    made = _Run(tmp_path / "run")
    yield made
    # Nothing of it keeps an engine from a resumption.
    assert find_batch_damages(made.paths) == ()


@pytest.mark.parametrize("end", [NODE_FAIL, Lost(j=3, a=1, why="gone")])
def test_a_fenced_attempt_ends_when_its_lease_is_over(run: _Run, end: Ended | Lost) -> None:
    run.begin()
    copies = CopyWatch(run.paths, fence=True, now=0.0)
    assert copies.holds(run.member, end, 0.0)
    assert copies.is_held(run.member)
    assert "waits until its attempt 1 on 'n1' is certainly dead ('fence')" in copies.note
    assert mark_path(run.paths, TAG, (3, 1)).exists(), "its wrapper is told"
    assert list(copies.release(run.member, seconds_since_boot() + PAST_S - 10)) == []
    assert list(copies.release(run.member, seconds_since_boot() + PAST_S + 1)) == [end]
    assert not copies.is_held(run.member)
    assert (run.mark.outcome, describe_copy(run.mark, 0.0), copies.note) == ("lease", "", "")


def released(run: _Run, booted_at: float | None) -> list[Ended | Lost]:
    """Return what a fenced attempt ends with, as soon as the node's boot is known."""
    asked: list[str] = []

    def ask(nodes: str) -> float | None:
        asked.append(nodes)
        return booted_at

    copies = CopyWatch(run.paths, fence=True, now=0.0, boots=BootTimes(ask))
    assert copies.holds(run.member, NODE_FAIL, 0.0)
    assert list(copies.release(run.member, 1.0)) == [], "the question is asked in the background"
    eventually(lambda: asked)
    found = [end for now in (2.0, 2.5, 3.0) for end in _later(copies, run.member, now)]
    assert asked == ["n1"], "asked once in ten seconds"
    return found


def _later(copies: CopyWatch, member: LiveAttempt, now: float) -> list[Ended | Lost]:
    time.sleep(0.02)
    return list(copies.release(member, now)) if copies.is_held(member) else []


@pytest.mark.parametrize(("after_s", "is_dead"), [(60.0, True), (1.0, False), (-60.0, False), (None, False)])
def test_a_fenced_attempt_ends_when_its_node_was_booted_since(run: _Run, after_s: float | None, is_dead: bool) -> None:
    run.begin()
    started_at = parse_time(STARTED)
    assert started_at is not None
    found = released(run, None if after_s is None else started_at + after_s)
    assert found == ([NODE_FAIL] if is_dead else [])
    assert (run.mark.outcome, describe_copy(run.mark, run.mark.at) == "") == ("reboot" if is_dead else "", is_dead)


def test_a_boot_says_nothing_of_a_copy_whose_node_is_not_known(run: _Run) -> None:
    run.begin()
    # A second start was refused: the newest row may be that of its node.
    values = f'"j":3,"a":1,"status":99,"run":0.05,"host":"n2","batch":"{TAG}","refused":true'
    run.began.write_text(f'{{{values},"again":{{{values}}}}}\n', "utf-8")
    run.began.rename(run.files.ends / "3.1")
    list(run.monitor.read_end_records())
    copies = CopyWatch(run.paths, fence=True, now=0.0, boots=BootTimes(lambda _: 1e12))
    preempted = Ended(j=3, a=1, cause=Cause.PREEMPTED)
    assert copies.holds(run.member, preempted, 0.0)
    assert [end for now in (1.0, 2.0, 3.0) for end in _later(copies, run.member, now)] == []
    assert list(copies.release(run.member, seconds_since_boot() + PAST_S + 1)) == [preempted]


def test_a_renewed_lease_holds_a_fenced_attempt(run: _Run) -> None:
    run.begin()
    copies = CopyWatch(run.paths, fence=True, now=0.0)
    assert copies.holds(run.member, NODE_FAIL, 0.0)
    for now in (1e9, 1e9 + PAST_S - 1, 1e9 + 2 * PAST_S - 2):
        os.utime(run.began, (now, now))
        assert list(copies.release(run.member, now)) == []
    assert list(copies.release(run.member, now + PAST_S)) == [NODE_FAIL]


def test_a_fenced_attempt_that_left_a_record_ends_as_it_says(run: _Run) -> None:
    run.begin()
    copies = CopyWatch(run.paths, fence=True, now=0.0)
    assert copies.holds(run.member, NODE_FAIL, 0.0)
    run.leave_record(0)
    list(run.monitor.read_end_records())
    copies.end(run.member)
    assert not copies.is_held(run.member)
    success = Ended(j=3, a=1, exit=0)
    assert not copies.holds(run.member, success, 1.0)
    assert describe_copy(run.mark, 0.0) == ""


def test_a_cancelled_attempt_does_not_wait_for_its_lease(run: _Run) -> None:
    run.begin()
    copies = CopyWatch(run.paths, fence=True, now=0.0)
    assert copies.holds(run.member, NODE_FAIL, 0.0)
    run.monitor.mark_cancelled([(3, 1)])
    assert list(copies.release(run.member, 1.0)) == [NODE_FAIL]


@pytest.mark.parametrize("fence", [False, True])
def test_an_attempt_that_never_began_waits_for_nothing_and_cannot_begin(run: _Run, fence: bool) -> None:
    copies = CopyWatch(run.paths, fence=fence, now=0.0)
    assert not copies.holds(run.member, NODE_FAIL, 0.0)
    assert run.mark.outcome == "unstarted"
    assert describe_copy(run.mark, 0.0) == ""
    assert not copies.keeps(TAG, (3, 1))


@pytest.mark.parametrize("end", [Ended(j=3, a=1, cause=Cause.EXIT, exit=3), Ended(j=3, a=1, cause=Cause.PREEMPTED)])
def test_other_ends_are_not_fenced(run: _Run, end: Ended) -> None:
    run.begin()
    assert not CopyWatch(run.paths, fence=True, now=0.0).holds(run.member, end, 0.0)
    assert list(read_marks(run.paths)) == []


def test_without_a_fence_the_end_comes_at_once_and_the_copy_is_told(run: _Run) -> None:
    run.begin()
    copies = CopyWatch(run.paths, fence=False, now=0.0)
    assert not copies.holds(run.member, NODE_FAIL, 0.0)
    words = "attempt 1 of job 'job3' was given up, and may still run on 'n1', for 180 s at most"
    assert describe_copy(run.mark, run.mark.at) == words
    run.end()
    run.monitor.discard_ends([(3, 1)], copies.keeps)
    assert run.began.exists(), "its wrapper renews the lease in it"
    # Another life goes on with it.
    again = CopyWatch(run.paths, fence=False, now=0.0)
    again.look(PAST_S + 1)
    assert run.mark.outcome == "lease"
    assert not run.files.ends.exists()


@pytest.mark.parametrize("status", [0, 3])
def test_a_late_record_of_the_first_copy_is_told(run: _Run, status: int, caplog: pytest.LogCaptureFixture) -> None:
    run.begin()
    copies = CopyWatch(run.paths, fence=False, now=0.0)
    assert not copies.holds(run.member, NODE_FAIL, 0.0)
    run.end()
    run.monitor.discard_ends([(3, 1)], copies.keeps)
    run.leave_record(status)
    words = f"attempt 1 of job 'job3' was given up, and ended later on 'n1' with exit status {status}"
    # Also where no engine lives that could take note of it.
    assert words in describe_copy(run.mark, 0.0)
    copies.look(10.0)
    assert words in caplog.text
    assert not run.files.ends.exists()
    assert words in describe_copy(run.mark, 0.0), "after its files are gone"


def test_a_copy_that_its_wrapper_killed_is_of_no_concern(run: _Run) -> None:
    run.begin()
    copies = CopyWatch(run.paths, fence=False, now=0.0)
    copies.holds(run.member, NODE_FAIL, 0.0)
    run.end()
    run.leave_record(137, ',"fenced":"told"')
    assert describe_copy(run.mark, 0.0) == ""


def test_a_wrapper_of_an_older_version_has_no_lease_that_could_end(run: _Run) -> None:
    (run.paths.root / WRAPPER).write_text("#!/bin/sh\n", "utf-8")
    run.begin()
    copies = CopyWatch(run.paths, fence=False, now=0.0)
    assert not copies.holds(run.member, NODE_FAIL, 0.0)
    copies.look(1e12)
    assert "has no lease" in describe_copy(run.mark, 1e12)


def test_a_fence_without_a_lease_names_its_way_out(run: _Run) -> None:
    (run.paths.root / WRAPPER).write_text("#!/bin/sh\n", "utf-8")
    run.begin()
    copies = CopyWatch(run.paths, fence=True, now=0.0)
    assert copies.holds(run.member, NODE_FAIL, 0.0)
    assert list(copies.release(run.member, 1e12)) == []
    assert "--job job3 gives the job up, and 'restart' runs it again" in copies.note
    run.monitor.mark_cancelled([(3, 1)])
    assert list(copies.release(run.member, 1.0)) == [NODE_FAIL]


@pytest.mark.parametrize(("own", "wanted"), [({}, False), ({"fence": None}, False), ({"fence": True}, True)])
def test_a_site_may_want_a_fence(own: dict[str, bool | None], wanted: bool) -> None:
    assert wants_fence("slurm", own) is wanted


def test_any_other_value_of_fence_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"slurm\.fence"):
        wants_fence("slurm", {"fence": "maybe"})
