"""Declared outputs are checked on the machine of the job, on real schedulers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.live.condor_runs import CondorSite
from tests.live.runs import SlurmSite

pytestmark = pytest.mark.live

PIPELINE = """
numberOfRetries: 0
pipeline:
  dimensions: {sample: [A]}
  tasks:
    one: {dimensions: [sample], command: "echo x > {good}", outputs: {good: "{sample}.good", out: "{sample}.never"}}
    two: {dimensions: [sample], command: "cat {out}", inputs: [out]}
    sole: {dimensions: [sample], command: ["touch", "{own}"], outputs: {own: "{sample} own"}}
"""


def check(site: SlurmSite | CondorSite) -> None:
    path = site.folder / "outputs.yaml"
    path.write_text(f"{site.head}requestMemory: 50\npayloadName: outputs\n{PIPELINE}", "utf-8")
    ran = site.cli("submit", path, "--wait", "--json", timeout=400)
    run = Path(ran.json["submit_dir"])
    jobs = {job["name"]: job for job in site.cli("report", run, "--json").json["runs"][0]["jobs"]}
    states = {name: job["state"] for name, job in jobs.items()}
    assert states == {"one_A": "FAILED", "two_A": "PRUNED", "sole_A": "SUCCEEDED"}, json.dumps(jobs)
    assert (jobs["one_A"]["cause"], jobs["one_A"]["exit_code"]) == ("OUTPUT_MISSING", 0)
    assert jobs["one_A"]["reason"] == f"the output '{site.folder}/A.never' is missing"
    assert "A.never' is missing" in site.cli("logs", run, "one_A").stdout


def test_slurm(slurm_site: SlurmSite) -> None:
    check(slurm_site)


def test_slurm_without_an_engine(slurm_site: SlurmSite) -> None:
    slurm_site.describe(slurm="mode: native\nengineJob: {mem: 300M}")
    check(slurm_site)


def test_htcondor(condor_site: CondorSite) -> None:
    check(condor_site)
