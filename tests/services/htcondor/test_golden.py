"""The rendered files of a run, byte by byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.services.htcondor.rendering import context, rendered, some_of_everything
from tests.services.scripts import assert_golden

GOLDEN = Path(__file__).resolve().parent / "golden"


@pytest.mark.parametrize("name", ["run.dag", "overrides.dag", "dagman.conf", "final-status"])
def test_files_equal_the_golden_files(name: str) -> None:
    ctx = context({"htcondor": {"maxJobs": {"heavy work": 20}}}, run={"wmsConfig": {"DAGMAN_MAX_JOBS_IDLE": 50}})
    assert_golden(GOLDEN / name, rendered(some_of_everything(), ctx)[f"wms/{name}"])


def test_the_same_workflow_gives_the_same_text() -> None:
    assert rendered(some_of_everything(), context()) == rendered(some_of_everything(), context())
