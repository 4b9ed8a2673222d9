"""Runs on a real Slurm cluster, through the command line: names, logs, limits of time and real workflows."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from tests.command import Cli
from tests.live.runs import WORKFLOWS, SlurmSite, many, run_token, until

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
