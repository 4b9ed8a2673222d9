"""The registry: ids that sort by time, entries by age, and no harm when it cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rundir.conftest import AddRun

from longshore.errors import RunNotFoundError
from longshore.rundir.find_run import find_run
from longshore.rundir.registry import (
    RegistryEntry,
    make_run_id,
    read_entries,
    remove_entry,
    reserve_id,
    state_folder,
    write_entry,
)

NOW = 1_795_166_820.0
EPOCH = 1_735_689_600


@given(st.integers(EPOCH, EPOCH + 20 * 366 * 86400), st.integers(1, 10**8))
def test_ids_sort_by_time(second: int, later: int) -> None:
    one, two = make_run_id(second), make_run_id(min(second + later, EPOCH + 20 * 366 * 86400 + 10**6))
    assert one < two
    assert one[0].isalpha()
    assert len(one) == 6
    assert one.isalnum()
    assert not set("ilou") & set(one)


def test_an_id_is_of_a_whole_second() -> None:
    assert make_run_id(NOW) == make_run_id(NOW + 0.9) != make_run_id(NOW + 1)
    # A clock that is wrong still gives one.
    assert make_run_id(0.0) == make_run_id(EPOCH)


def test_runs_of_one_second_get_different_ids() -> None:
    reserved = [reserve_id(NOW) for _ in range(5)]
    names = [name for name, _ in reserved]
    assert len(set(names)) == 5
    assert names == sorted(names)
    assert [moment for _, moment in reserved] == [NOW + number for number in range(5)]
    # They are nobody's runs yet.
    assert list(read_entries()) == []


def test_a_registry_that_cannot_be_written_costs_only_the_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert reserve_id(NOW) == (make_run_id(NOW), NOW)
    assert not write_entry(RegistryEntry(id="k00000", path="/x", name="x", service="local", created_at=NOW))
    remove_entry("k00000")
    assert list(read_entries()) == []
    with pytest.raises(RunNotFoundError):
        find_run("k00000")
    assert find_run(str(tmp_path)).root == tmp_path


def test_a_failed_registration_leaves_nothing(tmp_path: Path) -> None:
    name, _ = reserve_id(NOW)
    # A folder in the way is what an ordinary user and root both fail on.
    (state_folder() / "runs" / f"{name}.json").unlink()
    (state_folder() / "runs" / f"{name}.json").mkdir()
    assert not write_entry(RegistryEntry(id=name, path="/x", name="x", service="local", created_at=NOW))
    assert [path.name for path in (state_folder() / "runs").iterdir()] == [f"{name}.json"]


def test_a_relative_state_directory_is_ignored(monkeypatch: pytest.MonkeyPatch, own_environment: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert state_folder() == own_environment / ".local" / "state" / "longshore"


def test_entries_are_sorted_by_age_without_damaged_ones(add_run: AddRun, tmp_path: Path) -> None:
    for name in ("k00002", "k00001", "k00003"):
        add_run(name)
    folder = state_folder() / "runs"
    (folder / "k00000.json").write_bytes(b"{")
    (folder / "k00004.json").write_bytes(b'{"id": 5}')
    (folder / "k00005.json").mkdir()
    (folder / "note.txt").touch()
    assert [entry.id for entry in read_entries()] == ["k00001", "k00002", "k00003"]
    remove_entry("k00002")
    assert [entry.id for entry in read_entries()] == ["k00001", "k00003"]


def test_runs_of_a_time_before_ids_began_have_ids_of_their_own() -> None:
    assert len({reserve_id(1.7e9)[0] for _ in range(3)}) == 3
