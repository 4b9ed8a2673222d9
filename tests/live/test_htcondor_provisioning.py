"""Provisioning jobs beside a run on a real pool: one that ends, one that fails, one that stays."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.live.condor_runs import CondorSite
from tests.live.runs import until

pytestmark = pytest.mark.live

TEXT = """\
runQuantumCommand: "until test -e {go}; do sleep 0.3; done"
provisionResources: true
provisioning:
  provisioningMaxWallTime: "1:00"
  provisioningScript: |
    #!/bin/bash
    {script}
"""
SCRIPTS = {
    "done": "echo 10 nodes are asked for",
    "fails": "echo the partition is closed >&2; exit 3",
    "goes_on": "while true; do sleep 1; done",
}


def _said(site: CondorSite, run: Path) -> str:
    found = [line for line in site.report(run)["specifics"] if line.startswith("Provisioning: ")]
    assert len(found) == 1
    return str(found[0]).partition(".0 ")[2]


def _begins(site: CondorSite, run: Path, words: str) -> bool:
    return _said(site, run).startswith(words)


def test_provisioning_jobs_are_reported(condor_site: CondorSite) -> None:
    go = condor_site.folder / "go"
    runs = {name: condor_site.begin(TEXT.format(go=go, script=script), name=name) for name, script in SCRIPTS.items()}
    for name, state in (("done", "SUCCEEDED at "), ("fails", "FAILED at "), ("goes_on", "is RUNNING since ")):
        until(partial(_begins, condor_site, runs[name], state), f"'{name}' {state}")
    assert "exit code 3; the run goes on with the machines there are" in _said(condor_site, runs["fails"])
    assert (runs["fails"] / "wms" / "provisioningJob.log").read_text("utf-8") == "the partition is closed\n"
    go.touch()
    for run in runs.values():
        # Whatever became of the machines, the jobs succeeded.
        assert condor_site.ended(run)["state"] == "SUCCEEDED"
    assert _said(condor_site, runs["done"]).startswith("SUCCEEDED at ")
    assert _said(condor_site, runs["fails"]).startswith("FAILED at ")
    assert _said(condor_site, runs["goes_on"]).startswith("was removed with the run, at ")
    for run in runs.values():
        assert f".0 {_said(condor_site, run)}\n" in condor_site.cli("report", "--id", run).stdout
