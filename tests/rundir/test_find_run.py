"""A run is found by its id, the beginning of its id, a path, or as the last one; anything else is refused."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.rundir.conftest import AddRun

from longshore.errors import ConfigError, RunNotFoundError, RunNotMeantError, SubmissionUncertainError
from longshore.rundir.find_run import LAST_RUN, find_run, record_refusal, recorded_refusal
from longshore.rundir.registry import state_folder

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


def test_the_last_run_is_the_newest_from_here_then_of_the_nearest_parent_and_else_of_all(
    add_run: AddRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    here, there, below = (tmp_path / name for name in ("here", "hereby", "here/results"))
    for folder in (here, there, below):
        folder.mkdir()
    (tmp_path / "link").symlink_to(below)
    one = add_run("k00001", at=NOW, submitted_from=str(here))
    two = add_run("k00002", at=NOW + 1, submitted_from=str(here))
    monkeypatch.chdir(here)
    assert find_run(LAST_RUN).root == find_run(LAST_RUN, acts=True).root == two != one
    assert not caplog.messages
    for folder in (below, tmp_path / "link"):
        monkeypatch.chdir(folder)
        assert find_run(LAST_RUN).root == find_run(LAST_RUN, acts=True).root == two
    assert caplog.messages == [f"'@last' is 'k00002' (k00002), submitted from '{here}'"]
    add_run("k00003", at=NOW + 2, submitted_from="/")
    assert find_run(LAST_RUN, acts=True).root == two
    caplog.clear()
    monkeypatch.chdir(there)
    # A run that was submitted from the root is one of a parent, although "hereby" begins as "here" does.
    assert find_run(LAST_RUN, acts=True).root.name == "k00003"


def test_a_command_that_acts_refuses_a_run_of_another_directory_and_names_it(
    add_run: AddRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    run = add_run("k00003", at=NOW, submitted_from=str(there))
    monkeypatch.chdir(here)
    with pytest.raises(RunNotMeantError, match="no run was submitted from this directory or a parent of it") as raised:
        find_run(LAST_RUN, acts=True)
    assert "k00003" in raised.value.hint
    assert str(there) in raised.value.hint
    assert (raised.value.exit_status, raised.value.path) == (5, str(run))
    assert not caplog.messages
    assert find_run(LAST_RUN).root == find_run(LAST_RUN).root == run
    assert find_run("k00003", acts=True).root == run
    (note,) = caplog.messages
    assert note.startswith("no run was submitted from this directory: '@last' is the newest of all, 'k00003' (k00003)")
    assert note.endswith(f", submitted from '{there}'")


def test_in_a_directory_that_was_removed_no_run_is_meant(
    add_run: AddRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    run = add_run("k00001", submitted_from=str(gone))
    add_run("k00000", at=NOW - 9, submitted_from="/")
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert find_run(LAST_RUN).root == run
    with pytest.raises(RunNotMeantError, match="'@last' may not be the run"):
        find_run(LAST_RUN, acts=True)


def test_a_person_means_no_run_that_a_job_submitted_and_a_job_means_its_own(
    add_run: AddRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = str(tmp_path)
    monkeypatch.chdir(here)
    inner = add_run("k00002", at=NOW + 1, submitted_from=here, submitted_in="/runs/outer")
    with pytest.raises(RunNotMeantError, match="by a person") as raised:
        find_run(LAST_RUN, acts=True)
    assert "by a job of '/runs/outer'" in raised.value.hint
    outer = add_run("k00001", at=NOW, submitted_from=here)
    assert find_run(LAST_RUN).root == find_run(LAST_RUN, acts=True).root == outer
    monkeypatch.setenv("LONGSHORE_JOB_RUN_DIR", "/runs/outer")
    assert find_run(LAST_RUN, acts=True).root == inner


def test_after_a_refused_submit_the_last_run_is_not_the_one_before_it(
    add_run: AddRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    run = add_run("k00001", at=time.time() - 9, submitted_from=str(tmp_path))
    with pytest.raises(ConfigError), recorded_refusal():
        raise ConfigError("the key 'x' is unknown\nsecond line")
    with pytest.raises(RunNotMeantError, match=r"was refused at .*: the key 'x' is unknown\n") as raised:
        find_run(LAST_RUN, acts=True)
    assert "type its id: k00001" in raised.value.hint
    assert find_run(LAST_RUN).root == run
    assert "the last submit from this directory was refused at" in caplog.messages[0]
    monkeypatch.chdir("other")
    assert find_run(LAST_RUN, acts=True).root == run
    monkeypatch.chdir(tmp_path)
    newer = add_run("k00002", at=time.time() + 1, submitted_from=str(tmp_path))
    assert find_run(LAST_RUN, acts=True).root == newer


def test_a_submit_that_is_accepted_or_may_be_ends_the_refusal_before_it(
    add_run: AddRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = add_run("k00001", at=time.time() - 9, submitted_from=str(tmp_path))
    record_refusal("no")
    with recorded_refusal():
        pass
    assert find_run(LAST_RUN, acts=True).root == run
    for uncertain in (SubmissionUncertainError("no answer"), KeyboardInterrupt("the run may go on")):
        with pytest.raises(type(uncertain)), recorded_refusal():
            raise uncertain
    monkeypatch.setenv("LONGSHORE_JOB_RUN_DIR", "/runs/outer")
    record_refusal("of a job")
    monkeypatch.delenv("LONGSHORE_JOB_RUN_DIR")
    assert find_run(LAST_RUN, acts=True).root == run
    with pytest.raises(KeyboardInterrupt), recorded_refusal():
        raise KeyboardInterrupt("nothing was submitted")
    with pytest.raises(RunNotMeantError, match="was interrupted at"):
        find_run(LAST_RUN, acts=True)


def test_a_submit_that_is_refused_right_after_several_runs_is_the_last(
    add_run: AddRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # Runs that are submitted in one second have times ahead of the clock.
    add_run("k00001", at=time.time() + 3, submitted_from=str(tmp_path))
    record_refusal("no")
    with pytest.raises(RunNotMeantError, match="the last submit from this directory was refused"):
        find_run(LAST_RUN, acts=True)


def test_a_refused_first_submit_leaves_no_last_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    record_refusal("the key 'x' is unknown")
    for acts in (False, True):
        with pytest.raises(RunNotMeantError, match="the last submit from this directory was refused"):
            find_run(LAST_RUN, acts=acts)


def test_a_run_that_an_older_version_registered_may_be_the_last(
    add_run: AddRun, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = add_run("k10001", at=NOW)
    (registered,) = state_folder().glob("runs/*.json")
    assert b"submitted_from" not in registered.read_bytes()
    assert find_run(LAST_RUN).root == old
    assert caplog.messages == [
        "no run was submitted from this directory: '@last' is the newest of all, 'k10001' (k10001)"
    ]
