"""The registry: ids that sort by time, runs found by any of their names, and no harm when it cannot be written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.errors import RunNotFoundError
from longshore.world.runs.registry import (
    LAST_RUN,
    RegistryEntry,
    find_run,
    make_run_id,
    read_entries,
    remove_entry,
    reserve_id,
    state_folder,
    write_entry,
)

NOW = 1_795_166_820.0
EPOCH = 1_735_689_600


def add(tmp_path: Path, name: str, *, at: float = NOW) -> Path:
    root = tmp_path / "runs" / name
    root.mkdir(parents=True)
    assert write_entry(RegistryEntry(id=name, path=str(root), name=name, service="local", created_at=at))
    return root


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


def test_entries_are_sorted_by_age_without_damaged_ones(tmp_path: Path) -> None:
    for name in ("k00002", "k00001", "k00003"):
        add(tmp_path, name)
    folder = state_folder() / "runs"
    (folder / "k00000.json").write_bytes(b"{")
    (folder / "k00004.json").write_bytes(b'{"id": 5}')
    (folder / "k00005.json").mkdir()
    (folder / "note.txt").touch()
    assert [entry.id for entry in read_entries()] == ["k00001", "k00002", "k00003"]
    remove_entry("k00002")
    assert [entry.id for entry in read_entries()] == ["k00001", "k00003"]


def test_a_run_is_found_by_id_beginning_path_and_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = add(tmp_path, "k7f3a1", at=NOW + 5)
    two = add(tmp_path, "k7g000", at=NOW)
    assert find_run("k7f3a1").root == one
    assert find_run("k7f").root == one
    assert find_run("k7g").root == two
    assert find_run(LAST_RUN).root == one
    monkeypatch.chdir(two.parent)
    assert find_run("./k7g000").root == two
    assert find_run(str(one)).root == one
    monkeypatch.chdir(one)
    assert find_run(".").root == one


def test_an_id_wins_over_a_folder_and_a_folder_over_a_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = add(tmp_path, "k7f3a1")
    monkeypatch.chdir(tmp_path)
    for name in ("k7f3a1", "k7f"):
        (tmp_path / name).mkdir()
    assert find_run("k7f3a1").root == run
    assert find_run("k7f").root == tmp_path / "k7f"


def test_a_path_is_followed_to_where_it_leads(tmp_path: Path) -> None:
    run = add(tmp_path, "k7f3a1")
    (tmp_path / "link").symlink_to(run)
    assert find_run(str(tmp_path / "link")).root == run


def test_a_beginning_of_several_is_refused(tmp_path: Path) -> None:
    for number in range(10):
        add(tmp_path, f"k7000{number}")
    with pytest.raises(RunNotFoundError, match="the beginning of 10 run ids: k70000, k70001") as raised:
        find_run("k7")
    assert "k70008" not in str(raised.value)


@pytest.mark.parametrize("reference", ["nobody", "", "@first", "*", "x" * 5000, "a\nb", "k7f3a1x", "é"])
def test_an_unknown_reference_is_refused(tmp_path: Path, reference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    add(tmp_path, "k7f3a1")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunNotFoundError, match="no run '"):
        find_run(reference)


def test_a_misspelled_id_gets_a_suggestion(tmp_path: Path) -> None:
    add(tmp_path, "k7f3a1")
    with pytest.raises(RunNotFoundError, match="Did you mean 'k7f3a1'"):
        find_run("k7f3b1")


def test_an_empty_registry_has_no_last_run(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="no last run"):
        find_run(LAST_RUN)


@pytest.mark.parametrize("name", ["loop", "x" * 300])
def test_a_path_that_leads_nowhere_is_for_others_to_refuse(tmp_path: Path, name: str) -> None:
    if name == "loop":
        (tmp_path / name).symlink_to(tmp_path / name)
    assert find_run(f"{tmp_path}/{name}").root == Path(os.path.abspath(tmp_path / name))  # noqa: PTH100
