"""The rendered files of a run, byte by byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.services.htcondor.rendering import context, rendered, some_of_everything

GOLDEN = Path(__file__).resolve().parent / "golden"


@pytest.mark.parametrize("name", ["run.dag", "overrides.dag", "dagman.conf", "final-status"])
def test_files_equal_the_golden_files(name: str) -> None:
    """Delete a golden file and run this once to have it written anew; then read what changed."""
    ctx = context({"htcondor": {"maxJobs": {"heavy work": 20}}}, run={"wmsConfig": {"DAGMAN_MAX_JOBS_IDLE": 50}})
    text = rendered(some_of_everything(), ctx)[f"wms/{name}"]
    golden = GOLDEN / name
    if not golden.exists():
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, "utf-8")
        pytest.fail(f"'{golden}' was not there, and is now")
    assert text == golden.read_text("utf-8")


def test_the_same_workflow_gives_the_same_text() -> None:
    assert rendered(some_of_everything(), context()) == rendered(some_of_everything(), context())
