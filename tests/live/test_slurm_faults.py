"""What goes wrong at a real cluster: refusals, dead daemons, lost answers, lost nodes, and people who meddle."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from tests.command import Cli
from tests.live.daemons import stopped
from tests.live.runs import SlurmSite, many, run_token, until
from tests.waiting import engine_of

from longshore.system.host import user_name

pytestmark = pytest.mark.live


def tasks_of(site: SlurmSite, run: Path, *words: str) -> list[str]:
    """Ids of the tasks of a run that Slurm has."""
    lines = site.pool.run("squeue", "-h", "-r", "-o", "%i %j", *words).splitlines()
    return [line.split()[0] for line in lines if line.split()[1].startswith(run_token(run))]


def wait_for(path: Path) -> str:
    """A command that ends once there is such a file."""
    return f"while ! test -e {path}; do sleep 0.2; done"


@pytest.mark.parametrize(
    ("profile", "slurm", "words"),
    [
        ("", "partition: nowhere", "invalid partition"),
        ("account: nobody\n", "", "Invalid account"),
        ("qos: best\n", "", "Invalid qos"),
        ('directives: ["--sockets-per-node=64"]\n', "", "Requested node configuration is not available"),
    ],
)
def test_a_refusal_is_told_in_slurms_own_words(kept_site: SlurmSite, profile: str, slurm: str, words: str) -> None:
    kept_site.describe(profile, slurm)
    ran = kept_site.submit("numberOfRetries: 3\nrunQuantumCommand: 'true'\n")
    if ran.returncode != 19:
        # Told before anything was handed over, by whoever asked the cluster.
        assert "nowhere" in ran.stderr or "nobody" in ran.stderr or "best" in ran.stderr
        return
    run = ran.json["submit_dir"]
    (attempt,) = kept_site.attempts(run, "a")
    assert attempt["cause"] == "SUBMIT"
    assert words.lower() in attempt["reason"].lower()
    assert words.lower() in kept_site.cli("report", "--id", run).stdout.lower()


def test_a_refusal_ends_the_run_where_that_is_wanted(bare_site: SlurmSite) -> None:
    bare_site.describe('directives: ["--sockets-per-node=64"]\n', "onSubmitError: run")
    ran = bare_site.submit(
        "runQuantumCommand: 'true'\nnumberOfRetries: 3\npipetask: {B: {requestMemory: 60}}\n",
        {"a": ("A", []), "b": ("B", []), "c": ("C", ["a"])},
    )
    assert ran.returncode == 19, ran.stderr
    run = Path(ran.json["submit_dir"])
    counts = bare_site.counts(run)
    assert counts["FAILED"] == 1
    assert sum(counts.values()) == 3
    assert "the engine ends the run: Slurm refuses it" in (run / "engine.log").read_text("utf-8")
    failed = [job["name"] for job in bare_site.report(run)["jobs"] if job["state"] == "FAILED"]
    assert len(bare_site.attempts(run, failed[0])) == 1


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL], ids=["ended", "killed"])
def test_a_controller_that_is_down_fails_nothing(bare_site: SlurmSite, by: signal.Signals) -> None:
    notes, go, later = (bare_site.folder / name for name in ("notes", "go", "later"))
    run = bare_site.begin(
        f"numberOfRetries: 0\nrunQuantumCommand: echo {{jobName}} >> {notes}; {wait_for(go)}\n"
        f"pipetask: {{C: {{runQuantumCommand: 'echo c >> {notes}; {wait_for(later)}'}}}}\n",
        {"a": ("A", []), "b": ("B", ["a"]), "c": ("C", [])},
    )
    until(lambda: notes.exists() and len(notes.read_text("utf-8").split()) == 2, "both run")
    # A controller that is killed remembers what it had written down, which takes it some seconds.
    since, state = time.time(), bare_site.pool.root / "state" / "job_state"
    bare_site.pool.run("sbatch", "--hold", "--output=/dev/null", "--wrap=true")
    until(lambda: state.stat().st_mtime > since, "the controller has written that they run")
    # No fixed time: it is away until the run says so and has seen an end, which proves what a minute would.
    with stopped(bare_site.pool, "slurmctld", by):
        # Its jobs go on, and end, while nobody is there to ask; what follows them cannot be handed over.
        go.touch()
        until(
            lambda: any("the workload manager does not answer" in note for note in bare_site.report(run)["notes"]),
            "it is told that nobody answers",
        )
        until(lambda: bare_site.counts(run).get("SUCCEEDED") == 1, "the end of the first is seen all the same")
    later.touch()
    assert bare_site.ended(run)["state"] == "SUCCEEDED"
    assert sorted(notes.read_text("utf-8").split()) == ["a", "b", "c"]


def test_accounting_that_is_down_keeps_nothing_waiting(kept_site: SlurmSite) -> None:
    with stopped(kept_site.pool, "slurmdbd"):
        ran = kept_site.submit(
            "numberOfRetries: 0\nrunQuantumCommand: 'true'\npipetask: {B: {runQuantumCommand: 'exit 3'}}\n",
            {"a": ("A", []), "b": ("B", [])},
        )
    assert ran.returncode == 19, ran.stderr
    run = ran.json["submit_dir"]
    assert kept_site.counts(run) == {"SUCCEEDED": 1, "FAILED": 1}
    (attempt,) = kept_site.attempts(run, "b")
    assert (attempt["cause"], attempt["exit_code"]) == ("EXIT", 3)


def test_a_batch_whose_answer_was_lost_is_not_handed_over_twice(bare_site: SlurmSite, tmp_path: Path) -> None:
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "sbatch").write_text(
        f'#!/bin/sh\ncase "$*" in *--version*) exec "{shutil.which("sbatch")}" "$@" ;; esac\n'
        f'echo called >>"{tmp_path}/calls"\n"{shutil.which("sbatch")}" "$@" >/dev/null\n'
        'echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2\nexit 1\n',
        "utf-8",
    )
    (bin_ / "sbatch").chmod(0o755)
    ran = bare_site.submit(
        "runQuantumCommand: echo {jobName} >> ${PWD}/notes\n",
        many(3),
        env={"PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}"},
    )
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "calls").read_text("utf-8").split() == ["called"]
    assert sorted((bare_site.folder / "notes").read_text("utf-8").split()) == ["t0", "t1", "t2"]


def test_an_sbatch_that_hangs_does_not_keep_the_engine(bare_site: SlurmSite, tmp_path: Path) -> None:
    bin_, go = tmp_path / "bin", tmp_path / "go"
    bin_.mkdir()
    (bin_ / "sbatch").write_text(
        f'#!/bin/sh\ncase "$*" in *--version*) ;; *) {wait_for(go)} ;; esac\nexec "{shutil.which("sbatch")}" "$@"\n',
        "utf-8",
    )
    (bin_ / "sbatch").chmod(0o755)
    env = {"PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}"}
    run = bare_site.begin("runQuantumCommand: echo {jobName} >> ${PWD}/notes\n", many(3), env=env)
    until(lambda: any("sbatch has not answered" in note for note in bare_site.report(run)["notes"]), "it hangs")
    # Orders are obeyed meanwhile.
    assert bare_site.cli("pause", run).returncode == 0
    until(lambda: any("paused" in note for note in bare_site.report(run)["notes"]), "it is paused")
    assert bare_site.cli("unpause", run).returncode == 0
    go.touch()
    assert bare_site.ended(run)["state"] == "SUCCEEDED"
    assert sorted((bare_site.folder / "notes").read_text("utf-8").split()) == ["t0", "t1", "t2"]


def test_a_lost_node(slurm_site: SlurmSite) -> None:
    run = slurm_site.begin("retryOnLost: 1\nrunQuantumCommand: echo $SLURMD_NODENAME; sleep 4\nrequestCpus: 4\n")
    until(lambda: slurm_site.counts(run) == {"RUNNING": 1}, "it runs")
    node = until(lambda: slurm_site.pool.run("squeue", "-h", "-t", "RUNNING", "-o", "%N").strip(), "its node is known")
    slurm_site.pool.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    try:
        assert slurm_site.ended(run)["state"] == "SUCCEEDED"
    finally:
        slurm_site.pool.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)
    first, second = slurm_site.attempts(run, "a")
    assert (first["cause"], second["cause"]) == ("LOST", None)


def test_what_people_do_is_recognised_as_that(slurm_site: SlurmSite) -> None:
    notes, go = slurm_site.folder / "notes", slurm_site.folder / "go"
    run = slurm_site.begin(
        f"numberOfRetries: 0\nrunQuantumCommand: echo {{jobName}} >> {notes}; {wait_for(go)}\n",
        many(3),
    )
    until(lambda: notes.exists() and len(notes.read_text("utf-8").split()) == 3, "all have begun")
    until(lambda: slurm_site.counts(run) == {"RUNNING": 3}, "all run")
    cancelled, requeued, _ = tasks_of(slurm_site, run, "-t", "RUNNING")
    slurm_site.pool.run("scancel", cancelled)
    slurm_site.pool.run("scontrol", "requeue", requeued, check=False)
    go.touch()
    report = slurm_site.ended(run)
    states = {job["name"]: (job["state"], job["cause"]) for job in report["jobs"]}
    # Jobs are handed over so that nobody requeues them; a site may do it nevertheless, and none is run twice then.
    assert states["t0"] == ("DELETED", "CANCELLED")
    assert states["t2"] == ("SUCCEEDED", None)
    assert sorted(notes.read_text("utf-8").split()) == ["t0", "t1", "t2"]


def test_requeued_jobs_run_again_as_attempts_of_their_own(bare_site: SlurmSite) -> None:
    bare_site.describe(slurm="requeue: true")
    notes, go, pool = bare_site.folder / "notes", bare_site.folder / "go", bare_site.pool
    run = bare_site.begin(
        f"numberOfRetries: 0\nrunQuantumCommand: echo {{jobName}} >> {notes}; {wait_for(go)}\n"
        f"pipetask: {{D: {{runQuantumCommand: 'echo {{jobName}} >> {notes}'}}}}\n",
        {"a": ("A", []), "b": ("B", []), "d": ("D", [])},
    )

    def starts(job: str) -> int:
        return notes.read_text("utf-8").split().count(job) if notes.exists() else 0

    until(lambda: starts("a") == starts("b") == 1, "two jobs run")
    until(lambda: bare_site.counts(run) == {"SUCCEEDED": 1, "RUNNING": 2}, "one is over, and the others run")
    (over,) = tasks_of(bare_site, run, "-t", "COMPLETED")
    first, second = tasks_of(bare_site, run, "-t", "RUNNING")
    pool.run("scontrol", "requeue", f"{first},{over}")
    pool.run("scontrol", "requeuehold", second)
    until(lambda: len(notes.read_text("utf-8").split()) == 4, "one runs again")
    assert starts("d") == 1
    note = "job requeued in held state"
    until(lambda: any(note in each for each in bare_site.report(run)["notes"]), "the other is held")
    assert bare_site.counts(run) == {"SUCCEEDED": 1, "RUNNING": 1, "HELD": 1}
    # It starts as soon as it is released, while no engine sees it.
    os.kill(engine_of(run), signal.SIGKILL)
    pool.run("scontrol", "release", second)
    until(lambda: not tasks_of(bare_site, run, "-t", "PENDING"), "all that was requeued has started")
    assert bare_site.cli("resume", run, "--json").returncode == 0
    until(lambda: len(notes.read_text("utf-8").split()) == 5, "the other runs again")
    go.touch()
    assert bare_site.ended(run)["state"] == "SUCCEEDED"
    assert {job: starts(job) for job in "abd"} == {"a": 2, "b": 2, "d": 1}
    for job in ("a", "b"):
        assert [attempt["cause"] for attempt in bare_site.attempts(run, job)] == ["PREEMPTED", None]
    assert "the job was requeued" in bare_site.cli("explain", run, "a").stdout


def test_a_removed_job_is_deleted_and_runs_again_only_where_that_is_wanted(kept_site: SlurmSite) -> None:
    notes, go = kept_site.folder / "notes", kept_site.folder / "go"
    run = kept_site.begin(
        f"numberOfRetries: 3\nrunQuantumCommand: echo {{jobName}} >> {notes}; {wait_for(go)}\n"
        "pipetask: {B: {retryOn: {operator: true}}}\n",
        {"a": ("A", []), "b": ("B", []), "c": ("C", ["a"])},
    )
    until(lambda: notes.exists() and len(notes.read_text("utf-8").split()) == 2, "both have begun")
    until(lambda: kept_site.counts(run).get("RUNNING") == 2, "both run")
    kept_site.pool.run("scancel", *tasks_of(kept_site, run, "-t", "RUNNING"))
    until(lambda: notes.read_text("utf-8").split().count("b") == 2, "the one that is to be retried begins again")
    go.touch()
    report = kept_site.ended(run)
    assert kept_site.counts(run) == {"DELETED": 1, "PRUNED": 1, "SUCCEEDED": 1}
    assert notes.read_text("utf-8").split().count("a") == 1
    who = f"Slurm says CANCELLED by {user_name()}"
    assert report["removals"]["newest"] == [{"name": "a", "label": "A", "reason": who}]
    assert who in kept_site.cli("explain", str(run), "a").stdout
    assert [attempt["cause"] for attempt in kept_site.attempts(run, "b")] == ["CANCELLED", None]


def test_variables_of_an_enclosing_job_reach_nobody(bare_site: SlurmSite) -> None:
    ran = bare_site.submit(
        "runQuantumCommand: env\n",
        env={
            "SLURM_JOB_ID": "424242",
            "SBATCH_PARTITION": "nowhere",
            "SLURM_ARRAY_TASK_ID": "77",
            "SQUEUE_FORMAT": "%i",
            "SLURM_CLUSTERS": "elsewhere",
        },
    )
    assert ran.returncode == 0, ran.stderr
    log = bare_site.cli("logs", ran.json["submit_dir"], "a").stdout
    assert "424242" not in log
    assert "SBATCH_PARTITION" not in log


ODD = "é ü%j 'q' \"d\" $HOME `x` a;b&c #1 [x] %A \\n"


def test_every_sign_in_names_and_paths(slurm_site: SlurmSite, cli: Cli) -> None:
    # A dollar in the place of runs is a variable, and there is none of that name.
    folder = slurm_site.folder / ODD.replace("$", "")
    folder.mkdir()
    path = slurm_site.write(
        "runQuantumCommand: echo {jobName} is here\n", {ODD: ("A %j 'x'", []), "b": ('B"#$(y)', [ODD])}
    )
    for each in (path, path.with_suffix(".json")):
        each.rename(folder / each.name)
    ran = cli("submit", "run.yaml", "--wait", "--json", cwd=folder, timeout=300)
    assert ran.returncode == 0, ran.stderr
    run = Path(ran.json["submit_dir"])
    assert folder in run.parents
    assert slurm_site.counts(run) == {"SUCCEEDED": 2}


def test_an_engine_killed_with_a_thousand_jobs_in_the_queue(bare_site: SlurmSite) -> None:
    # No node takes any, so that all are still there.
    bare_site.pool.run("scontrol", "update", "nodename=n[1-4]", "state=drain", "reason=test")
    try:
        bare_site.describe("limits: {arraySize: 250}\n")
        run = bare_site.begin("runQuantumCommand: 'true'\n", many(1000))
        until(lambda: len(tasks_of(bare_site, run)) >= 500, "half of them are in the queue")
        os.kill(engine_of(run), signal.SIGKILL)
        resumed = bare_site.cli("resume", run, "--json")
        assert resumed.returncode == 0, resumed.stderr
        until(lambda: bare_site.counts(run) == {"PENDING": 1000}, "all are handed over")
        # What an sbatch that is not back yet was given counts as handed over, too.
        until(lambda: len(tasks_of(bare_site, run)) >= 1000, "all are in the queue")
        tasks = tasks_of(bare_site, run)
        # Each once: those of the life that was killed were adopted.
        assert len(tasks) == len(set(tasks)) == 1000
        assert bare_site.cli("cancel", run).returncode == 0
        assert bare_site.ended(run)["state"] == "DELETED"
        assert tasks_of(bare_site, run, "--states=PENDING,RUNNING,COMPLETING") == []
    finally:
        bare_site.pool.run("scontrol", "update", "nodename=n[1-4]", "state=resume", check=False)
