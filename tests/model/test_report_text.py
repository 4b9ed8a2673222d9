"""The lines that ``print`` shows of the report of a run."""

from __future__ import annotations

from longshore.model.report import Failure, RunReport, RunSummary, report_summary
from longshore.model.states import Cause, JobState

FAILURE = Failure(
    label="fit", cause=Cause.OOM, count=2000, job="fit_7", log="/runs/fit_7.1.log", message="no \x1b room"
)


def report_of(labels: int, failures: int, **fields: object) -> RunReport:
    counts = {JobState.SUCCEEDED: labels, JobState.FAILED: 0}
    made = {f"l{number}": {JobState.SUCCEEDED: 1, JobState.FAILED: 0} for number in range(labels)}
    found = RunSummary(failures=(FAILURE,) * failures)
    record = {"id": "k7f3aa", "name": "study", "path": "/runs", "service": "slurm", "state": JobState.SUCCEEDED}
    return RunReport(**record, expected=labels, counts=counts, labels=made, summary=found, **fields)  # type: ignore[arg-type]


def test_a_failure_has_its_jobs_its_cause_and_a_log() -> None:
    lines = report_summary(report_of(1, 1, notes=("the engine is gone",))).splitlines()
    assert lines == [
        "k7f3aa  study  SUCCEEDED on slurm",
        "  1 job, succeeded 1/1, failed 0/1",
        "  l0: 1 succeeded",
        r"Failed: 2,000 jobs of fit, for example fit_7 (OOM): no \x1b room; log: /runs/fit_7.1.log",
        "Note: the engine is gone",
    ]


def test_a_large_report_stays_short() -> None:
    lines = report_summary(report_of(22, 7, site="lab")).splitlines()
    assert lines[0].endswith(" on lab")
    assert lines[21:23] == ["  l19: 1 succeeded", "  and 2 more labels"]
    assert lines[-1] == "Failed: 2 more groups of jobs"
    assert len(lines) == 2 + 21 + 6


def test_a_label_without_jobs_and_a_report_without_summary() -> None:
    record = RunReport(
        id="", name="w", path="", service="", state=JobState.UNKNOWN, expected=0, counts={}, labels={"a": {}}
    )
    assert report_summary(record).splitlines()[1:] == ["  0 jobs, succeeded 0/0, failed 0/0", "  a: no jobs"]
    assert repr([record]) == "[<RunReport  w UNKNOWN: 0 jobs>]"
