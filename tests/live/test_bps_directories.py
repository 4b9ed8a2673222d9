"""The real ``bps`` and Longshore work on each other's directories, on a real pool."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.bps_environment import BpsEnvironment
from tests.live.condor_runs import CondorSite
from tests.live.runs import until
from tests.pages import DOC, type_page

pytestmark = [pytest.mark.live, pytest.mark.bps]

DATA = Path(__file__).resolve().parents[1] / "data" / "lsst"
RUN = """operator: someone
project: dev
campaign: quick
payload:
  payloadName: demo
  butlerConfig: repo
  output: "u/{operator}/{payloadName}"
qgraphFile: g6.qg
updateQuantumGraph: cp {inputQgraphFile} {qgraphFile}
requestMemory: 100
runQuantumCommand: "/bin/sh job.sh {qgraphNodeId}"
pipetask:
  pipetaskInit: {runQuantumCommand: "/bin/echo {butlerConfig}"}
finalJob: {requestCpus: 1, requestMemory: 100, command1: "echo final"}
"""
FAILS = 'case $1 in *-713a-*) test -e go || exit 2;; esac\necho "$1"\n'
"""A job of the graph, which fails until there is a file ``go`` in this directory."""


class Campaign:
    """A folder with a configuration, in which both tools are typed."""

    def __init__(self, site: CondorSite, environment: BpsEnvironment, folder: Path) -> None:
        self._site = site
        self._environment = environment
        self.folder = folder
        shutil.copy(DATA / "g6.qg", folder)

    def bps(self, *words: str | Path) -> str:
        """Type ``bps`` and return what it printed."""
        env = self._environment.variables({"CONDOR_CONFIG": os.environ["CONDOR_CONFIG"]})
        done = subprocess.run(
            [self._environment.folder / "bin" / "bps", *words],
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )
        return done.stdout + done.stderr

    def submit(self, name: str, job: str) -> Path:
        """Submit a run with the real BPS, whose jobs run a script."""
        script = self.folder / f"{name}.sh"
        script.write_text(job.replace(" go ", f" {self.folder}/go "), "utf-8")
        text = RUN.replace("job.sh", str(script)) + f"submitPath: {self.folder}/{name}\n"
        (self.folder / f"{name}.yaml").write_text(text, "utf-8")
        said = self.bps("submit", f"{name}.yaml")
        assert "Run Id:" in said, said
        return self.folder / name

    def report(self, folder: Path) -> dict[str, Any]:
        """Longshore's report of a directory."""
        found: dict[str, Any] = self._site.cli("report", folder, "--json").json["runs"][0]
        return found

    def ends(self, folder: Path) -> str:
        """Wait for the end of a run, and return its state."""
        until(lambda: self.report(folder)["state"] in {"SUCCEEDED", "FAILED", "DELETED"}, "the run is over")
        return str(self.report(folder)["state"])


@pytest.fixture
def campaign(condor_site: CondorSite, bps: BpsEnvironment, tmp_path: Path) -> Campaign:
    return Campaign(condor_site, bps, tmp_path)


def test_a_run_of_bps_fails_and_either_tool_restarts_it(campaign: Campaign, condor_site: CondorSite) -> None:
    folder = campaign.submit("failing", FAILS)
    assert campaign.ends(folder) == "FAILED"
    counts = {state: count for state, count in campaign.report(folder)["counts"].items() if count}
    assert counts == {"FAILED": 1, "PRUNED": 1, "SUCCEEDED": 6}
    until(lambda: not condor_site.pool.queue("ClusterId"), "DAGMan has left the queue")

    said = campaign.bps("restart", "--id", folder)
    assert "Run Id:" in said, said
    until(lambda: len(condor_site.cli("events", folder).stdout.split('"event":"finished"')) == 3, "it failed again")
    until(lambda: not condor_site.pool.queue("ClusterId"), "DAGMan has left the queue")

    (campaign.folder / "go").touch()
    ran = condor_site.cli("restart", folder)
    assert ran.returncode == 0, ran.stderr
    assert campaign.ends(folder) == "SUCCEEDED"
    said = campaign.bps("report", "--id", folder)
    assert "SUCCEEDED 100" in said, said


def test_longshore_cancels_a_run_of_bps(campaign: Campaign, condor_site: CondorSite) -> None:
    folder = campaign.submit("long", "sleep 600\n")
    until(lambda: campaign.report(folder)["labels"]["isr"].get("RUNNING"), "jobs run")
    assert condor_site.cli("hold", folder, "--label", "isr").returncode == 0
    until(lambda: campaign.report(folder)["labels"]["isr"].get("HELD") == 2, "jobs are held")
    assert condor_site.cli("cancel", folder, "--no-final").returncode == 0
    assert campaign.ends(folder) == "DELETED"
    assert "DELETED" in campaign.bps("report", "--id", folder)


def _rows(report: str) -> dict[str, dict[str, int]]:
    """Read the table of a report of BPS's: the numbers of each label, by state."""
    lines = report.splitlines()
    head = next(number for number, line in enumerate(lines) if line.split()[:2] == ["UNKNOWN", "MISFIT"])
    columns = lines[head].split()
    found = (line.split() for line in lines[head:] if len(line.split()) == len(columns) + 1)
    return {label: dict(zip(columns, map(int, counts), strict=True)) for label, *counts in found if label[0] != "-"}


def test_bps_reports_and_cancels_a_run_of_longshore(campaign: Campaign, condor_site: CondorSite) -> None:
    text = """payloadName: mine
wmsServiceClass: htcondor
computeSite: here
site: {here: {}}
submitPath: mine
ordering: {o: {labels: "isr,calib", dimensions: visit}}
finalJob: {command1: "true"}
pipeline:
  dimensions: {visit: [1, 2]}
  tasks:
    isr: {dimensions: [visit], command: "true"}
    calib: {dimensions: [visit], command: "sleep 600"}
"""
    (campaign.folder / "mine.yaml").write_text(text, "utf-8")
    assert condor_site.cli("submit", "mine.yaml", cwd=campaign.folder).returncode == 0
    run = campaign.folder / "mine"
    until(lambda: campaign.report(run)["labels"]["calib"].get("RUNNING"), "a job runs")
    said = campaign.bps("report", "--id", run / "wms")
    rows = _rows(said)
    assert (rows["calib"]["RUNNING"], rows["calib"]["UNREADY"], rows["calib"]["EXPECTED"]) == (1, 1, 2), said
    assert (rows["isr"]["UNREADY"], rows["isr"]["EXPECTED"]) == (1, 2), said
    assert "status: RUNNING" in campaign.bps("status", "--id", run / "wms")
    assert "Successfully canceled" in campaign.bps("cancel", "--id", run / "wms")
    assert campaign.ends(run) == "DELETED"
    assert "status: DELETED" in campaign.bps("status", "--id", run / "wms")


def programs(bps: BpsEnvironment, folder: Path) -> Path:
    """Make ``bps`` and ``longshore`` programs: the latter runs with this Python, and LSST's packages of the other."""
    (folder / "bin").mkdir()
    (folder / "bin" / "bps").symlink_to(bps.folder / "bin" / "bps")
    (packages,) = (bps.folder / "lib").glob("python*/site-packages")
    start = f"import runpy, sys; sys.path.append('{packages}'); runpy.run_module('longshore', run_name='__main__')"
    program = folder / "bin" / "longshore"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{start}" "$@"\n', "utf-8")
    program.chmod(0o755)
    return folder / "bin"


def test_commands_of_the_page_work(
    condor_site: CondorSite, bps: BpsEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = bps.variables()
    for name in ("CTRL_MPEXEC_DIR", "DAF_BUTLER_DIR"):
        monkeypatch.setenv(name, variables[name])
    monkeypatch.setenv("PATH", f"{programs(bps, tmp_path)}:{condor_site.pool.path}")
    shutil.copy(DATA / "g6.qg", tmp_path)
    assert type_page(DOC / "how-to" / "coming-from-bps.md", "bps", tmp_path, str) == 3
