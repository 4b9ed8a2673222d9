"""A run is followed to its end, whoever is silent meanwhile; one whose directory goes is told of as such."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.app.silent_service import silent_run

from longshore.app.report.wait import wait_for_end
from longshore.app.runs import poll
from longshore.app.runs.open_run import OpenRun, open_run
from longshore.contract.context import RunPaths
from longshore.errors import RunNotFoundError, RunUnreadableError
from longshore.model.run.report import RunReport
from longshore.model.run.state import JobState
from longshore.model.run.submission import RunIdentity


def opened(root: Path) -> OpenRun:
    card = RunIdentity(
        format=1, id="abcdef", name="n", service="local", longshore="0", created_at=0.0, expected=1, labels={}
    )
    return OpenRun(run=RunPaths(root), card=card)


def test_gone(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="is gone: the run directory was removed or moved"):
        wait_for_end(opened(tmp_path / "gone"), lambda _: None)


def test_torn(tmp_path: Path) -> None:
    with pytest.raises(RunUnreadableError, match=r"workflow\.jsonl"):
        wait_for_end(opened(tmp_path), lambda _: None)


def test_a_run_that_is_nowhere(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="there is no run directory") as caught:
        open_run(str(tmp_path / "nowhere"))
    assert "new path" in caught.value.hint


def test_a_directory_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="is not a run directory"):
        open_run(str(tmp_path))


@pytest.mark.parametrize("silent", [1, 2, 3, 4, 5])
def test_nothing_follows_from_the_silence_of_a_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: int
) -> None:
    monkeypatch.setattr(poll, "POLL_S", 0.0)
    seen: list[RunReport] = []
    assert wait_for_end(silent_run(tmp_path / "run", silent), seen.append).state is JobState.FAILED
    assert (seen[0].state, seen[0].notes) == (
        JobState.UNKNOWN,
        ("it is unknown whether it still runs: the workload manager does not answer",),
    )
