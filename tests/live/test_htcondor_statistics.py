"""Statistics of a run on HTCondor, and its second report with every job, which comes from a cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.live.condor_runs import CondorSite
from tests.workflows import Tasks

pytestmark = pytest.mark.live

TASKS: Tasks = {"a1": ("A", []), "a2": ("A", []), "b": ("B", ["a1", "a2"])}


def test_a_finished_run_has_statistics_and_is_reported_again(condor_site: CondorSite) -> None:
    ran = condor_site.submit(
        "numberOfRetries: 1\nrunQuantumCommand: 'sleep 1'\n"
        "pipetask: {B: {runQuantumCommand: 'mkdir ${PWD}/seen || exit 0; exit 3'}}\n",
        TASKS,
    )
    assert ran.returncode == 0, ran.stderr
    run = ran.json["submit_dir"]
    (found,) = condor_site.cli("stats", run, "--json").json["runs"]
    labels = {entry["label"]: entry["statistics"] for entry in found["labels"]}
    assert (labels["B"]["attempts"], labels["B"]["retries"], labels["B"]["badput"]["attempts"]) == (2, 1, 1)
    assert labels["A"]["wait_s"]["known"] == labels["A"]["run_s"]["known"] == 2
    assert labels["A"]["run_s"]["min"] >= 1.0
    assert [entry["host"] for entry in found["hosts"]] != [None]

    first, again = (condor_site.cli("report", "--id", run, "--json").json["runs"] for _ in range(2))
    assert (Path(run) / "cache" / "details.json").exists()
    assert again == first
    assert {job["state"] for job in again[0]["jobs"]} == {"SUCCEEDED"}
