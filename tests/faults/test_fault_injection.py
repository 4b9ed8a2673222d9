"""One call of a run fails: the run completes, or says so and is resumed; nothing runs twice after success."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tests.faults.injection import count_calls, engine_log, faults, inject, name_fault
from tests.faults.shim import CallClass, Fault
from tests.faults.small_run import SmallRun

from longshore.model.states import JobState
from longshore.system.room import mount_point

pytestmark = [pytest.mark.usefixtures("compiler"), pytest.mark.no_cover]

SHARES = 8
"""Tests into which the failures are divided, so that they run in parallel."""


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> dict[CallClass, int]:
    return count_calls(tmp_path_factory.mktemp("counted"))


def check(chosen: list[Fault], place: Path) -> None:
    wrong = {}
    for number, fault in enumerate(chosen):
        folder = place / f"{number}"
        if found := inject(fault, folder):
            wrong[name_fault(fault)] = found
    assert wrong == {}


@pytest.mark.parametrize("kind", CallClass)
def test_a_call_of_each_class_may_fail(tmp_path: Path, counts: dict[CallClass, int], kind: CallClass) -> None:
    of_kind = [fault for fault in faults(counts) if fault.kind is kind]
    check([of_kind[len(of_kind) * 2 // 3]], tmp_path)


FULL = {errno.ENOSPC: "is full", errno.EDQUOT: "your quota of the file system"}
"""What an engine says of a disk without room for it."""


def prepared_run(place: Path) -> SmallRun:
    run = SmallRun(place)
    run.prepare_folders()
    run.write()
    return run


@pytest.mark.parametrize("code", FULL, ids=errno.errorcode.get)
def test_a_submission_names_a_full_disk_or_a_quota_that_is_used_up(tmp_path: Path, code: int) -> None:
    run = prepared_run(tmp_path)
    fault = Fault(CallClass.WRITE, 1, code, where="/workflow.jsonl")
    answer = run.command("submit", "run.yaml", env=run.environment(fault))
    assert answer.status == 7
    assert os.strerror(code) in answer.errors
    assert f"Make room on the file system '{mount_point(tmp_path)}'" in answer.errors
    assert not run.root.exists()


@pytest.mark.parametrize("code", FULL, ids=errno.errorcode.get)
def test_an_engine_names_a_full_disk_or_a_quota_that_is_used_up_and_continues(tmp_path: Path, code: int) -> None:
    run = prepared_run(tmp_path)
    fault = Fault(CallClass.WRITE, 3, code, where="/journal/0001.jsonl")
    answer = run.command("submit", "run.yaml", env=run.environment(fault))
    assert answer.status == 0, answer
    assert run.wait_for_end()
    assert FULL[code] in (said := engine_log(run))
    assert f"the file system '{mount_point(tmp_path)}'" in said
    assert run.report().state is JobState.SUCCEEDED


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    "every", [pytest.param(17, marks=pytest.mark.full), pytest.param(1, marks=pytest.mark.bulk)], ids=["some", "all"]
)
@pytest.mark.parametrize("share", range(SHARES))
def test_every_call_may_fail(tmp_path: Path, counts: dict[CallClass, int], share: int, every: int) -> None:
    chosen = faults(counts)[::every]
    check(chosen[share::SHARES], tmp_path)
