"""Failure groups count every failed job once, with an example each, for any number of logs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.contract.service import RunPaths, log_path
from longshore.model.event import Ended, Lost
from longshore.model.report import ExitCodes, count_failed_jobs
from longshore.model.states import Cause
from longshore.reports import failures as failure_groups
from longshore.reports.failures import FailedJobs


def names_of(jobs: Iterable[int]) -> dict[int, str]:
    return {job: f"job_{job}" for job in jobs}


def failed(root: Path, ends: dict[int, Ended | Lost | None], *, labels: tuple[str, ...] = ("isr",)) -> FailedJobs:
    return FailedJobs(
        run=RunPaths(root),
        labels=labels,
        label_of=[job % len(labels) for job in range(max(ends, default=0) + 1)],
        jobs=ends,
        names_of=names_of,
        log_of=log_path,
    )


def exit_of(job: int, code: int = 3) -> Ended:
    return Ended(j=job, a=1, exit=code, cause=Cause.EXIT, host="here")


def say(root: Path, job: int, text: str, *, label: str = "isr") -> Path:
    path = root / RunPaths(root).log_of(job, f"job_{job}", label, 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def test_a_run_without_failures_has_no_groups(tmp_path: Path) -> None:
    assert failed(tmp_path, {}).groups() == ()


def test_logs_that_differ_in_numbers_are_one_group(tmp_path: Path) -> None:
    for job in range(5):
        say(tmp_path, job, f"start\nKeyError: visit {job}\nbye\n" if job else "MemoryError\n")
    (tmp_path / "wms").mkdir()
    (tmp_path / "wms" / "run-job").touch()
    first, second = failed(tmp_path, {job: exit_of(job) for job in range(5)}).groups()
    assert (first.message, first.count, first.unread) == ("KeyError: visit <n>", 4, 0)
    assert (first.job, first.host, first.attempt) == ("job_1", "here", 1)
    assert first.tail == ("start", "KeyError: visit 1", "bye")
    assert first.log == str(tmp_path / "logs/isr/00/job_1.1.log")
    assert first.by_hand == f"{tmp_path}/wms/run-job job_1"
    assert (second.message, second.count) == ("MemoryError", 1)


def test_the_reason_of_one_job_without_a_log_keeps_its_numbers(tmp_path: Path) -> None:
    reason = "2 of 4 tasks are done, and are not run again"
    ends: dict[int, Ended | Lost | None] = {
        job: msgspec.structs.replace(exit_of(job), reason=reason) for job in range(2)
    }
    (one,) = failed(tmp_path, {0: ends[0]}).groups()
    assert one.message == reason
    (both,) = failed(tmp_path, ends).groups()
    assert (both.message, both.count) == ("<n> of <n> tasks are done, and are not run again", 2)


def test_the_final_job_is_named_after_the_failures_that_it_may_follow_from(tmp_path: Path) -> None:
    jobs = failed(
        tmp_path, {2: exit_of(2), 1: exit_of(1, code=4), 0: exit_of(0, code=5)}, labels=("a", "b", "finalJob")
    )
    assert [group.label for group in jobs.groups()] == ["b", "a", "finalJob"]
    alone = failed(tmp_path, {2: exit_of(2)}, labels=("a", "b", "finalJob"))
    assert [group.label for group in alone.groups()] == ["finalJob"]


def test_of_ten_thousand_equal_failures_a_sample_of_logs_is_read(tmp_path: Path) -> None:
    for job in range(10_000):
        if job % 50 == 0:
            say(tmp_path, job, f"KeyError: visit {job}\n")
    ends: dict[int, Ended | Lost | None] = {job: exit_of(job) for job in range(10_000)}
    groups = failed(tmp_path, ends).groups()
    assert all(group.count + group.unread <= 10_000 for group in groups)
    assert sum(group.count for group in groups) + groups[0].unread == 10_000
    assert sum(group.count for group in groups) <= 40


def test_the_number_of_logs_read_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    def read_tail(path: Path, _lines: int) -> tuple[str, ...]:
        read.append(path)
        return ("KeyError: x",)

    monkeypatch.setattr(failure_groups, "read_tail", read_tail)
    ends: dict[int, Ended | Lost | None] = {job: exit_of(job, code=job) for job in range(1000)}
    groups = failed(tmp_path, ends).groups()
    assert len(groups) == 1000
    assert all((group.count, group.unread) == (1, 0) for group in groups)
    assert len(set(read)) == len(read) == 400
    assert count_failed_jobs(groups) == 1000


@given(st.dictionaries(st.integers(0, 300), st.sampled_from([1, 2, 3]), max_size=200))
def test_each_failed_job_counts_once(codes: dict[int, int]) -> None:
    groups = failed(Path("/nowhere"), {job: exit_of(job, code) for job, code in codes.items()}).groups()
    assert count_failed_jobs(groups) == len(codes)


def test_failed_jobs_of_two_kinds_with_unread_logs_count_once(tmp_path: Path) -> None:
    ends: dict[int, Ended | Lost | None] = {job: exit_of(job, 1 + (job >= 1000)) for job in range(1500)}
    groups = failed(tmp_path, ends).groups()
    assert [(group.exit_code, group.count + group.unread) for group in groups] == [(1, 1000), (2, 500)]
    assert count_failed_jobs(groups) == 1500


def test_attempts_without_a_log_are_grouped_by_reason(tmp_path: Path) -> None:
    ends: dict[int, Ended | Lost | None] = {
        0: Ended(j=0, a=1, cause=Cause.SUBMIT, reason="no account 'x'"),
        1: Lost(j=1, a=2, why="host n12 is gone"),
        2: None,
    }
    groups = {group.job: group for group in failed(tmp_path, ends).groups()}
    assert (groups["job_0"].log, groups["job_0"].message) == (None, "no account 'x'")
    assert (groups["job_1"].cause, groups["job_1"].attempt, groups["job_1"].tail) == (Cause.LOST, 2, ())
    assert groups["job_1"].log
    assert (groups["job_2"].cause, groups["job_2"].log, groups["job_2"].by_hand) == (None, None, None)


def test_exit_codes_per_label(tmp_path: Path) -> None:
    ends: dict[int, Ended | Lost | None] = {
        0: exit_of(0, 1),
        1: Lost(j=1, a=1, why="gone"),
        2: exit_of(2, 1),
        4: Ended(j=4, a=1, signal=9, cause=Cause.SIGNAL),
    }
    codes = failed(tmp_path, ends, labels=("isr", "warp", "fine")).exit_codes()
    assert codes == {
        "isr": ExitCodes(codes={1: 1}),
        "warp": ExitCodes(codes={9: 1}, unknown=1),
        "fine": ExitCodes(codes={1: 1}),
    }


def test_exit_codes_of_held_jobs(tmp_path: Path) -> None:
    held: dict[int, Ended | Lost | None] = {
        0: None,
        1: Ended(j=1, a=1, signal=9, cause=Cause.OOM),
        2: Ended(j=2, a=1, cause=Cause.OUTPUT),
        3: None,
    }
    ends: dict[int, Ended | Lost | None] = {4: Ended(j=4, a=1, cause=Cause.OUTPUT)}
    jobs = failed(tmp_path, ends, labels=("isr", "warp", "fine"))
    codes = msgspec.structs.replace(
        jobs, held=held, holds={0: 1, 1: 3, 2: 12, 3: 14, 4: 13}, user_hold_codes={1}
    ).exit_codes()
    assert codes == {
        "isr": ExitCodes(codes={14: 1}),
        "warp": ExitCodes(codes={9: 1, 13: 1}),
        "fine": ExitCodes(codes={12: 1}),
    }


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=120))
def test_every_failure_is_counted_once(jobs: list[tuple[int, int]]) -> None:
    ends: dict[int, Ended | Lost | None] = {number: exit_of(number, code) for number, (code, _) in enumerate(jobs)}
    groups = failed(Path("/nowhere"), ends, labels=("a", "b")).groups()
    kinds = {(group.label, group.exit_code): group.unread for group in groups}
    assert sum(group.count for group in groups) + sum(kinds.values()) == len(jobs)


def test_a_log_is_read_again_only_for_another_attempt(tmp_path: Path) -> None:
    path = say(tmp_path, 0, "KeyError: 'a'\n")
    first = failed(tmp_path, {0: exit_of(0)})
    assert first.groups()[0].message == "KeyError: 'a'"
    path.write_text("changed: error\n", "utf-8")
    path.with_name("job_0.2.log").write_text("MemoryError\n", "utf-8")
    ends: dict[int, Ended | Lost | None] = {0: Ended(j=0, a=2, exit=3, cause=Cause.EXIT)}
    assert later(first, {0: exit_of(0)}).groups()[0].message == "KeyError: 'a'"
    assert later(first, ends).groups()[0].message == "MemoryError"


def later(before: FailedJobs, ends: dict[int, Ended | Lost | None]) -> FailedJobs:
    """The failures of a later look, which knows what was read before."""
    return msgspec.structs.replace(before, jobs=ends)
