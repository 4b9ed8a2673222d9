"""Runs on a real pool, through the command line: ids, more memory, cancel, restart and final job."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from tests.live.condor_runs import CondorSite
from tests.live.runs import CHAIN, WORKFLOWS, many, until

pytestmark = pytest.mark.live


# Writes so many MB and keeps them long enough to be seen: without cgroups, memory is looked at once a second.
HOG = "python3 -c 'import time; x = bytearray(70 << 20); time.sleep(4); y = bytearray(230 << 20); time.sleep(4)'"


def test_more_memory_until_it_is_enough_or_too_much(condor_site: CondorSite) -> None:
    memory = f'memoryMultiplier: 2\nnumberOfRetries: 5\nrunQuantumCommand: "{HOG}"\n'
    grown = condor_site.begin(memory, name="grown")
    never = condor_site.begin(f"memoryLimit: 100\n{memory}", name="never")
    _grown(condor_site, grown)
    assert condor_site.ended(never)["state"] == "FAILED"
    attempts = condor_site.attempts(never, "a")
    assert {each["cause"] for each in attempts} == {"OOM"}
    assert attempts[-1]["extra"]["MemoryProvisioned"] == "100"


def _grown(site: CondorSite, run: Path) -> None:
    assert site.ended(run)["state"] == "SUCCEEDED"
    attempts = site.attempts(run, "a")
    assert len(attempts) >= 3
    assert [each["cause"] for each in attempts] == ["OOM"] * (len(attempts) - 1) + [None]
    given = [int(each["extra"]["MemoryProvisioned"]) for each in attempts]
    assert given[0] == 50
    assert given == sorted(set(given))
    assert attempts[-1]["peak_memory_b"] > 280 << 20


def test_ids_are_those_of_the_schedd(condor_site: CondorSite) -> None:
    ran = condor_site.cli("submit", condor_site.write("runQuantumCommand: 'true'\n"))
    assert ran.returncode == 0, ran.stderr
    said = dict(line.split(": ", 1) for line in ran.stdout.splitlines() if ": " in line)
    cluster, _, process = said["Run Id"].partition(".")
    assert cluster.isdigit()
    assert process == "0"
    report = condor_site.ended(said["Submit dir"])
    assert report["id"] == said["Run Id"]
    name, number, _ = report["global_id"].split("#")
    assert (bool(name), number) == (True, said["Run Id"])
    for reference in (cluster, said["Run Id"], report["global_id"], "@last"):
        found = condor_site.cli("report", "--id", reference, "--json")
        assert found.returncode == 0, found.stderr
        assert found.json["runs"][0]["path"] == said["Submit dir"]
    # Where nobody remembers the run, the schedd does.
    elsewhere = {"XDG_STATE_HOME": str(condor_site.folder / "elsewhere")}
    found = condor_site.cli("report", "--id", cluster, "--json", env=elsewhere)
    assert found.returncode == 0, found.stderr
    assert found.json["runs"][0]["path"] == said["Submit dir"]
    assert condor_site.cli("report", "--id", "99999").returncode == 5


def test_a_cancelled_run_leaves_nothing_in_the_queue_and_runs_its_final_job(condor_site: CondorSite) -> None:
    run = condor_site.begin(
        "runQuantumCommand: sleep 600\n"
        "finalJob: {command1: 'echo final >> ${PWD}/notes', whenRun: ALWAYS, requestMemory: 50}\n",
        many(10),
    )
    until(lambda: condor_site.counts(run).get("RUNNING", 0) >= 8, "all processors are busy")
    done = condor_site.cli("cancel", run, "--json")
    assert done.returncode == 0, done.stderr
    assert condor_site.ended(run)["state"] == "DELETED"
    assert condor_site.counts(run) == {"DELETED": 10, "SUCCEEDED": 1}
    assert not condor_site.pool.queue("ClusterId")
    assert (condor_site.folder / "notes").read_text("utf-8") == "final\n"


def test_failures_are_reported_as_by_dagman_and_a_restart_keeps_logs(condor_site: CondorSite) -> None:
    ran = condor_site.submit(
        "numberOfRetries: 0\nrunQuantumCommand: 'true'\npipetask: {B: {runQuantumCommand: 'test -e ${PWD}/mended'}}\n",
        CHAIN,
    )
    assert ran.returncode == 19, ran.stderr
    run = ran.json["submit_dir"]
    assert "DAGMan: job " in condor_site.cli("report", "--id", run, "--return-exit-codes").stdout
    (condor_site.folder / "mended").touch()
    again = condor_site.cli("restart", run, "--json")
    assert again.returncode == 0, again.stderr
    assert condor_site.ended(run)["state"] == "SUCCEEDED"
    assert all(each["queue_s"] is not None for each in condor_site.attempts(run, "b"))
    assert (Path(run) / "wms" / "backups" / "001" / "run.dag.nodes.log").exists()


def test_a_removed_job_runs_again_only_where_that_is_wanted(condor_site: CondorSite) -> None:
    notes, go = condor_site.folder / "notes", condor_site.folder / "go"
    run = condor_site.begin(
        "numberOfRetries: 1\n"
        f"runQuantumCommand: 'echo {{jobName}} >> {notes}; while ! test -e {go}; do sleep 0.2; done'\n"
        "pipetask: {B: {retryOn: {operator: true}}}\n",
        {"a": ("A", []), "b": ("B", [])},
    )
    until(lambda: condor_site.counts(run) == {"RUNNING": 2}, "both run")
    for name in ("a", "b"):
        condor_site.pool.run("condor_rm", condor_site.job(run, name), "-reason", "making room")
    until(lambda: notes.read_text("utf-8").split().count("b") == 2, "the one that is to be retried begins again")
    go.touch()
    report = condor_site.ended(run)
    assert condor_site.counts(run) == {"DELETED": 1, "SUCCEEDED": 1}
    assert notes.read_text("utf-8").split().count("a") == 1
    (removed,) = report["removals"]["newest"]
    assert (removed["name"], removed["reason"].partition(" (")[0]) == ("a", "making room")
    assert "making room" in condor_site.cli("explain", run, "a").stdout
    assert [each["cause"] for each in condor_site.attempts(run, "b")] == ["CANCELLED", None]


def test_the_number_of_an_attempt_counts_all_starts(condor_site: CondorSite) -> None:
    notes, go, good = (condor_site.folder / name for name in ("notes", "go", "good"))
    command = f"echo {{jobName}} '{{wmsAttemptNum}}' $TRY >> {notes}; while ! test -e {go}; do sleep 0.2; done"
    run = condor_site.begin(
        "numberOfRetries: 3\nretryUnlessExit: null\nenvironment: {TRY: 'e{wmsAttemptNum}'}\n"
        f'runQuantumCommand: "{command}; test -e {good}"\n'
        "retryOn: {operator: true}\n"
        f"finalJob: {{command1: 'echo finalJob {{wmsAttemptNum}} $TRY >> {notes}'}}\n",
        {"a": ("A", []), "b": ("B", [])},
    )

    def tries(name: str) -> list[str]:
        lines = notes.read_text("utf-8").splitlines() if notes.exists() else []
        return [line.partition(" ")[2] for line in lines if line.startswith(f"{name} ")]

    until(lambda: tries("a") and tries("b"), "both run")
    # A job that had hardly run is slow to be started again.
    time.sleep(2.5)
    condor_site.pool.run("condor_hold", condor_site.job(run, "a"))
    condor_site.pool.run("condor_release", condor_site.job(run, "a"))
    condor_site.pool.run("condor_rm", condor_site.job(run, "b"))
    until(lambda: len(tries("a")) == len(tries("b")) == 2, "one was started again, and the other submitted again")
    go.touch()
    # They fail, and are retried until no retry is left.
    condor_site.ended(run)
    before = {name: len(tries(name)) for name in ("a", "b")}
    assert min(before.values()) > 2
    good.touch()
    assert condor_site.cli("restart", run).returncode == 0
    assert condor_site.ended(run)["state"] == "SUCCEEDED"
    for name in ("a", "b", "finalJob"):
        found = tries(name)
        assert len(found) == before.get(name, 1) + 1
        assert found == [f"{number} e{number}" for number in range(len(found))]


def test_holds_and_removals_by_hand(condor_site: CondorSite) -> None:
    text = "runQuantumCommand: 'while ! test -e ${PWD}/go; do sleep 0.2; done'\n"
    run = condor_site.begin(text, CHAIN)
    until(lambda: condor_site.counts(run).get("RUNNING", 0) == 2, "both first jobs run")
    condor_site.pool.run("condor_hold", condor_site.job(run, "a"), "-reason", "the tape is full")
    condor_site.pool.run("condor_rm", condor_site.job(run, "d"))
    until(lambda: condor_site.counts(run) == {"HELD": 1, "DELETED": 1, "UNREADY": 2}, "one is held, one is gone")
    assert "the tape is full" in condor_site.cli("report", "--id", run).stdout
    (condor_site.folder / "go").touch()
    assert condor_site.cli("release", run, "--job", "a").returncode == 0
    assert condor_site.ended(run)["state"] == "DELETED"
    assert condor_site.counts(run) == {"SUCCEEDED": 3, "DELETED": 1}
    assert [each["cause"] for each in condor_site.attempts(run, "a")] == ["HELD", None]


def test_a_real_workflow(condor_site: CondorSite) -> None:
    name = "helloworld-forkjoin-10-chameleon"
    run = condor_site.replay(name)
    tasks = json.loads((WORKFLOWS / f"{name}.json").read_text("utf-8"))["workflow"]["specification"]["tasks"]
    assert condor_site.counts(run) == {"SUCCEEDED": len(tasks)}
