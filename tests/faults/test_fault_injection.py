"""One call of a run fails: the run completes, or says so and is resumed; nothing runs twice after success."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults.injection import count_calls, faults, inject, name_fault
from tests.faults.shim import CallClass, Fault

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


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    "every", [pytest.param(11, marks=pytest.mark.full), pytest.param(1, marks=pytest.mark.bulk)], ids=["some", "all"]
)
@pytest.mark.parametrize("share", range(SHARES))
def test_every_call_may_fail(tmp_path: Path, counts: dict[CallClass, int], share: int, every: int) -> None:
    chosen = faults(counts)[::every]
    check(chosen[share::SHARES], tmp_path)
