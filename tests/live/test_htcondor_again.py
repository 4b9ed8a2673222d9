"""Repeated restarts on a real pool, and runs whose DAGMan is held, removed, or refuses the DAG."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.command import CommandResult
from tests.live.condor_runs import CondorSite
from tests.live.runs import until
from tests.workflows import Tasks

pytestmark = pytest.mark.live

PAIR: Tasks = {"a": ("A", []), "b": ("B", ["a"])}
WAITS = "runQuantumCommand: 'while ! test -e ${PWD}/go; do sleep 0.2; done'\n"
# As much as is asked for at the second attempt, and again as much.
HOG = "python3 -c 'import time; x = bytearray(70 << 20); time.sleep(5)'"


def restarted(site: CondorSite, run: Path, *words: str) -> CommandResult:
    """Run it again, and let it come to its end."""
    ran = site.cli("restart", run, "--json", *words)
    assert ran.returncode == 0, ran.stderr
    assert ran.json["kind"] == "restart"
    site.ended(run)
    return ran


def test_repeated_restarts_keep_set_and_grown_requests(condor_site: CondorSite) -> None:
    text = (
        "numberOfRetries: 2\nmemoryMultiplier: 2\n"
        f'runQuantumCommand: "{HOG}; test -e ${{PWD}}/{{jobName}}"\n'
        "retryUnlessExit: 1\n"
        "finalJob: {command1: 'test -e ${PWD}/final', whenRun: ALWAYS, requestMemory: 50, numberOfRetries: 0}\n"
    )
    ran = condor_site.submit(text, PAIR)
    assert ran.returncode == 19, ran.stderr
    run = Path(ran.json["submit_dir"])
    assert condor_site.counts(run) == {"FAILED": 2, "PRUNED": 1}
    (condor_site.folder / "a").touch()
    restarted(condor_site, run, "--set", "requestCpus=2", "--label", "A")
    assert condor_site.counts(run) == {"SUCCEEDED": 1, "FAILED": 2}
    (condor_site.folder / "b").touch()
    restarted(condor_site, run)
    # Of all that there was to do, what is left is the final job.
    assert condor_site.counts(run) == {"SUCCEEDED": 2, "FAILED": 1}
    (condor_site.folder / "final").touch()
    restarted(condor_site, run)
    assert condor_site.report(run)["state"] == "SUCCEEDED"
    given = [int(each["extra"]["MemoryProvisioned"]) for each in condor_site.attempts(run, "a")]
    # It ran out of memory once, and began with what it had been given then.
    assert given[:2] == [50, 100]
    assert given[2] == 100
    assert "2 cpus" in condor_site.cli("explain", run, "a").stdout
    assert "1970" not in condor_site.cli("explain", run, "a").stdout
    assert len(json.loads((run / "run.json").read_text("utf-8"))["submissions"]) == 4
    assert sorted(path.name for path in (run / "wms" / "backups").iterdir()) == ["001", "002", "003"]
    over = condor_site.cli("restart", run)
    assert over.returncode == 0
    assert "nothing to run again: every job of" in over.stderr


def test_a_restart_sets_requests_that_a_label_did_not_have(condor_site: CondorSite) -> None:
    text = "runQuantumCommand: 'true'\nfinalJob: {command1: 'true', whenRun: ALWAYS}\n"
    run = Path(condor_site.submit(text, PAIR).json["submit_dir"])
    restarted(condor_site, run, "--from", "B", "--set", "requestWalltime=1h", "--set", "requestDisk=20M")
    assert condor_site.counts(run) == {"SUCCEEDED": 3}
    words = ["-limit", "2", "-constraint", "LongshoreJob>=0", "-af", "AllowedExecuteDuration", "RequestDisk"]
    said = condor_site.pool.run("condor_history", *words)
    assert said.splitlines() == ["3600 20480", "3600 20480"]


def test_restart_of_a_live_and_of_a_cancelled_run(condor_site: CondorSite) -> None:
    run = condor_site.begin(WAITS, PAIR)
    until(lambda: condor_site.counts(run).get("RUNNING"), "the first job runs")
    refused = condor_site.cli("restart", run, "--json")
    assert refused.returncode == 6
    assert "longshore cancel" in refused.json["error"]["hint"]
    nothing = condor_site.cli("set", run, "requestMemory=70")
    assert nothing.returncode == 6
    assert "'restart --set' changes" in nothing.stderr
    assert condor_site.cli("cancel", run).returncode == 0
    (condor_site.folder / "go").touch()
    restarted(condor_site, run)
    assert condor_site.counts(run) == {"SUCCEEDED": 2}


def test_dagman_refuses_the_dag_and_says_why(condor_site: CondorSite) -> None:
    run = condor_site.begin("runQuantumCommand: 'true'\n", PAIR)
    dag = run / "wms" / "run.dag"
    whole = dag.read_text("utf-8")
    # It begins some seconds after it was handed over.
    dag.write_text(f"{whole}PARENT j0 CHILD j99\n", "utf-8")
    assert condor_site.ended(run)["state"] == "FAILED"
    assert condor_site.counts(run) == {"FAILED": 1, "PRUNED": 1}
    shown = condor_site.cli("report", "--id", run).stdout
    assert "DAGMan says: ERROR: Node j99 not found!" in shown
    assert "DAGMan refuses to run the graph" in condor_site.cli("explain", run, "a").stdout
    refused = condor_site.cli("restart", run)
    assert refused.returncode == 6
    # The manifest finds the change before HTCondor does.
    assert "run.dag" in refused.stderr
    assert "longshore verify" in refused.stderr
    dag.write_text(whole, "utf-8")
    restarted(condor_site, run)
    assert condor_site.report(run)["state"] == "SUCCEEDED"


def test_dagman_is_held_and_removed_by_a_user(condor_site: CondorSite) -> None:
    run = condor_site.begin(WAITS, PAIR)
    until(lambda: condor_site.counts(run).get("RUNNING"), "the first job runs")
    number = condor_site.report(run)["id"]
    condor_site.pool.run("condor_hold", number, "-reason", "the disk is full")
    until(
        lambda: "DAGMan itself is held: the disk is full" in condor_site.cli("report", "--id", run).stdout, "it is held"
    )
    resumed = condor_site.cli("resume", run)
    assert resumed.returncode == 0, resumed.stderr
    assert f"Run Id: {number}" in resumed.stdout
    condor_site.pool.run("condor_rm", number, "-reason", "tidying up")
    assert condor_site.ended(run)["state"] == "DELETED"
    assert "tidying up" in condor_site.cli("report", "--id", run).stdout
