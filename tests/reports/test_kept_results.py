"""Results that a run took over from an earlier one: reports, explanations and logs lead to that run."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.written_run import WrittenRun, run_with_kept_results

from longshore.errors import RunNotFoundError
from longshore.reports.explain import explain_job
from longshore.reports.logs import find_logs
from longshore.reports.report import report_run


@pytest.fixture
def reused(tmp_path: Path) -> WrittenRun:
    return run_with_kept_results(tmp_path / "run")


def test_explain_names_the_run_and_the_command_that_prints_the_log(reused: WrittenRun) -> None:
    text = explain_job(reused.opened, "j1").text
    assert "  Its result was kept from run 'bryvbx'." in text.splitlines()
    assert "Attempt 1: kept from run 'bryvbx'; its log: longshore logs bryvbx j1" in text.splitlines()
    assert "its result was kept from run 'bryvbx'" in text.rpartition("History")[2]
    for word in ("reused_from", "batch", ".log\n", "Attempt 1: succeeded"):
        assert word not in text


def test_the_log_of_such_a_job_is_in_the_earlier_run(reused: WrittenRun) -> None:
    with pytest.raises(RunNotFoundError) as told:
        find_logs(reused.opened, job="j1")
    assert told.value.message == "job 'j1' has no log in this run: its result was kept from run 'bryvbx'"
    assert told.value.hint == "Its log: longshore logs bryvbx j1"
    with pytest.raises(RunNotFoundError, match="no attempt of it has begun"):
        find_logs(reused.opened, job="j2")


def test_the_report_says_how_many_results_were_kept(reused: WrittenRun) -> None:
    assert "Kept: results of 2 jobs, from run 'bryvbx'" in report_run(reused.opened, details=False).specifics


def test_logs_of_a_label_lead_to_the_earlier_run(reused: WrittenRun) -> None:
    of_a, of_b = (find_logs(reused.opened, labels=[label]).notes for label in ("a", "b"))
    assert of_a == ("3 of these jobs have no such log; logs of results that were kept are in run 'bryvbx'",)
    assert of_b == ("3 of these jobs have no such log",)
