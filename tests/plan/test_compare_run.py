"""What a run was made from is compared with what is there, where that is possible."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.progress_notes import ProgressNotes

from longshore.plan.changes import compare_run
from longshore.plan.stages import Stage, run_stages
from longshore.runstate.open_run import open_run

PIPELINE = "pipeline: {tasks: {one: {command: 'echo one'}}}\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a prepared run, whose configuration has another command now."""
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text(PIPELINE, "utf-8")
    _, root = run_stages(Path("run.yaml"), Stage.PREPARE, progress=ProgressNotes())
    assert root
    Path("run.yaml").write_text(PIPELINE.replace("echo one", "echo two"), "utf-8")
    return root


def test_a_changed_command_is_a_difference(root: Path) -> None:
    comparison = compare_run(open_run(str(root)))
    assert (comparison.differs, comparison.note) == (True, "")


def test_the_configuration_of_another_user_is_not_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: root.stat().st_uid + 1)
    comparison = compare_run(open_run(str(root)))
    assert not comparison.differs
    assert comparison.note == "the run belongs to another user, so its configuration is not read anew"


@pytest.mark.parametrize("lost", ["made-from.json", "origins.json"])
def test_a_run_whose_record_is_gone_is_not_compared(root: Path, lost: str) -> None:
    (root / lost).unlink()
    comparison = compare_run(open_run(str(root)))
    assert comparison.note == "what the run was made from is not recorded, or its record cannot be read"
