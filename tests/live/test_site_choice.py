"""One workflow file, unchanged, on this machine and on real schedulers: by name, and where the rules send it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.command import Cli
from tests.live.condor_pools import CondorPool
from tests.live.runs import SlurmSite
from tests.live.sge_pools import SgePool, SgeSite

pytestmark = [pytest.mark.live, pytest.mark.full]

SERVICES = {"local": "local", "on-slurm": "slurm", "on-sge": "sge", "on-condor": "htcondor"}
WORKFLOW = """
pipeline:
  dimensions: {n: [1, 2]}
  tasks: {one: {dimensions: [n], command: 'echo {n} > {out}', outputs: {out: "{n}.out"}}}
numberOfRetries: 0
requestMemory: 50
computeSite: auto
siteSelection: {select: {name: cheapest}}
"""


@pytest.fixture
def workflow(
    bare_site: SlurmSite, sge_pool: SgePool, condor_pool: CondorPool, cli: Cli, tmp_path: Path, own_environment: Path
) -> Path:
    """A workflow beside a site of each service."""
    folder = own_environment / ".config" / "longshore" / "sites"
    bare_site.profile.rename(folder / "on-slurm.yaml")
    SgeSite(cli=cli, pool=sge_pool, folder=tmp_path, profile=folder / "on-sge.yaml").describe()
    (folder / "on-condor.yaml").write_text("service: htcondor\n", "utf-8")
    path = tmp_path / "run.yaml"
    path.write_text(WORKFLOW, "utf-8")
    return path


def submit(cli: Cli, *words: str | Path) -> tuple[str, str]:
    """Submit, wait for a good end, and return site and service."""
    ran = cli("submit", *words, "--wait", "--json", timeout=300)
    assert ran.returncode == 0, ran.stderr
    report = json.loads(cli("report", ran.json["submit_dir"], "--json").stdout)["runs"][0]
    assert report["counts"]["SUCCEEDED"] == 2
    return report["site"], report["service"]


def test_one_file_runs_at_each_site_and_where_the_rules_say(cli: Cli, workflow: Path) -> None:
    for site, service in SERVICES.items():
        assert submit(cli, workflow, "--compute-site", site) == (site, service)
    for cheapest in ("on-sge", "on-condor", "on-slurm"):
        for site in ("on-slurm", "on-sge", "on-condor"):
            assert cli("site", "set-state", site, f"cost={1 if site == cheapest else 2}").returncode == 0
        assert submit(cli, workflow) == (cheapest, SERVICES[cheapest])
    explained = cli("site", "match", workflow, "--explain", "--set", "siteSelection.select.name=least_loaded")
    assert explained.stdout.count("cpus_total: ") == 3, explained.stdout
