"""Nodes of a real cluster that fail, jobs that give way to others, and programs that run on several nodes."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest
from tests.live.daemons import end_process, kill_all, start_missing, step_processes
from tests.live.runs import SlurmSite, until

pytestmark = pytest.mark.live

MISSED_AFTER_S = 21.0
"""Seconds after its start from which Slurm believes a node that a job is missing: BatchStartTimeout and MessageTimeout.

It is shorter than SlurmdTimeout, which a daemon that stays away is waited for."""
PMI_PROGRAM = Path(__file__).resolve().parents[1] / "data" / "pmi_ring.py"


def started(notes: Path) -> list[list[str]]:
    """Return what the jobs that began wrote, a line each: name, node, process."""
    lines = notes.read_text("utf-8").splitlines() if notes.exists() else []
    return [line.split() for line in lines]


def has_started(notes: Path, times: int, job: str = "") -> bool:
    """Whether jobs, or attempts of one job, began so many times."""
    return sum(job in ("", name) for name, *_ in started(notes)) == times


def waiting_command(notes: Path, go: Path) -> str:
    """Return a command that says where it runs, and ends well once there is a file."""
    return f"echo {{jobName}} $SLURMD_NODENAME $$ >> {notes}; while ! test -e {go}; do sleep 0.2; done"


def test_jobs_end_well_on_a_node_whose_daemon_is_killed(slurm_site: SlurmSite) -> None:
    notes, go = slurm_site.folder / "notes", slurm_site.folder / "go"
    run = slurm_site.begin(f"numberOfRetries: 0\nrunQuantumCommand: {waiting_command(notes, go)}\n")
    until(lambda: len(started(notes)) == 1, "the job runs")
    ((_, node, _),) = started(notes)
    end_process(slurm_site.pool.pid(f"slurmd.{node}"))
    try:
        go.touch()
        # Its step lives on without the daemon, and the job records its end itself.
        until(lambda: list(run.glob("ends/*/0.1")) or slurm_site.counts(run) == {"SUCCEEDED": 1}, "the job's end")
    finally:
        start_missing(slurm_site.pool)
    assert slurm_site.ended(run)["state"] == "SUCCEEDED"
    assert slurm_site.counts(run) == {"SUCCEEDED": 1}
    (attempt,) = slurm_site.attempts(run, "a")
    assert (attempt["cause"], attempt["exit_code"]) == (None, 0)
    assert [name for name, *_ in started(notes)] == ["a"]


def test_jobs_that_die_with_their_node_are_lost_and_run_again(bare_site: SlurmSite, kept_site: SlurmSite) -> None:
    # Both kinds of cluster are waited for at once, one of them with a fence.
    go = bare_site.folder / "go"
    runs: dict[str, tuple[SlurmSite, Path, Path]] = {}
    for name, site in (("bare", bare_site), ("kept", kept_site)):
        site.describe(slurm="fence: true" if site is bare_site else "")
        notes = site.folder / name
        text = f"numberOfRetries: 0\nretryOnLost: 1\nrunQuantumCommand: {waiting_command(notes, go)}\n"
        run = site.begin(text, {"a": ("A", []), "b": ("B", []), "c": ("C", ["a"])}, name=name)
        runs[name] = (site, run, notes)
    for _, _, notes in runs.values():
        until(partial(has_started, notes, 2), "two jobs run")
    began = time.monotonic()
    until(lambda: time.monotonic() - began > MISSED_AFTER_S, "a job that is missing counts as dead")
    for site, _, notes in runs.values():
        lost = next(node for name, node, _ in started(notes) if name == "a")
        own = [step_processes(int(process)) for _, node, process in started(notes) if node == lost]
        kill_all([site.pool.pid(f"slurmd.{lost}"), *(pid for pids in own for pid in pids)])
        start_missing(site.pool)
    _, kept_run, kept_notes = runs["kept"]
    until(partial(has_started, kept_notes, 2, "a"), "it runs again", patience_s=45)
    assert "was given up, and may still run on" in kept_site.cli("explain", kept_run, "a").stdout
    _, bare_run, bare_notes = runs["bare"]
    told = "job 'a' waits until its attempt 1 on"
    until(lambda: any(told in note for note in bare_site.report(bare_run)["notes"]), "the fence is told")
    assert has_started(bare_notes, 1, "a")
    # The node is there again, and its copy may be, until it says that it was booted since.
    lost = next(node for name, node, _ in started(bare_notes) if name == "a")
    end_process(bare_site.pool.pid(f"slurmd.{lost}"))
    start_missing(bare_site.pool, SLURMD_OPTIONS="-b")
    until(partial(has_started, bare_notes, 2, "a"), "it runs again behind the fence", patience_s=45)
    assert "may still run" not in bare_site.cli("explain", bare_run, "a").stdout
    go.touch()
    for site, run, notes in runs.values():
        assert site.ended(run)["state"] == "SUCCEEDED"
        assert site.counts(run) == {"SUCCEEDED": 3}
        first, second = site.attempts(run, "a")
        assert (first["cause"], second["cause"]) == ("LOST", None)
        names = [name for name, *_ in started(notes)]
        assert names.count("a") == 2
        # The other may have been on the same node, or not.
        assert names.count("b") == len(site.attempts(run, "b"))
        assert names.count("c") == 1
        assert "LOST" in site.cli("explain", run, "a").stdout


def test_a_job_that_gives_way_runs_again(slurm_site: SlurmSite) -> None:
    notes, go, pool = slurm_site.folder / "notes", slurm_site.folder / "go", slurm_site.pool
    slurm_site.describe(slurm="partition: scavenge")
    run = slurm_site.begin(
        f"numberOfRetries: 0\nrequestCpus: 4\nrunQuantumCommand: {waiting_command(notes, go)}\n",
        {f"t{number}": ("A", []) for number in range(4)},
    )
    until(lambda: len(started(notes)) == 4, "the run has all nodes")
    urgent = pool.run(
        "sbatch", "--parsable", "--partition=main", "--cpus-per-task=4", "--output=/dev/null", "--wrap=true"
    ).strip()
    until(lambda: len(started(notes)) == 5, "the job that gave way runs again")
    assert "COMPLETED" in pool.run("squeue", "--noheader", "--states=all", f"--jobs={urgent}", "--format=%T")
    go.touch()
    assert slurm_site.ended(run)["state"] == "SUCCEEDED"
    assert slurm_site.counts(run) == {"SUCCEEDED": 4}
    names = [name for name, *_ in started(notes)]
    (again,) = [name for name in set(names) if names.count(name) == 2]
    assert sorted(set(names)) == ["t0", "t1", "t2", "t3"]
    first, second = slurm_site.attempts(run, again)
    assert (first["cause"], second["cause"]) == ("PREEMPTED", None)
    assert "PREEMPTED" in slurm_site.cli("explain", run, again).stdout


def test_processes_on_two_nodes_find_each_other_by_pmi(bare_site: SlurmSite) -> None:
    # No MPI is needed: its processes find each other by the same interface, which srun offers.
    tasks = {"nodeCount": 2, "tasksPerNode": 2, "tasks": 4}
    lines = "".join(f"  {key}: {value}\n" for key, value in tasks.items())
    ran = bare_site.submit(
        f"numberOfRetries: 0\nslurm:\n{lines}  launcher: srun --mpi=pmi2\nrunQuantumCommand: python3 {PMI_PROGRAM}\n"
    )
    run = ran.json["submit_dir"]
    said = bare_site.cli("logs", run, "a").stdout
    assert ran.returncode == 0, f"{ran.stderr}\n{said}"
    told = sorted(line.split() for line in said.splitlines() if line.startswith("rank "))
    assert [words[1] for words in told] == ["0", "1", "2", "3"]
    nodes = [words[3] for words in told]
    assert len(set(nodes)) == 2
    # Each was told by its neighbour where that runs.
    assert [words[5] for words in told] == [*nodes[1:], nodes[0]]
