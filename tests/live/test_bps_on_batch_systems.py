"""The real ``bps`` runs workflows on Slurm and Grid Engine, with Longshore as its workload manager."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.bps_environment import BpsEnvironment
from tests.live.runs import DialectSite, until

pytestmark = [pytest.mark.live, pytest.mark.bps]

GRAPH = Path(__file__).resolve().parents[1] / "data" / "lsst" / "g6.qg"
CLASS = "longshore.bps.LongshoreService"
RUN = f"""wmsServiceClass: {CLASS}
computeSite: cluster
operator: someone
project: dev
campaign: quick
payload:
  payloadName: demo
  butlerConfig: repo
  output: "u/{{operator}}/{{payloadName}}"
qgraphFile: g6.qg
updateQuantumGraph: cp {{inputQgraphFile}} {{qgraphFile}}
requestMemory: 50
runQuantumCommand: "/bin/sh COMMAND {{qgraphNodeId}}"
pipetask:
  pipetaskInit: {{runQuantumCommand: "/bin/echo {{butlerConfig}}"}}
finalJob: {{requestCpus: 1, requestMemory: 50, command1: "echo final"}}
"""


@dataclass(frozen=True, kw_only=True)
class BpsUser:
    """Types ``bps`` in a folder beside a batch system."""

    service: str
    site: DialectSite
    environment: BpsEnvironment
    folder: Path

    def bps(self, action: str, *words: str | Path) -> str:
        """Type a command and return what it printed."""
        done = subprocess.run(
            [self.environment.folder / "bin" / "bps", action, *words],
            cwd=self.folder,
            # Submit directories are below it.
            env=self.environment.variables({"PWD": str(self.folder)}),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        return done.stdout + done.stderr

    def submit(self, command: str) -> Path:
        """Submit a run whose quanta run a line of shell, and return its submit directory."""
        (self.folder / "job.sh").write_text(f"{command}\n", "utf-8")
        (self.folder / "run.yaml").write_text(RUN.replace("COMMAND", str(self.folder / "job.sh")), "utf-8")
        typed = self.bps("submit", "run.yaml")
        found = re.search(r"^Submit dir: (.*)$", typed, re.MULTILINE)
        assert found, typed
        assert "Run Id: " in typed
        return Path(found[1])

    def about(self, action: str, run: Path) -> str:
        """Type a command about a run."""
        return self.bps(action, "--wms-service-class", CLASS, "--id", run)


@pytest.fixture(params=["slurm", "sge"])
def user(request: pytest.FixtureRequest, bps: BpsEnvironment, tmp_path: Path) -> BpsUser:
    """A user of BPS with a site on each batch system."""
    shutil.copy(GRAPH, tmp_path)
    site = request.getfixturevalue({"slurm": "kept_site", "sge": "sge_site"}[request.param])
    return BpsUser(service=request.param, site=site, environment=bps, folder=tmp_path)


def test_bps_submits_reports_and_cancels(user: BpsUser) -> None:
    run = user.submit('echo "quantum $1"')
    report = user.site.ended(run)
    assert (report["state"], report["service"]) == ("SUCCEEDED", user.service)
    table = user.about("report", run)
    assert "SUCCEEDED 100" in table, table
    assert re.search(r"^TOTAL +(0 +){8}8 +0 +0 +8$", table, re.MULTILINE), table

    run = user.submit("sleep 600")
    until(lambda: user.site.report(run)["labels"]["isr"].get("RUNNING"), "jobs run")
    assert user.site.tasks(run)
    assert "Successfully canceled" in user.about("cancel", run)
    assert "status: DELETED" in user.about("status", run)
    until(lambda: not user.site.tasks(run), "no task is left")
