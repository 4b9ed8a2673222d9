"""Runs on a real cluster, through the command line: names, more memory, limits of time, cancel and take-over."""

from __future__ import annotations

import json
import os
import signal
from functools import partial
from pathlib import Path

import pytest
from tests.command import Cli
from tests.live.runs import WORKFLOWS, SlurmSite, many, run_token, until
from tests.waiting import engine_of

pytestmark = pytest.mark.live


def test_jobs_are_named_after_their_run(slurm_site: SlurmSite) -> None:
    ran = slurm_site.submit("runQuantumCommand: echo $SLURM_JOB_NAME >> ${PWD}/notes\n", many(2))
    assert ran.returncode == 0, ran.stderr
    notes = (slurm_site.folder / "notes").read_text("utf-8").splitlines()
    assert len(notes) == 2
    assert all(line.startswith(run_token(Path(ran.json["submit_dir"]))) for line in notes)


def test_what_was_asked_and_answered_is_in_the_log_of_who_wants_it(slurm_site: SlurmSite) -> None:
    path = slurm_site.write("runQuantumCommand: 'true'\n")
    ran = slurm_site.cli("--log-level", "DEBUG", "submit", path, "--wait", "--json", timeout=300)
    assert ran.returncode == 0, ran.stderr
    log = Path(ran.json["submit_dir"], "engine.log").read_text("utf-8")
    assert "DEBUG longshore.slurm - asked: sbatch --parsable\n#!" in log
    assert "DEBUG longshore.slurm - sbatch answered 0 in " in log
    assert "DEBUG longshore.slurm - asked: squeue " in log


def test_more_memory_until_it_is_enough(slurm_site: SlurmSite) -> None:
    # Writes 120 MB and keeps it long enough to be seen: without cgroups, memory is looked at once a second.
    hog = "python3 -c 'import time; x = bytearray(120 << 20); time.sleep(4)'"
    ran = slurm_site.submit(f'memoryMultiplier: 4\nnumberOfRetries: 2\nrunQuantumCommand: "{hog}"\n')
    assert ran.returncode == 0, ran.stderr
    first, second = slurm_site.attempts(ran.json["submit_dir"], "a")
    assert (first["cause"], second["cause"]) == ("OOM", None)
    assert [each["request"]["memory_b"] >> 20 for each in (first, second)] == [50, 200]


def has_failed(site: SlurmSite, run: Path) -> bool:
    """Whether a run is over, and went badly."""
    return bool(site.report(run)["state"] == "FAILED")


@pytest.mark.full
def test_a_job_whose_time_is_over(bare_site: SlurmSite, kept_site: SlurmSite) -> None:
    # Slurm's shortest time is a minute, and so both kinds of cluster are waited for at once.
    text = "numberOfRetries: 3\nrequestWalltime: 60\nrunQuantumCommand: sleep 300\n"
    meek = "trap 'exit 0' TERM; while :; do sleep 0.2; done"
    kept_site.describe()
    kept = kept_site.begin(
        f'{text}pipetask: {{B: {{runQuantumCommand: "{meek}"}}}}\n', {"a": ("A", []), "b": ("B", [])}, name="kept"
    )
    bare_site.describe()
    bare = bare_site.begin(text, name="bare")
    for site, run in ((kept_site, kept), (bare_site, bare)):
        until(partial(has_failed, site, run), f"the end of {run}", patience_s=200)
        # With the same time it would come no further.
        (attempt,) = site.attempts(run, "a")
        assert attempt["cause"] == "WALLTIME", attempt
        assert attempt["run_s"] >= 55
    # Accounting knows better than a job that ended well because it was told to end.
    (attempt,) = kept_site.attempts(kept, "b")
    assert (attempt["cause"], attempt["exit_code"]) == ("WALLTIME", 0)


def test_cancelled_runs_leave_nothing_in_the_queue(slurm_site: SlurmSite) -> None:
    # Sixteen processors: some wait.
    run = slurm_site.begin("runQuantumCommand: sleep 600\n", many(20))
    until(lambda: slurm_site.counts(run).get("RUNNING", 0) >= 16, "all processors are busy")
    assert len([name for name in slurm_site.queue() if name.startswith(run_token(run))]) == 20
    done = slurm_site.cli("cancel", run, "--json")
    assert done.returncode == 0, done.stderr
    report = slurm_site.ended(run)
    assert report["state"] == "DELETED"
    assert slurm_site.counts(run) == {"DELETED": 20}
    names = slurm_site.queue("--states=PENDING,RUNNING,COMPLETING")
    assert not [name for name in names if name.startswith(run_token(run))]
    (attempt,) = slurm_site.attempts(run, "t0")
    assert attempt["cause"] == "CANCELLED"


def test_a_killed_engine_is_followed_by_one_that_adopts_what_runs(slurm_site: SlurmSite) -> None:
    notes, go = slurm_site.folder / "notes", slurm_site.folder / "go"
    run = slurm_site.begin(
        f"runQuantumCommand: echo {{jobName}} >> {notes}; while ! test -e {go}; do sleep 0.2; done\n", many(6)
    )
    until(lambda: notes.exists() and len(notes.read_text("utf-8").split()) == 6, "all six run")
    os.kill(engine_of(run), signal.SIGKILL)
    resumed = slurm_site.cli("resume", run, "--json")
    assert resumed.returncode == 0, resumed.stderr
    go.touch()
    assert slurm_site.ended(run)["state"] == "SUCCEEDED"
    # Nothing was started twice.
    assert sorted(notes.read_text("utf-8").split()) == [f"t{index}" for index in range(6)]
    assert len(slurm_site.attempts(run, "t0")) == 1


@pytest.mark.parametrize("name", sorted(path.stem for path in WORKFLOWS.glob("*.json")))
def test_a_real_workflow(slurm_site: SlurmSite, name: str) -> None:
    # Slurm tells accounting of what begins every five seconds only, which each level of a graph of successes waits for
    # where all is gathered: for one of them that will do.
    slurm_site.describe(slurm="" if name.startswith("helloworld") else "gather: false")
    run = slurm_site.replay(name)
    tasks = json.loads((WORKFLOWS / f"{name}.json").read_text("utf-8"))["workflow"]["specification"]["tasks"]
    assert slurm_site.counts(run) == {"SUCCEEDED": len(tasks)}
    made = {name.lstrip("/") for task in tasks for name in task.get("outputFiles", [])}
    assert not [name for name in made if not (run / "data" / name).is_file()]


def test_the_service_can_be_named_instead_of_the_site(bare_site: SlurmSite, cli: Cli) -> None:
    text = (
        "wmsServiceClass: slurm\nsite:\n  here:\n    slurm:\n"
        f'      config: "{bare_site.pool.conf}"\n      pollInterval: 0.5\n'
    )
    path = bare_site.write(f"{text}runQuantumCommand: 'true'\n")
    path.write_text(path.read_text("utf-8").replace("computeSite: cluster", "computeSite: here"), "utf-8")
    ran = cli("submit", path, "--wait", "--json")
    assert ran.returncode == 0, ran.stderr
