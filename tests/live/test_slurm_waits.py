"""Waits on a real cluster that end without a start: too long, without hope, or removed from a pending array."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.live.runs import SlurmSite, many, run_token, until

pytestmark = pytest.mark.live


@contextmanager
def licence_taken(site: SlurmSite) -> Iterator[None]:
    """Keep the only licence ``lic_b`` busy, so that all jobs that want it wait."""
    holder = site.pool.run("sbatch", "--parsable", "-L", "lic_b:1", "--output=/dev/null", "--wrap", "sleep 120").strip()
    until(lambda: "RUNNING" in site.pool.run("squeue", "-h", "-j", holder, "-o", "%T"), "the licence is taken")
    try:
        yield
    finally:
        site.pool.run("scancel", holder)


@contextmanager
def drained(site: SlurmSite, partition: str) -> Iterator[None]:
    """Drain a partition, for which sbatch refuses jobs meanwhile."""
    site.pool.run("scontrol", "update", f"partition={partition}", "state=drain")
    try:
        yield
    finally:
        site.pool.run("scontrol", "update", f"partition={partition}", "state=up")


def test_a_drained_partition_spends_no_attempt(bare_site: SlurmSite) -> None:
    lines = "numberOfRetries: 0\nrunQuantumCommand: 'true'\npipetask: {B: {slurm: {partition: short}}}\n"
    with drained(bare_site, "main"):
        # An engine, a graph as a whole, and pilots; the second needs an answer now.
        run = bare_site.begin(lines, {**many(6), "b": ("B", [])})
        until(lambda: bare_site.counts(run) == {"READY": 6, "SUCCEEDED": 1}, "jobs of another partition run")
        why = "jobs of 'A' wait: Slurm takes no such jobs for now, and none of their attempts is spent"
        until(lambda: any(why in note for note in bare_site.report(run)["notes"]), "it is told")
        assert "Required partition not available" in bare_site.cli("explain", run, "t0").stdout
        bare_site.describe("packing: pilot\npilot: {cpus: 1, memory: 200, walltime: 300, count: 1}\n")
        packed = bare_site.begin("numberOfRetries: 0\nrunQuantumCommand: 'true'\n", many(3))
        why = "no allocation for pilots for now: Slurm takes no such jobs"
        until(lambda: any(why in note for note in bare_site.report(packed)["notes"]), "it is told of pilots")
        for mode in ("mode: native", "engineAs: job"):
            bare_site.describe(slurm=mode)
            refused = bare_site.submit("runQuantumCommand: 'true'\n")
            assert refused.returncode == 6
            assert "for now: sbatch: error: Batch job submission failed: Required partition not" in refused.stderr
    assert bare_site.ended(run)["state"] == bare_site.ended(packed)["state"] == "SUCCEEDED"
    assert [each["number"] for job in ("t0", "t5") for each in bare_site.attempts(run, job)] == [1, 1]


def test_a_whole_array_that_waited_too_long_fails_once(slurm_site: SlurmSite) -> None:
    slurm_site.describe(slurm="maxpendtime: 1\nlicence: lic_b:1")
    with licence_taken(slurm_site):
        ran = slurm_site.submit("numberOfRetries: 0\n", many(6))
    assert ran.returncode == 19, ran.stderr
    run = ran.json["submit_dir"]
    assert slurm_site.counts(run) == {"FAILED": 6}
    for job in ("t0", "t5"):
        (attempt,) = slurm_site.attempts(run, job)
        assert attempt["cause"] == "PEND_TIMEOUT"


def test_tasks_removed_one_by_one_from_a_pending_array_are_not_lost(bare_site: SlurmSite) -> None:
    bare_site.describe(slurm="licence: lic_b:1")
    with licence_taken(bare_site):
        run = bare_site.begin("numberOfRetries: 2\n", many(4))
        until(lambda: bare_site.counts(run) == {"PENDING": 4}, "all wait")
        lines = bare_site.pool.run("squeue", "-h", "-r", "-t", "PENDING", "-o", "%i %j").splitlines()
        tasks = [line.split()[0] for line in lines if line.split()[1].startswith(run_token(run))]
        assert len(tasks) == 4
        # One that goes before the engine saw it in the queue is LOST: it may have run and been forgotten.
        until(lambda: "Licenses (4)" in str(bare_site.report(run)["waits"]), "the engine has seen them in the queue")
        # Of one in the middle, no row is left.
        bare_site.pool.run("scancel", tasks.pop(1))
        until(lambda: bare_site.counts(run) == {"PENDING": 3, "DELETED": 1}, "one is deleted")
        bare_site.pool.run("scancel", *tasks)
        report = bare_site.ended(run)
    assert report["state"] == "DELETED"
    assert bare_site.counts(run) == {"DELETED": 4}
    assert len(bare_site.attempts(run, "t0")) == len(bare_site.attempts(run, "t3")) == 1


def test_what_can_never_start_is_named_and_fails_without_a_retry(bare_site: SlurmSite) -> None:
    # The partition has one node, and the cluster accepts the job all the same.
    bare_site.describe(slurm="partition: short\nnodeCount: 2\nhopelessAfter: 8")
    run = bare_site.begin("numberOfRetries: 3\n", many(2))
    note = "2 jobs can never start (PartitionNodeLimit): request fewer nodes"
    until(lambda: any(note in each for each in bare_site.report(run)["notes"]), "it is told")
    report = bare_site.report(run)
    assert (report["hopeless_jobs"], report["left_s"]) == (2, None)
    assert "can never start: request fewer nodes" in bare_site.cli("explain", run, "t0").stdout
    assert "left: never, as 2 jobs can never start" in bare_site.cli("report", run).stdout
    assert bare_site.ended(run)["state"] == "FAILED"
    (attempt,) = bare_site.attempts(run, "t1")
    assert (attempt["cause"], attempt["exit_code"]) == ("SUBMIT", None)
    assert "Slurm can never start it (PartitionNodeLimit): request fewer nodes" in attempt["reason"]
