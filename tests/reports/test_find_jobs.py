"""Jobs are found by name, beginning of a name, or number; a message leads to what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.written_run import WrittenRun

from longshore.errors import RunNotFoundError
from longshore.model.json_lines import encode_line
from longshore.model.workflow import JobSettings
from longshore.model.workflow_lines import FORMAT, StoredJob, WorkflowHeader
from longshore.rundir.job_table import JobTable
from longshore.runstate.open_run import find_job

NAMES = ("count_A", "count_B", "sum")


@pytest.fixture
def run(tmp_path: Path) -> WrittenRun:
    made = WrittenRun(tmp_path / "run")
    settings = (JobSettings(label="count"), JobSettings(label="sum"))
    header = WorkflowHeader(v=FORMAT, name="w", jobs=3, files=0, final=False, settings=settings, attributes={})
    jobs = [StoredJob(name=name, s=int(name == "sum"), p=(), c="true") for name in NAMES]
    made.run.workflow.write_bytes(b"".join(map(encode_line, [header, *jobs])))
    return made


@pytest.mark.parametrize(
    ("reference", "hint"),
    [
        ("count", "Give more of the name, or take the label: longshore logs k7f3aa --label count"),
        ("count_", "Give more of the name."),
        ("coutn_A", "Did you mean 'count_A'?"),
    ],
)
def test_a_name_that_fits_no_job_or_several(run: WrittenRun, reference: str, hint: str) -> None:
    with pytest.raises(RunNotFoundError) as told:
        find_job(run.opened, JobTable(run.run, "names"), reference)
    assert told.value.hint.replace(run.opened.reference, "k7f3aa") == hint


@pytest.mark.parametrize(("reference", "job"), [("count_B", 1), ("su", 2), ("0", 0)])
def test_a_name_that_fits_one_job(run: WrittenRun, reference: str, job: int) -> None:
    assert find_job(run.opened, JobTable(run.run, "names"), reference) == job
