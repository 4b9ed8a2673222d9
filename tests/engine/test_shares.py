"""Shares of a machine: units that the kernel keeps, the queue for them, and histories of many runs held to the rule."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.depth import DEPTH
from tests.simulation.machine_shares import World

from longshore.engine.shares import Entry, SharedFile, read_entries, shares_file, unit_index
from longshore.keeper.program.units import INDEX_SPACE, HeldUnits, UnitFile

pytestmark = pytest.mark.no_cover

_SHARE = 25
_HISTORIES = {"change": 50, "all": 200, "night": 10_000}[DEPTH]


@pytest.fixture
def held(tmp_path: Path) -> Callable[[], HeldUnits]:
    path = tmp_path / "units"
    path.touch()
    return lambda: HeldUnits(UnitFile(os.open(path, os.O_RDWR)))


def test_nobody_takes_what_another_holds(held: Callable[[], HeldUnits]) -> None:
    first, second = held(), held()
    assert first.take("a", [(0, 3, 4), (1, 100, 150)])
    # One processor is left, and too little memory: nothing is taken of either.
    assert not second.take("b", [(0, 1, 4), (1, 60, 150)])
    assert second.file.count_locked(0, 4) == 3
    assert first.file.count_locked(0, 4) == 0
    assert second.take("b", [(0, 1, 4), (1, 50, 150)])
    assert not first.take("c", [(0, 1, 4)])
    second.pass_on("b", None)
    assert first.take("c", [(0, 1, 4)])


def test_units_pass_to_an_heir_without_being_free(held: Callable[[], HeldUnits]) -> None:
    first, second = held(), held()
    assert first.take("a", [(0, 2, 2)])
    first.pass_on("a", "b")
    assert second.file.count_locked(0, 2) == 2
    first.pass_on("b", None)
    assert second.file.count_locked(0, 2) == 0


def test_a_run_that_knows_of_fewer_takes_the_first(held: Callable[[], HeldUnits]) -> None:
    small, large = held(), held()
    assert large.take("a", [(0, 6, 8)])
    assert small.take("b", [(0, 2, 2)])
    assert not large.take("c", [(0, 1, 8)])


def test_the_kernel_releases_what_died(held: Callable[[], HeldUnits]) -> None:
    alive = held()
    if not (child := os.fork()):
        held().take("a", [(0, 2, 2)])
        os._exit(0)
    os.waitpid(child, 0)
    assert alive.take("b", [(0, 2, 2)])


def test_a_child_that_shares_the_file_holds_on(held: Callable[[], HeldUnits]) -> None:
    alive, dying = held(), held()
    assert dying.take("a", [(0, 2, 2)])
    reader, writer = os.pipe()
    if not (child := os.fork()):
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    os.close(dying.file.file)
    assert not alive.take("b", [(0, 1, 2)])
    os.close(writer)
    os.waitpid(child, 0)
    assert alive.take("b", [(0, 1, 2)])


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=12), st.integers(1, 50))
def test_what_is_counted_is_what_others_have(pieces: list[tuple[int, int]], most: int) -> None:
    file = os.memfd_create("units")
    other = os.open(f"/proc/self/fd/{file}", os.O_RDWR)
    try:
        mine, theirs = UnitFile(file), UnitFile(other)
        for start, length in pieces:
            assert theirs.lock(3 * INDEX_SPACE + start, 3 * INDEX_SPACE + start + length)
        covered = {unit for start, length in pieces for unit in range(start, start + length) if unit < most}
        assert mine.count_locked(3, most) == len(covered)
    finally:
        os.close(file)
        os.close(other)


def test_thousands_of_pieces_are_counted(held: Callable[[], HeldUnits]) -> None:
    mine, theirs = held().file, held().file
    for start in range(0, 6_000, 2):
        assert theirs.lock(start, start + 1)
    assert mine.count_locked(0, 6_000) == 3_000


def test_resources_have_units_of_their_own() -> None:
    names = ["cpus", "memory", "disk", "gpus", "licence", "limit:licence", "gpus=0", "gpus=1"]
    assert len({unit_index(name) for name in names}) == len(names)


def test_entries_tell_the_others_and_end_with_their_runs() -> None:
    first, second = SharedFile(shares_file()), SharedFile(shares_file())
    first.write(Entry("k1", holds={"cpus": 2}, jobs=[("a" * 300, {"cpus": 1})] * 40))
    (seen,) = second.read_others()
    assert (seen.run, seen.holds) == ("k1", {"cpus": 2})
    # What is too long for a page is left out.
    assert 0 < len(seen.jobs) < 40
    second.write(Entry("k2"))
    assert [each.run for each in read_entries()] == ["k1", "k2"]
    first.close()
    assert [each.run for each in read_entries()] == ["k2"]
    # Its jobs may go on.
    assert [(each.run, each.holds) for each in second.read_gone()] == [("k1", {"cpus": 2})]
    second.close()


def test_a_run_that_gives_no_sign_is_passed_over() -> None:
    file = SharedFile(shares_file())
    silent, busy = Entry("k1", sign=4), Entry("k2", sign=4)
    assert not file.is_silent(silent, 100.0)
    assert not file.is_silent(busy, 100.0)
    assert not file.is_silent(Entry("k2", sign=5), 104.0)
    assert file.is_silent(silent, 104.0)
    assert not file.is_silent(Entry("k1", sign=5), 105.0)
    file.close()


def test_a_state_folder_on_a_network_has_its_file_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longshore.engine.shares.is_local_file_system", lambda _: False)
    path = shares_file()
    assert path.parent == Path(f"/var/tmp/longshore-{os.getuid()}")
    monkeypatch.setenv("XDG_STATE_HOME", "/elsewhere")
    assert shares_file() != path


@pytest.mark.parametrize("first", range(0, _HISTORIES, _SHARE))
def test_every_history_of_many_runs_keeps_the_rule(first: int) -> None:
    """Nothing is taken twice, who waited longest is next, 30 s keep what is free, and the dead hold nothing."""
    assert not [broken for seed in range(first, first + _SHARE) for broken in World(seed).run()]


def test_a_broken_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave_nothing(*_: object) -> tuple[dict[str, int], dict[str, int], str]:
        return {}, {}, ""

    with monkeypatch.context() as patch:
        patch.setattr("longshore.engine.shares.RunShares._leave_to", leave_nothing)
        assert any("passes" in broken for seed in range(200) for broken in World(seed).run())
    with monkeypatch.context() as patch:
        patch.setattr(HeldUnits, "take", lambda self, holder, _: self.ranges.setdefault(holder, []) == [])
        assert any("takes" in broken for seed in range(200) for broken in World(seed).run())
