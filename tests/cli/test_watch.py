"""A run that is watched is shown until it is over, and not only until its manager is silent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.silent_service import silent_run

from longshore.cli import watch
from longshore.cli.watch import RunProgress
from longshore.model.report import RunReport
from longshore.model.states import STATE_EXIT_STATUS, JobState
from longshore.reports.report import report_run


@pytest.mark.parametrize("silent", [1, 2, 3, 4])
def test_watch_waits_for_a_silent_workload_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], silent: int
) -> None:
    monkeypatch.setattr(watch, "_INTERVAL_S", 0.0)
    assert watch.watch(silent_run(tmp_path / "run", silent), codes=False) == STATE_EXIT_STATUS[JobState.FAILED]
    said = capsys.readouterr().out
    assert said.count("the workload manager does not answer") == (1 if silent > 1 else 0)
    assert "FAILED" in said


def progress(tmp_path: Path, **changes: Any) -> RunReport:
    return replace(report_run(silent_run(tmp_path / "run", 0), details=False), **changes)


def test_progress_shows_a_pause_and_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = RunProgress()
    running = progress(tmp_path, state=JobState.RUNNING)
    paused = replace(running, paused=True, notes=("PAUSED: lunch",))
    for report in (running, paused, paused, running):
        view.show(report)
    assert ["PAUSED" in line for line in capsys.readouterr().err.splitlines()] == [False, True, False]


@pytest.mark.parametrize(("env", "start"), [({}, "k7f3aa"), ({"FORCE_COLOR": "1"}, "\x1b[3")])
def test_progress_in_a_pipe_has_colors_if_they_are_forced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], env: dict[str, str], start: str
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    RunProgress().show(progress(tmp_path, id="k7f3aa"))
    assert capsys.readouterr().err.startswith(start)


def test_progress_shows_a_silent_workload_manager(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opened = silent_run(tmp_path / "run", 2)
    progress = RunProgress()
    progress.show(report_run(opened, details=False))
    progress.show(report_run(opened, details=False))
    assert capsys.readouterr().err.count("the workload manager does not answer") == 1
