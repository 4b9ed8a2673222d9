"""Waiting ends with the run, also if the manager is silent for a while; a removed directory is an error."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.silent_service import silent_run

from longshore.contract.service import RunPaths
from longshore.errors import RunNotFoundError, RunUnreadableError
from longshore.model.report import RunReport
from longshore.model.states import JobState
from longshore.model.submission import RunIdentity
from longshore.reports import status
from longshore.reports.status import wait_for_end
from longshore.rundir.run_directory import write_card
from longshore.runstate import events
from longshore.runstate.open_run import OpenRun, open_run


def opened(root: Path) -> OpenRun:
    card = RunIdentity(
        format=1, id="abcdef", name="n", service="local", longshore="0", created_at=0.0, expected=1, labels={}
    )
    return OpenRun(run=RunPaths(root), card=card)


def test_waiting_for_a_removed_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="is gone: the run directory was removed or moved"):
        wait_for_end(opened(tmp_path / "gone"), lambda _: None)


def test_waiting_for_a_damaged_run_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "_REMOVAL_S", 0.0)
    with pytest.raises(RunUnreadableError, match=r"workflow\.jsonl"):
        wait_for_end(opened(tmp_path), lambda _: None)


def test_a_directory_that_lost_a_file_first_is_told_as_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = silent_run(tmp_path / "run", 0)
    run.run.workflow.unlink()
    monkeypatch.setattr(events, "pause_after_poll", lambda *_: shutil.rmtree(run.run.root))
    with pytest.raises(RunNotFoundError, match="is gone: the run directory was removed or moved"):
        wait_for_end(run, lambda _: None)


def test_a_whole_directory_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = silent_run(tmp_path / "run", 0)
    write_card(run.run, opened(run.run.root).card)
    run.run.workflow.write_text("no JSON\n")

    def refuse(*_: float) -> None:
        raise AssertionError("it waits")

    monkeypatch.setattr(events, "pause_after_poll", refuse)
    with pytest.raises(RunUnreadableError, match=r"workflow\.jsonl"):
        wait_for_end(run, lambda _: None)


def test_opening_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="there is no run directory") as caught:
        open_run(str(tmp_path / "nowhere"))
    assert "new path" in caught.value.hint


def test_opening_a_directory_without_a_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="is not a run directory"):
        open_run(str(tmp_path))


@pytest.mark.parametrize("silent", [1, 2, 3, 4, 5])
def test_waiting_goes_on_while_the_manager_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: int
) -> None:
    monkeypatch.setattr(events, "POLL_S", 0.0)
    seen: list[RunReport] = []
    report = wait_for_end(silent_run(tmp_path / "run", silent), seen.append)
    assert report.state is JobState.FAILED
    assert report.summary is not None
    assert all(each.summary is None for each in seen), "it is made once, at the end"
    assert (seen[0].state, seen[0].notes) == (
        JobState.UNKNOWN,
        ("it is unknown whether it still runs: the workload manager does not answer",),
    )


def test_an_unknown_state_is_confirmed_after_a_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that is being removed may lose its journal first."""
    run = silent_run(tmp_path / "run", 0)
    seen: list[RunReport] = []

    monkeypatch.setattr(OpenRun, "is_alive", lambda _: False)
    shutil.rmtree(run.run.journal)
    monkeypatch.setattr(events, "pause_after_poll", lambda *_: shutil.rmtree(run.run.root))
    with pytest.raises(RunNotFoundError, match="is gone: the run directory was removed or moved"):
        wait_for_end(run, seen.append)
    assert [report.state for report in seen] == [JobState.UNKNOWN]
