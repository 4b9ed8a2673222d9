"""A kill at any moment of hand-over: submitted again, no job is lost and none runs twice."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
import yaml
from tests.command import Cli
from tests.live.condor_runs import CondorSite
from tests.live.pools import SlurmPool
from tests.live.runs import until
from tests.workflows import wfformat

pytestmark = pytest.mark.live

# A user's own services, which die at a certain moment if a variable says so.
CONDOR = """
import os, signal
from longshore.services.htcondor.schedd.client import CondorClient
from longshore.services.htcondor.service import HTCondorService

handed = CondorClient.submit_dag


def before(self, *words):
    os.kill(os.getpid(), signal.SIGKILL)


def behind(self, *words):
    handed(self, *words)
    os.kill(os.getpid(), signal.SIGKILL)


class Service(HTCondorService):
    def submit(self, run):
        submission = super().submit(run)
        if os.environ.get("KILL") == "said":
            os.kill(os.getpid(), signal.SIGKILL)
        return submission


if os.environ.get("KILL") in ("before", "behind"):
    CondorClient.submit_dag = globals()[os.environ["KILL"]]
"""
SLURM = """
import os, signal
from longshore.services.batch.native.native_run import NativeRun
from longshore.services.slurm.service import SlurmService


def dying(name):
    real = getattr(NativeRun, name)

    def kill_at(self, *words):
        if name == "_submit_batch":
            real(self, *words)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(NativeRun, name, kill_at)


class Service(SlurmService):
    def submit(self, run):
        submission = super().submit(run)
        if os.environ.get("KILL") == "said":
            os.kill(os.getpid(), signal.SIGKILL)
        return submission


if os.environ.get("KILL", "").startswith("_"):
    dying(os.environ["KILL"])
"""
COMMAND = "echo {jobName} >> ${PWD}/notes"


def notes(folder: Path) -> list[str]:
    """Return the output of the run's jobs."""
    path = folder / "notes"
    return sorted(path.read_text("utf-8").split()) if path.exists() else []


@pytest.mark.parametrize("moment", ["before", "behind", "said"])
def test_htcondor(condor_site: CondorSite, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    folder = condor_site.folder
    monkeypatch.setenv("PYTHONPATH", str(folder))
    (folder / "dies.py").write_text(CONDOR, "utf-8")
    path = condor_site.write(f"runQuantumCommand: {COMMAND}\nsubmitPath: {folder / 'here'}\n")
    path.write_text(path.read_text("utf-8").replace("wmsServiceClass: htcondor", "wmsServiceClass: dies.Service"))
    killed = condor_site.cli("submit", path, env={"KILL": moment})
    assert killed.returncode == -signal.SIGKILL
    run = folder / "here"
    if moment == "before":
        assert "began to submit it" in condor_site.cli("report", "--id", run).stdout
    else:
        # It comes to its end before anybody looks: it is found where HTCondor keeps what is over.
        until(lambda: notes(folder) == ["a"] and not condor_site.pool.queue("ClusterId"), "the run is over")
    again = condor_site.cli("submit", run, "--wait", "--json")
    assert again.returncode == 0, again.stderr
    assert any(note.startswith("the submission is complete") for note in again.json["notes"]) == (moment != "before")
    assert notes(folder) == ["a"]
    assert not (run / "submitting.json").exists()
    assert condor_site.report("@last")["path"] == str(run)
    once_more = condor_site.cli("submit", run)
    assert once_more.returncode == 6
    assert "was submitted already" in once_more.stderr


def test_a_restart_of_htcondors(condor_site: CondorSite, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = condor_site.folder
    monkeypatch.setenv("PYTHONPATH", str(folder))
    (folder / "dies.py").write_text(CONDOR, "utf-8")
    path = condor_site.write(
        f"numberOfRetries: 0\nrunQuantumCommand: 'test -e {folder}/go && {COMMAND}'\nsubmitPath: {folder / 'here'}\n"
    )
    path.write_text(path.read_text("utf-8").replace("wmsServiceClass: htcondor", "wmsServiceClass: dies.Service"))
    assert condor_site.cli("submit", path, "--wait").returncode == 19
    (folder / "go").touch()
    run = folder / "here"
    before = condor_site.cli("report", "--id", run, "--json").json["runs"][0]["counts"]
    assert condor_site.cli("restart", run, env={"KILL": "before"}).returncode == -signal.SIGKILL
    shown = condor_site.cli("report", "--id", run)
    assert "Another restart was begun" in shown.stdout
    assert condor_site.report(run)["counts"] == before
    assert condor_site.cli("restart", run, env={"KILL": "behind"}).returncode == -signal.SIGKILL
    until(lambda: notes(folder) == ["a"] and not condor_site.pool.queue("ClusterId"), "the run is over")
    again = condor_site.cli("restart", run)
    assert again.returncode == 6
    assert "every job succeeded" in again.stderr
    assert condor_site.report(run)["state"] == "SUCCEEDED"
    assert len(json.loads((run / "run.json").read_text("utf-8"))["submissions"]) == 2
    assert sorted(path.name for path in (run / "wms" / "backups").iterdir()) == ["001"]


def native(folder: Path, pool: SlurmPool) -> Path:
    """A run in Slurm's native mode."""
    (folder / "dies.py").write_text(SLURM, "utf-8")
    graph = {"a": ("A", []), "b": ("B", ["a"])}
    (folder / "graph.json").write_text(json.dumps(wfformat(graph)), "utf-8")
    slurm = {"config": str(pool.conf), "mode": "native", "engineJob": {"mem": "300M"}}
    said = {
        "computeSite": "here",
        "site": {"here": {"service": "dies.Service", "slurm": slurm}},
        "requestMemory": 50,
        "submitPath": str(folder / "here"),
        "runQuantumCommand": COMMAND,
        "finalJob": {"whenRun": "ALWAYS", "command1": "echo last >> ${PWD}/notes", "requestMemory": 50},
        "wfformat": "graph.json",
    }
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(said), "utf-8")
    return path


@pytest.mark.parametrize("moment", ["_submit_batch", "_submit_collector", "_write_record", "_release", "said"])
def test_slurm(cli: Cli, slurm_pool: SlurmPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    path = native(tmp_path, slurm_pool)
    killed = cli("submit", path, env={"KILL": moment})
    assert killed.returncode == -signal.SIGKILL
    run = tmp_path / "here"
    if moment == "said":
        until((run / "wms" / "native-collected.json").exists, "the run is over")
    again = cli("submit", run, "--wait", "--json")
    assert again.returncode == 0, again.stderr
    taken_on = any(note.startswith("the submission is complete") for note in again.json["notes"])
    assert taken_on == (moment in {"_release", "said"})
    assert notes(tmp_path) == ["a", "b", "last"]
    until(lambda: not _waiting(slurm_pool), "nothing is left in the queue")
    assert cli("submit", run).returncode == 6


def test_what_was_not_handed_over_to_slurm_to_its_end_can_be_cancelled(
    cli: Cli, slurm_pool: SlurmPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    path = native(tmp_path, slurm_pool)
    assert cli("submit", path, env={"KILL": "_write_record"}).returncode == -signal.SIGKILL
    assert _waiting(slurm_pool)
    cancelled = cli("cancel", tmp_path / "here", "--no-final")
    assert cancelled.returncode == 0, cancelled.stderr
    until(lambda: not _waiting(slurm_pool), "nothing is left in the queue")
    assert notes(tmp_path) == []


def _waiting(pool: SlurmPool) -> str:
    return pool.run("squeue", "--noheader", "--states=PENDING,RUNNING", "--format=%j").strip()
