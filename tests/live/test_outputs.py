"""Declared outputs are checked on the machine of the job, on real schedulers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.live.condor_runs import CondorSite
from tests.live.runs import DialectSite

pytestmark = pytest.mark.live

PIPELINE = """
numberOfRetries: 0
pipeline:
  dimensions: {sample: [A]}
  tasks:
    one: {dimensions: [sample], command: "echo x > {good}", outputs: {good: "{sample}.good", out: "{sample}.never"}}
    two: {dimensions: [sample], command: "cat {out}", inputs: [out]}
    stay: {dimensions: [sample], command: "true", outputs: {old: "{sample}.old"}}
    sole: {dimensions: [sample], command: ["touch", "{own}"], outputs: {own: "{sample} own"}}
"""


def check(site: DialectSite | CondorSite) -> None:
    path = site.folder / "outputs.yaml"
    path.write_text(f"{site.head}requestMemory: 50\npayloadName: outputs\n{PIPELINE}", "utf-8")
    (site.folder / "A.old").write_text("of last week", "utf-8")
    ran = site.cli("submit", path, "--wait", "--json", timeout=400)
    run = Path(ran.json["submit_dir"])
    report = site.cli("report", run, "--json").json["runs"][0]
    jobs = {job["name"]: job for job in report["jobs"]}
    states = {name: job["state"] for name, job in jobs.items()}
    assert states == {"one_A": "FAILED", "two_A": "PRUNED", "stay_A": "SUCCEEDED", "sole_A": "SUCCEEDED"}, json.dumps(
        jobs
    )
    assert (jobs["one_A"]["cause"], jobs["one_A"]["exit_code"]) == ("OUTPUT_MISSING", 0)
    assert jobs["one_A"]["reason"] == f"the output '{site.folder}/A.never' is missing"
    told = f"the output '{site.folder}/A.old' is as it was before the attempt"
    # 'sole' leaves an empty output.
    assert any(note.startswith("2 jobs succeeded with an output that is stale or empty") for note in report["notes"])
    assert jobs["stay_A"]["reason"] == told
    assert f"Attempt 1: succeeded, but {told}" in site.cli("explain", run, "stay_A").stdout
    assert "A.never' is missing" in site.cli("logs", run, "one_A").stdout


def test_each_dialect(dialect_site: DialectSite) -> None:
    check(dialect_site)


def test_each_dialect_without_an_engine(dialect_site: DialectSite) -> None:
    if not dialect_site.native:
        pytest.skip(f"{dialect_site.title} has no dependencies")
    dialect_site.configure(dialect_site.native)
    check(dialect_site)


def test_htcondor(condor_site: CondorSite) -> None:
    check(condor_site)


def test_htcondor_with_file_transfer(condor_site: CondorSite) -> None:
    lines = (
        {"kind": "longshore-graph", "version": 1, "name": "g", "tasks": 1, "files": 1},
        {"name": "never", "path": "never.txt"},
        {"name": "boil", "label": "boil", "command": "echo hot", "outputs": [0]},
    )
    (condor_site.folder / "g.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    path = condor_site.folder / "transfer.yaml"
    settings = "requestMemory: 50\nnumberOfRetries: 0\nfileSystem: transfer\ngraphFile: g.jsonl\n"
    path.write_text(f"{condor_site.head}{settings}", "utf-8")
    ran = condor_site.cli("submit", path, "--wait", "--json", timeout=400)
    (attempt,) = condor_site.attempts(Path(ran.json["submit_dir"]), "boil")
    assert attempt["cause"] == "OUTPUT_MISSING"
    assert "/never.txt" in attempt["reason"]
