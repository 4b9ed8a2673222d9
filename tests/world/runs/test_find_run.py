"""A run is found by its id, the beginning of its id, a path, or as the last one; anything else is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.world.runs.conftest import AddRun

from longshore.errors import RunNotFoundError
from longshore.world.runs.find_run import LAST_RUN, find_run
from longshore.world.runs.registry import state_folder

NOW = 1_795_166_820.0


def test_a_run_is_found_by_id_beginning_path_and_last(
    add_run: AddRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = add_run("k7f3a1", at=NOW + 5)
    two = add_run("k7g000", at=NOW)
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
    add_run: AddRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = add_run("k7f3a1")
    monkeypatch.chdir(tmp_path)
    for name in ("k7f3a1", "k7f"):
        (tmp_path / name).mkdir()
    assert find_run("k7f3a1").root == run
    assert find_run("k7f").root == tmp_path / "k7f"


def test_a_path_is_followed_to_where_it_leads(add_run: AddRun, tmp_path: Path) -> None:
    run = add_run("k7f3a1")
    (tmp_path / "link").symlink_to(run)
    assert find_run(str(tmp_path / "link")).root == run


def test_a_beginning_of_several_is_refused(add_run: AddRun, tmp_path: Path) -> None:
    for number in range(10):
        add_run(f"k7000{number}")
    with pytest.raises(RunNotFoundError, match="the beginning of 10 run ids: k70000, k70001") as raised:
        find_run("k7")
    assert "k70008" not in str(raised.value)


@pytest.mark.parametrize("reference", ["nobody", "", "@first", "*", "x" * 5000, "a\nb", "k7f3a1x", "é"])
def test_an_unknown_reference_is_refused(
    add_run: AddRun, tmp_path: Path, reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_run("k7f3a1")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunNotFoundError, match="no run '"):
        find_run(reference)


def test_a_misspelled_id_gets_a_suggestion(add_run: AddRun, tmp_path: Path) -> None:
    add_run("k7f3a1")
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


def test_the_last_run_is_the_newest_from_here_and_else_the_newest_of_all(
    add_run: AddRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    here, there, nowhere = (tmp_path / name for name in ("here", "there", "nowhere"))
    for folder in (here, there, nowhere):
        folder.mkdir()
    (tmp_path / "link").symlink_to(here)
    add_run("k00001", at=NOW, submitted_from=str(here))
    one = add_run("k00002", at=NOW + 1, submitted_from=str(here))
    other = add_run("k00003", at=NOW + 2, submitted_from=str(there))
    for folder, run in ((here, one), (tmp_path / "link", one), (there, other)):
        monkeypatch.chdir(folder)
        assert find_run(LAST_RUN).root == run
        assert not caplog.messages
    monkeypatch.chdir(nowhere)
    assert find_run(LAST_RUN).root == find_run(LAST_RUN).root == other
    assert caplog.messages == [
        f"no run was submitted from this directory: '@last' is 'k00003', the newest of all, submitted from '{there}'"
    ]


def test_a_run_that_an_older_version_registered_may_be_the_last(
    add_run: AddRun, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = add_run("k10001", at=NOW)
    (registered,) = state_folder().glob("runs/*.json")
    assert b"submitted_from" not in registered.read_bytes()
    assert find_run(LAST_RUN).root == old
    assert caplog.messages == ["no run was submitted from this directory: '@last' is 'k10001', the newest of all"]
