"""Runs on every real scheduler through the command line: success, failure, restart and records."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from tests.live.runs import CHAIN, DIALECT_SITES, LiveSite

pytestmark = pytest.mark.live

FAILS = "pipetask: {B: {runQuantumCommand: 'echo the disk of the moon is missing; exit 3'}}\n"


@pytest.fixture(params=[*DIALECT_SITES.values(), "condor_site"])
def site(request: pytest.FixtureRequest) -> LiveSite:
    """A user's site on each scheduler in turn."""
    found: LiveSite = request.getfixturevalue(request.param)
    return found


def test_one_run_goes_well_beside_one_that_fails(site: LiveSite) -> None:
    good = site.begin(
        'runQuantumCommand: echo "{jobName} runs" | tee -a ${PWD}/notes\n'
        "finalJob: {command1: 'echo final >> ${PWD}/notes', whenRun: ALWAYS, requestMemory: 50}\n",
        CHAIN,
        name="good",
    )
    bad = site.begin(
        f"numberOfRetries: 1\noverwriteJobFiles: false\nrunQuantumCommand: 'true'\n{FAILS}",
        CHAIN,
        name="bad",
    )
    assert_well(site, good)
    assert_failed(site, bad)


def assert_well(site: LiveSite, run: Path) -> None:
    report = site.ended(run)
    assert (report["state"], report["counts"]["SUCCEEDED"], report["expected"]) == ("SUCCEEDED", 5, 5)
    notes = [line.split()[0] for line in (site.folder / "notes").read_text("utf-8").splitlines()]
    assert notes[-1] == "final"
    assert notes.index("a") < notes.index("b") < notes.index("c")
    (attempt,) = site.attempts(run, "c")
    assert (attempt["exit_code"], attempt["cause"]) == (0, None)
    assert attempt["host"]
    assert attempt["run_s"] is not None
    assert "c runs" in site.cli("logs", run, "c").stdout


def assert_failed(site: LiveSite, run: Path) -> None:
    assert site.ended(run)["state"] == "FAILED"
    assert site.counts(run) == {"SUCCEEDED": 2, "FAILED": 1, "PRUNED": 1}
    shown = site.cli("report", "--id", run).stdout
    assert "exit code 3" in shown
    assert "the disk of the moon is missing" in shown
    attempts = site.attempts(run, "b")
    assert [(each["exit_code"], each["cause"]) for each in attempts] == [(3, "EXIT"), (3, "EXIT")]
    page = site.cli("report", "--id", run, "--html", "-").stdout
    assert "B: 1 job (exit code 3)" in page
    assert "the disk of the moon is missing" in page
    # Four attempts are in the timeline, each with its job and how it ended.
    assert page.count(" (B): failed after ") == 2
    assert page.count("): succeeded after ") == 2
    assert_exported(site, run)


def assert_exported(site: LiveSite, run: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(site.cli("export", run, "--format", "csv").stdout)))
    assert [(row["label"], row["state"]) for row in rows].count(("B", "FAILED")) == 2
    assert all(row["host"] and row["started_at"] and row["log"] for row in rows)
    metrics = site.cli("export", run, "--format", "openmetrics").stdout.splitlines()
    identity = rows[0]["run"]
    assert f'longshore_badput_attempts_total{{run="{identity}",label="B",cause="EXIT"}} 2' in metrics
    assert f'longshore_run_state{{run="{identity}",state="FAILED"}} 1' in metrics
    workflow = json.loads(site.cli("export", run, "--format", "wfformat").stdout)["workflow"]
    assert (len(workflow["specification"]["tasks"]), len(workflow["execution"]["tasks"])) == (4, 2)
    crate = site.folder / "crate"
    assert site.cli("export", run, "--format", "ro-crate", "--output", crate).returncode == 0
    actions = {each["@id"]: each for each in json.loads((crate / "ro-crate-metadata.json").read_bytes())["@graph"]}
    assert actions["#job-b"]["actionStatus"] == "http://schema.org/FailedActionStatus"


def test_a_restart_runs_only_what_did_not_succeed(site: LiveSite) -> None:
    ran = site.submit(
        "numberOfRetries: 0\nrunQuantumCommand: echo {jobName} >> ${PWD}/notes\n"
        "pipetask: {B: {runQuantumCommand: 'test -e ${PWD}/mended && echo {jobName} >> ${PWD}/notes'}}\n",
        CHAIN,
    )
    assert ran.returncode == 19, ran.stderr
    run = ran.json["submit_dir"]
    (site.folder / "mended").touch()
    again = site.cli("restart", run, "--json", "--set", "requestMemory=70")
    assert again.returncode == 0, again.stderr
    assert site.ended(run)["state"] == "SUCCEEDED"
    assert sorted((site.folder / "notes").read_text("utf-8").split()) == ["a", "b", "c", "d"]
    attempts = site.attempts(run, "b")
    assert [(each["exit_code"], site.memory_mb(each)) for each in attempts] == [(1, 50), (0, 70)]
