"""Files of a run on a real pool: submission by hand, and logs of attempts, kept or overwritten."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.live.condor_runs import CondorSite
from tests.live.runs import until
from tests.workflows import Tasks

pytestmark = pytest.mark.live

CHAIN: Tasks = {"a": ("A", []), "b": ("B", ["a"]), "c": ("C", [])}
TRIES = """\
numberOfRetries: 3
overwriteJobFiles: {overwrite}
runQuantumCommand: 'echo try $LONGSHORE_JOB_ATTEMPT; test $LONGSHORE_JOB_ATTEMPT -ge 3 || exit 9'
"""
GROUPS = """\
wmsServiceClass: htcondor
computeSite: here
site: {{here: {{}}}}
requestMemory: 50
numberOfRetries: 0
pipeline:
  dimensions: {{visit: [1, 2]}}
  tasks:
    isr: {{dimensions: [visit], command: "echo {{visit}} >> {notes}; test {{visit}} = 2 || test -e {mended}"}}
    calibrate: {{dimensions: [visit], after: isr, command: "echo {{visit}} >> {notes}"}}
ordering: {{by_visit: {{labels: "isr, calibrate", dimensions: visit}}}}
finalJob: {{command1: "echo final >> {notes}", whenRun: ALWAYS, requestMemory: 50}}
provisionResources: true
provisioning: {{provisioningMaxWallTime: "1:00", provisioningScript: "sleep 600"}}
"""


def _logs(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "logs").glob("*/*/*.log"))


def test_logs_of_attempts_are_kept_or_overwritten(condor_site: CondorSite) -> None:
    runs = {
        truth: condor_site.begin(TRIES.format(overwrite=truth), name=f"over_{truth}") for truth in ("true", "false")
    }
    for run in runs.values():
        assert condor_site.ended(run)["state"] == "SUCCEEDED"
        assert "try 3" in condor_site.cli("logs", run, "a").stdout
    assert [name.split(".", 2)[2] for name in _logs(runs["false"])] == ["1.log", "2.log", "3.log"]
    assert [name.split(".", 2)[2] for name in _logs(runs["true"])] == ["log"]
    for number in (1, 2, 3):
        assert f"try {number}" in condor_site.cli("logs", runs["false"], "a", "--attempt", str(number)).stdout
    (path,) = (runs["true"] / "logs").glob("*/*/*.log")
    assert path.read_text("utf-8") == "try 3\n"
    # Nobody is told that what the third attempt wrote was of the first.
    gone = condor_site.cli("logs", runs["true"], "a", "--attempt", "1")
    assert (gone.returncode, gone.stdout) == (5, "")
    # A restart is another job to HTCondor, so that nothing of what was before is written over.
    for run in runs.values():
        assert condor_site.cli("restart", run, "--from", "A").returncode == 0
        assert condor_site.ended(run)["state"] == "SUCCEEDED"
        assert "try 3" in condor_site.cli("logs", run, "a").stdout
    assert len(_logs(runs["true"])) == 2
    assert len(_logs(runs["false"])) == 6


def test_a_prepared_dag_is_submitted_by_hand(condor_site: CondorSite) -> None:
    notes, mended = condor_site.folder / "notes", condor_site.folder / "mended"
    path = condor_site.folder / "run.yaml"
    path.write_text(GROUPS.format(notes=notes, mended=mended), "utf-8")
    ran = condor_site.cli("prepare", path, "--json")
    assert ran.returncode == 0, ran.stderr
    run = Path(ran.json["submit_dir"])
    assert _by_hand(condor_site, run) == 1
    # The second group goes on after the first has failed, and the final job does not hide that.
    assert notes.read_text("utf-8").split() == ["1", "2", "2", "final"]
    mended.touch()
    assert _by_hand(condor_site, run) == 0
    assert notes.read_text("utf-8").split()[4:] == ["1", "1", "final"]


def _by_hand(site: CondorSite, run: Path) -> int:
    """Run the DAG as whoever has lost Longshore would, and return DAGMan's exit status."""
    metrics = run / "wms" / "run.dag.metrics"
    metrics.unlink(missing_ok=True)
    subprocess.run(["condor_submit_dag", "run.dag"], cwd=run / "wms", env=site.pool.env, check=True)
    text = until(lambda: metrics.exists() and metrics.read_text("utf-8"), "the end of DAGMan", patience_s=120)
    until(lambda: not site.pool.queue("ClusterId"), "nothing is left")
    return int(text.partition('"exitcode":')[2].partition(",")[0])
