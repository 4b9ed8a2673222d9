"""No random damage of what `verify --list` names stays untold."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from random import Random

import pytest
from tests.faults.damages import KINDS, damage_files, is_crash
from tests.faults.detection import BaseRun, make_runs, try_damages
from tests.faults.places import in_memory

pytestmark = [pytest.mark.usefixtures("compiler"), pytest.mark.no_cover]


@pytest.fixture(scope="module")
def runs() -> Iterator[list[BaseRun]]:
    place = in_memory()
    try:
        yield make_runs(place, ["restarted", "engine-killed", "unfinished", "batch"])
    finally:
        shutil.rmtree(place)


@pytest.mark.parametrize(
    "cases", [1_000, pytest.param(20_000, marks=pytest.mark.bulk), pytest.param(200_000, marks=pytest.mark.bulk)]
)
def test_no_damage_is_accepted_silently(runs: list[BaseRun], cases: int) -> None:
    tally = try_damages(runs, cases, seed=cases)
    assert tally.silent == []
    assert sum(tally.counts.values()) > cases // 2


def test_damage_that_nothing_tells_is_counted(runs: list[BaseRun]) -> None:
    tally = try_damages(runs, 200, find=lambda _: [])
    assert len(tally.silent) > 100


def test_each_kind_of_damage_changes_something() -> None:
    files = {"one": b'{"n":1}\n{"n":2}\n', "other": b'{"m":1}\n'}
    found = {}
    for number in range(500):
        damaged = damage_files(files, Random(number), others=[{"one": b"3", "other": b"4"}])
        for path, content in damaged.changes.items():
            assert content != files[path]
            found[damaged.kind] = content
    assert found.keys() == set(KINDS)


@pytest.mark.parametrize(
    ("after", "is_one"),
    [
        (b"1\n2\n", True),
        (b"1\n2", True),
        (b"1\n", True),
        (b"", True),
        (b"1\n\0\0", True),
        (b"1\n3\n", False),
        (b"2\n", False),
        (b"1\n2\n3\n4\n", False),
        (None, False),
    ],
)
def test_a_crash_leaves_the_beginning_of_a_file(after: bytes | None, is_one: bool) -> None:
    assert is_crash(b"1\n2\n3\n", after) == is_one
