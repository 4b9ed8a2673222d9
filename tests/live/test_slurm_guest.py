"""A good guest on a real cluster: what is asked how often, what is told of waiting, and what accounting knows."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from tests.live.runs import SlurmSite, many, run_token, until

from longshore.services.slurm.answers import GATHERED_FIELDS

pytestmark = pytest.mark.live


def counted(folder: Path, *programs: str) -> tuple[dict[str, str], Path]:
    """An environment in which Slurm's programs note that they were called, and where they do."""
    notes, bin_ = folder / "calls", folder / "bin"
    bin_.mkdir()
    for name in programs:
        real = shutil.which(name)
        (bin_ / name).write_text(
            f'#!/bin/sh\necho "{name} $(date +%s.%N) $*" >>"{notes}"\nexec "{real}" "$@"\n', "utf-8"
        )
        (bin_ / name).chmod(0o755)
    notes.touch()
    return {"PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}"}, notes


def test_five_runs_at_once_ask_the_queue_together(bare_site: SlurmSite, tmp_path: Path) -> None:
    bare_site.describe(poll="pollInterval: 2")
    env, notes = counted(tmp_path, "squeue", "sbatch")
    said = f"echo {{jobName}} >> {tmp_path / 'begun'}"
    runs = [
        bare_site.begin(f"runQuantumCommand: {said}; sleep 8\n", many(3), name=f"run{number}", env=env)
        for number in range(5)
    ]
    for run in runs:
        assert bare_site.ended(run)["state"] == "SUCCEEDED"
        assert bare_site.counts(run) == {"SUCCEEDED": 3}
    # Each job of each run once.
    assert sorted((tmp_path / "begun").read_text("utf-8").split()) == sorted(["t0", "t1", "t2"] * 5)
    lines = notes.read_text("utf-8").splitlines()
    told = [line.split()[:2] for line in lines if line.startswith("squeue") or "--parsable" in line]
    handed_over = [float(at) for name, at in told if name == "sbatch"]
    # What each `submit` asked before the hand-over is left out.
    asked = sorted(float(at) for name, at in told if name == "squeue" and float(at) > max(handed_over))
    # All five together ask no more often than the floor says, which one alone would: one more, for the time that a
    # program takes to begin is none of the time between two questions.
    assert 1 <= len(asked) <= (asked[-1] - asked[0]) / 2 + 2
    assert len(handed_over) == 5


def test_what_accounting_knows_is_kept(kept_site: SlurmSite) -> None:
    ran = kept_site.submit(
        "pipetask: {A: {runQuantumCommand: \"python3 -c 'import time; x = bytearray(30 << 20); time.sleep(3)'\"}}\n"
    )
    assert ran.returncode == 0, ran.stderr
    # The run does not wait for them.
    until(lambda: kept_site.attempts(ran.json["submit_dir"], "a")[0]["extra"], "facts of accounting")
    (attempt,) = kept_site.attempts(ran.json["submit_dir"], "a")
    assert set(attempt["extra"]) == set(GATHERED_FIELDS), "also those that this version or cluster does not have"
    assert attempt["extra"]["State"] == "COMPLETED"
    assert attempt["extra"]["WorkDir"] == ran.json["submit_dir"]
    assert attempt["peak_memory_b"] > 30 << 20
    assert attempt["queue_s"] >= 0
    shown = kept_site.cli("explain", ran.json["submit_dir"], "a").stdout
    assert "% of the 50" in shown
    assert "QOS=normal" in shown


def test_too_long_in_the_queue(slurm_site: SlurmSite) -> None:
    # There is one such licence: the second waits for the first.
    slurm_site.describe(slurm="maxpendtime: 2\nlicence: lic_b:1")
    ran = slurm_site.submit("numberOfRetries: 0\nrunQuantumCommand: sleep 8\n", many(2))
    assert ran.returncode == 19, ran.stderr
    run = ran.json["submit_dir"]
    assert slurm_site.counts(run) == {"SUCCEEDED": 1, "FAILED": 1}
    (late,) = [job["name"] for job in slurm_site.report(run)["jobs"] if job["state"] == "FAILED"]
    (attempt,) = slurm_site.attempts(run, late)
    assert (attempt["cause"], attempt["exit_code"]) == ("PEND_TIMEOUT", None)
    assert re.search(r"longer than the 2 s of 'maxpendtime'; Slurm's reason was \w+", attempt["reason"])


def test_a_limit_on_jobs_spends_no_attempt(kept_site: SlurmSite) -> None:
    pool = kept_site.pool
    pool.run("sacctmgr", "-i", "modify", "qos", "low", "set", "MaxSubmitJobsPerUser=3")
    try:
        kept_site.describe("qos: low\n")
        run = kept_site.begin("numberOfRetries: 0\nrunQuantumCommand: sleep 1\n", many(7))
        until(lambda: any("Slurm takes no more" in note for note in kept_site.report(run)["notes"]), "it is throttled")
        assert kept_site.ended(run)["state"] == "SUCCEEDED"
    finally:
        pool.run("sacctmgr", "-i", "modify", "qos", "low", "set", "MaxSubmitJobsPerUser=-1")
    for job in ("t0", "t6"):
        assert len(kept_site.attempts(run, job)) == 1


LIMITS = {
    "user": ("qos", "low", "MaxJobsPerUser", "QOSMaxJobsPerUserLimit"),
    "account": ("account", "test", "GrpJobs", "AssocGrpJobsLimit"),
}


@pytest.mark.parametrize("kind", LIMITS)
def test_a_limit_on_running_jobs_is_told_and_delays_them_only(kept_site: SlurmSite, kind: str) -> None:
    entity, name, limit, reason = LIMITS[kind]
    pool, go, notes = kept_site.pool, kept_site.folder / "go", kept_site.folder / "notes"
    pool.run("sacctmgr", "-i", "modify", entity, name, "set", f"{limit}=1")
    try:
        kept_site.describe("qos: low\n")
        command = f"echo {{jobName}} >> {notes}; while ! test -e {go}; do sleep 0.2; done"
        run = kept_site.begin(f"numberOfRetries: 0\nrunQuantumCommand: {command}\n", many(3))
        until(lambda: any(reason in wait for wait in kept_site.report(run)["waits"]), "the limit is told")
        until(lambda: kept_site.counts(run) == {"RUNNING": 1, "PENDING": 2}, "one runs at a time")
        waiting = [job["name"] for job in kept_site.report(run)["jobs"] if job["state"] == "PENDING"]
        assert reason in kept_site.cli("explain", run, waiting[0]).stdout
        go.touch()
        assert kept_site.ended(run)["state"] == "SUCCEEDED"
    finally:
        pool.run("sacctmgr", "-i", "modify", entity, name, "set", f"{limit}=-1")
    assert sorted(notes.read_text("utf-8").split()) == ["t0", "t1", "t2"]
    assert all(len(kept_site.attempts(run, job)) == 1 for job in ("t0", "t1", "t2"))


def test_no_more_is_submitted_than_the_site_allows(bare_site: SlurmSite, tmp_path: Path) -> None:
    bare_site.describe("limits: {submitRate: 1/s, arraySize: 1}\n")
    env, notes = counted(tmp_path, "sbatch")
    ran = bare_site.submit("runQuantumCommand: 'true'\n", many(4), env=env)
    assert ran.returncode == 0, ran.stderr
    told = notes.read_text("utf-8").splitlines()
    times = sorted(float(line.split()[1]) for line in told if "--parsable" in line)
    assert len(times) == 4
    # One a second, three seconds in all, of which the time that a program takes to begin may hide some.
    assert times[-1] - times[0] > 1.5


def test_waiting_jobs_per_bucket_are_bounded(bare_site: SlurmSite) -> None:
    bare_site.describe(slurm="n_max_queued_jobs: 2")
    run = bare_site.begin("runQuantumCommand: sleep 600\n", many(30))
    until(lambda: bare_site.counts(run).get("RUNNING") == 16, "all processors are busy")
    until(lambda: bare_site.counts(run).get("PENDING") == 2, "two wait beside them")
    assert bare_site.counts(run) == {"RUNNING": 16, "PENDING": 2, "READY": 12}
    assert len([name for name in bare_site.queue() if name.startswith(run_token(run))]) == 18
    assert bare_site.cli("cancel", run).returncode == 0
    bare_site.ended(run)


def test_the_job_that_more_waits_for_goes_first(bare_site: SlurmSite) -> None:
    bare_site.describe(slurm="use_nice: true\nlicence: lic_b:1")
    tasks = {"first": ("A", []), "second": ("B", ["first"]), "short": ("C", [])}
    run = bare_site.begin("runQuantumCommand: sleep 600\npipetask: {C: {requestMemory: 60}}\n", tasks)
    until(lambda: len([name for name in bare_site.queue() if name.startswith(run_token(run))]) == 2, "both are there")
    nice = dict(line.split() for line in bare_site.pool.run("squeue", "-h", "-o", "%j %y").splitlines())
    of_job = {path.read_text("utf-8").split("\t")[1]: int(nice[path.stem]) for path in (run / "batches").glob("*.tsv")}
    assert 0 < of_job["first"] < of_job["short"]
    assert bare_site.cli("cancel", run).returncode == 0
    bare_site.ended(run)
