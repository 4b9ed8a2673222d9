"""Before many jobs are cancelled, `cancel` asks a person at a terminal, and nobody else."""

from __future__ import annotations

import sys

import click
import pytest

from longshore.cli.interventions import confirm_jobs
from longshore.contract.service import JobSelection
from longshore.model.report import RunReport
from longshore.model.states import JobState

COUNTS = {JobState.SUCCEEDED: 90, JobState.RUNNING: 2, JobState.PENDING: 3, JobState.UNREADY: 6}
RUN = RunReport(
    id="k7f3aa", name="study", path="/runs", service="slurm", state=JobState.RUNNING, expected=111, counts={},
    labels={"fit": COUNTS, "sum": {JobState.PENDING: 10}},
)  # fmt: skip


@pytest.mark.parametrize(
    ("selection", "number"),
    [
        (JobSelection(), 21),
        (JobSelection(labels=("fit",)), 11),
        (JobSelection(labels=("sum",)), None),
        (JobSelection(jobs=("fit_1", "fit_2")), None),
        (JobSelection(jobs=tuple(f"fit_{number}" for number in range(11))), 11),
    ],
)
@pytest.mark.parametrize("terminal", [True, False])
def test_more_than_ten_jobs_are_cancelled_after_a_question(
    monkeypatch: pytest.MonkeyPatch, selection: JobSelection, number: int | None, *, terminal: bool
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(click, "confirm", lambda text, **_: asked.append(text))
    for stream in (sys.stdin, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: terminal, raising=False)
    confirm_jobs(RUN, selection)
    assert asked == (
        [f"Cancel {number} jobs of run k7f3aa study that are not over?"] if terminal and number is not None else []
    )
