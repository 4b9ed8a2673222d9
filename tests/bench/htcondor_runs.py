"""Prints the cost of reports from HTCondor's logs, and of runs beside a DAG written by hand.

Usage: python -m tests.bench.htcondor_runs [--only NAMES] [--jobs N] [--rounds N] [--noops N]

NAMES, with commas: report, live, first, noops. It starts a pool of its own on loopback; see tests/live/condor-up.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.choice import known_names
from tests.bench.figures import note_figure
from tests.bench.report import print_medians, without_cache
from tests.live.condor_pools import CondorPool, condor
from tests.live.condor_runs import SITE
from tests.workflows import wfformat

from longshore.contract.service import RunPaths
from longshore.model.event import FORMAT, Life
from longshore.services.htcondor.submission_record import DagSubmission, SubmissionRecord, write_submissions

SIZE = 100_172
PARTS = ("report", "live", "first", "noops")
_BPS_THEN = "23.9 s of processor, 996 MB"
"""Cost of a detailed report by BPS 30.2026.300 for a run of the same size."""
_SCRIPT = Path(__file__).with_name("bare_dag.py")
_POLL_S = 0.1
_USAGE = """\
\t\tUsr 0 00:00:07, Sys 0 00:00:01  -  Run Remote Usage
\t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Run Local Usage
\t\tUsr 0 00:00:07, Sys 0 00:00:01  -  Total Remote Usage
\t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Total Local Usage
\t0  -  Run Bytes Sent By Job
\t0  -  Run Bytes Received By Job
\t0  -  Total Bytes Sent By Job
\t0  -  Total Bytes Received By Job
\tPartitionable Resources :    Usage  Request Allocated
\t   Cpus                 :     0.97        1         1
\t   Disk (KB)            :   125        1024      1024
\t   GPUs                 :                           0
\t   Memory (MB)          :   318        2048      2048
\t   TimeExecute (s)      :     9
\t   TimeSlotBusy (s)     :     9
"""


def pool_environment(pool: CondorPool, folder: Path) -> dict[str, str]:
    """Return an environment with the pool and a separate home."""
    home = {name: str(folder / name) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}
    return {**pool.env, **home, "PYTHONPATH": os.pathsep.join(sys.path)}


def run_longshore(*words: str, env: dict[str, str], cwd: Path) -> str:
    """Run a Longshore command and return its output."""
    line = [sys.executable, "-m", "longshore", *words]
    return subprocess.run(line, env=env, cwd=cwd, check=True, capture_output=True, text=True).stdout


# -------------------------------------------------------------------------------------------------------------- report


def log_records(size: int) -> Iterator[str]:
    """Yield log records of a DAG whose jobs all succeeded, a few at the second attempt."""
    second = 0
    for job in range(size):
        cluster, second = job + 2, second + (job % 20 == 0)
        at = f"2026-11-22 {6 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        head = f"({cluster:03}.000.000) {at}"
        where = f"<10.0.{job % 250}.7:9618?addrs=10.0.{job % 250}.7-9618&alias=node{job % 250}.example.org>"
        start = (
            f"001 {head} Job executing on host: {where}\n\tSlotName: slot1_{job % 64}@node{job % 250}.example.org\n"
            f'\tCondorScratchDir = "/var/lib/condor/execute/dir_{job}"\n\tCpus = 1\n\tDisk = 1024\n\tGPUs = 0\n'
            "\tMemory = 2048\n...\n"
        )
        node = f'    [ DAGNodeName = "j{job}"; JobBatchName = "big" ]'
        yield f"000 {head} Job submitted from host: {where}\n{node}\n...\n"
        yield start
        if job % 250 == 7:
            yield (
                f"004 {head} Job was evicted.\n\t(0) Job terminated and was requeued\n{_USAGE}"
                "\t(1) Normal termination (return value 3)\n...\n"
            )
            yield start
        yield f"005 {head} Job terminated.\n\t(1) Normal termination (return value 0)\n{_USAGE}...\n"


def measure_reports(folder: Path, pool: CondorPool, number: int) -> None:
    """Print the cost of the first report of a large run and of later ones."""
    env = pool_environment(pool, folder)
    tasks = {f"t{job:06}": (f"label{job % 10}", [f"t{job - 10:06}"] if job >= 10 else []) for job in range(SIZE)}
    (folder / "graph.json").write_text(json.dumps(wfformat(tasks)), "utf-8")
    text = f"{SITE}wfformat: graph.json\nsubmitPath: big\nrequestMemory: 2048\nrunQuantumCommand: 'true'\n"
    (folder / "big.yaml").write_text(text, "utf-8")
    run_longshore("prepare", "big.yaml", env=env, cwd=folder)
    run = RunPaths(folder / "big")
    with (run.wms / "run.dag.nodes.log").open("w", encoding="utf-8") as file:
        file.writelines(log_records(SIZE))
    end = f"005 (001.000.000) 2026-11-22 09:00:00 Job terminated.\n\t(1) Normal termination (return value 0)\n{_USAGE}"
    (run.wms / "run.dag.dagman.log").write_text(f"{end}...\n", "utf-8")
    life = Life(v=FORMAT, life=1, t=time.time(), host="ap.example.org", pid=1, boot="", by="submit")
    write_submissions(
        run, SubmissionRecord(submissions=(DagSubmission(life=life, cluster=1, schedd="ap.example.org"),))
    )
    size = (run.wms / "run.dag.nodes.log").stat().st_size
    print(f"report of {SIZE} jobs from a log of {size / 1e6:.0f} MB")
    os.environ.update({name: env[name] for name in ("CONDOR_CONFIG", "PYTHONPATH")})
    again = [sys.executable, "-m", "longshore", "report", "--id", str(run.root)]
    print_medians("first: reads the log", without_cache(run, again), folder, number)
    print_medians("again", again, folder, number)
    row = f"`report --json` of {SIZE:,} jobs on HTCondor"
    print_medians(
        "every job (--json), first",
        without_cache(run, [*again, "--json"]),
        folder,
        number,
        goal="2 s",
        row=f"{row}, first",
    )
    print_medians("every job (--json), again", [*again, "--json"], folder, number, goal="0.7 s", row=f"{row}, again")
    print(f"  {'bps, then':44} {_BPS_THEN}")


# ---------------------------------------------------------------------------------------------------------------- live


def write_hand_dag(folder: Path, jobs: int) -> None:
    """Write ``hand.dag``: jobs of /bin/true without dependencies."""
    folder.mkdir()
    nodes = "".join(f"JOB n{job} one\n" for job in range(jobs))
    description = "executable = /bin/true\n  request_cpus = 1\n  request_memory = 50\n  request_disk = 1M\n"
    more = "  should_transfer_files = NO\n  output = out.$(Cluster)\n  error = out.$(Cluster)\n"
    (folder / "hand.dag").write_text(f"SUBMIT-DESCRIPTION one {{\n  {description}{more}}}\n{nodes}", "utf-8")


def hand_written_dag_s(folder: Path, pool: CondorPool, jobs: int) -> float:
    """Return seconds from submission to end of a DAG written by hand."""
    write_hand_dag(folder, jobs)
    began = time.monotonic()
    subprocess.run(["condor_submit_dag", "hand.dag"], cwd=folder, env=pool.env, check=True, capture_output=True)
    log = folder / "hand.dag.dagman.log"
    while not log.exists() or "\n005 (" not in f"\n{log.read_text('utf-8')}":
        time.sleep(_POLL_S)
    return time.monotonic() - began


def write_configuration(folder: Path, jobs: int) -> None:
    """Write ``run.yaml`` and its graph: jobs of /bin/true without dependencies."""
    folder.mkdir()
    tasks = {f"t{job}": ("A", list[str]()) for job in range(jobs)}
    (folder / "graph.json").write_text(json.dumps(wfformat(tasks)), "utf-8")
    asked = "requestMemory: 50\nrequestDisk: 1\nrunQuantumCommand: /bin/true\n"
    text = f"{SITE}wfformat: graph.json\nsubmitPath: run\n{asked}"
    (folder / "run.yaml").write_text(text, "utf-8")


def longshore_run_s(folder: Path, pool: CondorPool, jobs: int) -> float:
    """Return seconds from ``submit`` to a report that the run succeeded."""
    write_configuration(folder, jobs)
    env = pool_environment(pool, folder)
    began = time.monotonic()
    said = run_longshore("submit", "run.yaml", "--wait", "--json", env=env, cwd=folder)
    seconds = time.monotonic() - began
    assert '"SUCCEEDED"' in said
    return seconds


def compare_runs(folder: Path, pool: CondorPool, jobs: int, number: int) -> None:
    """Print the ratio of runs to a hand-written DAG in the same pool."""
    print(f"{jobs} jobs of /bin/true in a pool of 8 pretended processors, {number} rounds, in turn")
    hand, here = [], []
    for each in range(number):
        hand.append(hand_written_dag_s(folder / f"hand{each}", pool, jobs))
        here.append(longshore_run_s(folder / f"ours{each}", pool, jobs))
        print(f"  round {each + 1}: by hand {hand[-1]:6.1f} s, submit to SUCCEEDED {here[-1]:6.1f} s", flush=True)
    one, other = statistics.median(hand), statistics.median(here)
    note_figure(f"HTCondor: {jobs} jobs of `true`, `submit` to its end", f"{other:.1f} s", f"bare DAG: {one:.1f} s")
    print(f"  median: by hand {one:.1f} s, ours {other:.1f} s, {other / one:.2f} times as long (goal 1.05)")


def first_job_s(command: list[str], folder: Path, log: Path, env: dict[str, str]) -> float:
    """Return seconds from a submission until DAGMan submits its first job, and remove the jobs.

    `log` is the log of the DAG's jobs.
    """
    began = time.monotonic()
    subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True)
    while not log.exists() or "DAGNodeName" not in log.read_text("utf-8"):
        time.sleep(_POLL_S / 10)
    seconds = time.monotonic() - began
    # The only run of this pool.
    subprocess.run(["condor_rm", "-all"], env=env, check=True, capture_output=True)
    while subprocess.run(["condor_q", "-af", "ClusterId"], env=env, check=True, capture_output=True).stdout:
        time.sleep(_POLL_S)
    return seconds


def compare_first_jobs(folder: Path, pool: CondorPool, jobs: int, number: int) -> None:
    """Print how long a large run waits for DAGMan's first job, beside a hand-written DAG in the same pool."""
    print(f"DAGMan's first job of {jobs} jobs of /bin/true, {number} rounds, in turn")
    env = pool_environment(pool, folder)
    hand, script, here, alone = [], [], [], []
    for each in range(number):
        place = folder / f"first-hand{each}"
        write_hand_dag(place, jobs)
        hand.append(first_job_s(["condor_submit_dag", "hand.dag"], place, place / "hand.dag.nodes.log", pool.env))
        place = folder / f"first-script{each}"
        write_configuration(place, jobs)
        script.append(first_job_s([sys.executable, str(_SCRIPT)], place, place / "hand.dag.nodes.log", pool.env))
        place = folder / f"first-ours{each}"
        write_configuration(place, jobs)
        began = time.monotonic()
        run_longshore("prepare", "run.yaml", "--set", "submitPath=prepared", env=env, cwd=place)
        alone.append(time.monotonic() - began)
        submit = [sys.executable, "-m", "longshore", "submit", "run.yaml"]
        here.append(first_job_s(submit, place, place / "run" / "wms" / "run.dag.nodes.log", env))
        print(
            f"  round {each + 1}: by hand {hand[-1]:6.2f} s, by a script {script[-1]:6.2f} s, ours {here[-1]:6.2f} s, "
            f"`prepare` {alone[-1]:.2f} s",
            flush=True,
        )
    one, written, other = statistics.median(hand), statistics.median(script), statistics.median(here)
    note_figure(
        f"HTCondor: {jobs:,} jobs, `submit` to DAGMan's first job",
        f"{other:.2f} s, of which {statistics.median(alone):.2f} s read the graph and write the DAG",
        f"bare DAG, written before: {one:.2f} s; written by a script meanwhile: {written:.2f} s",
    )
    print(f"  median: by hand {one:.2f} s, ours {other:.2f} s, {other / one:.2f} times as long (goal 1.05)")
    print(f"  beside a DAG that a script writes meanwhile: {written:.2f} s, {other / written:.2f} times as long")
    print(f"  least: by hand {min(hand):.2f} s, by a script {min(script):.2f} s, ours {min(here):.2f} s")
    print(f"  `prepare` alone, with the start of Python: {statistics.median(alone):.2f} s")


def measure_noops(folder: Path, pool: CondorPool, size: int) -> None:
    """Print the time DAGMan takes for a DAG of NOOP nodes."""
    env = pool_environment(pool, folder)
    # DAGMan takes two looks at its log, a second apart, from one level to the next.
    wide = max(1, size // 5)
    tasks = {f"t{job:06}": (f"label{job % 10}", [f"t{job - wide:06}"] if job >= wide else []) for job in range(size)}
    (folder / "noops.json").write_text(json.dumps(wfformat(tasks)), "utf-8")
    settings = "{DAGMAN_MAX_SUBMITS_PER_INTERVAL: 100000, DAGMAN_AGGRESSIVE_SUBMIT: true, DAGMAN_VERBOSITY: 1}"
    text = f"{SITE}wfformat: noops.json\nsubmitPath: noops\nrunQuantumCommand: 'true'\nwmsConfig: {settings}\n"
    (folder / "noops.yaml").write_text(text, "utf-8")
    run_longshore("prepare", "noops.yaml", env=env, cwd=folder)
    wms = folder / "noops" / "wms"
    lines = (wms / "run.dag").read_text("utf-8").splitlines()
    (wms / "run.dag").write_text(
        "".join(f"{line} NOOP\n" if line.startswith("JOB j") else f"{line}\n" for line in lines)
    )
    began = time.monotonic()
    subprocess.run(["condor_submit_dag", "run.dag"], cwd=wms, env=pool.env, check=True, capture_output=True)
    log = wms / "run.dag.dagman.log"
    while not log.exists() or "\n005 (" not in f"\n{log.read_text('utf-8')}":
        time.sleep(_POLL_S)
    ended = "return value 0" in log.read_text("utf-8")
    print(f"a DAG of {size} NOOPs: {time.monotonic() - began:.1f} s, {'well' if ended else 'BADLY'}")


def add_options(parser: argparse.ArgumentParser, parts: tuple[str, ...] = PARTS) -> None:
    """Add the options that choose measurements to a parser."""
    parser.add_argument("--only", type=known_names(parts), default=parts, help="which of them, with commas")
    parser.add_argument("--jobs", type=int, default=500, help="jobs of each live run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--noops", type=int, default=100_000, help="nodes of the DAG that does nothing")


def measure(options: argparse.Namespace) -> None:
    """Print the chosen measurements."""
    folder = Path(tempfile.mkdtemp(prefix="longshore-bench-"))
    try:
        with condor(folder / "pool") as pool:
            if "report" in options.only:
                measure_reports(folder, pool, options.rounds)
            if "live" in options.only:
                compare_runs(folder, pool, options.jobs, options.rounds)
            if "first" in options.only:
                compare_first_jobs(folder, pool, 20 * options.jobs, options.rounds)
            if "noops" in options.only:
                measure_noops(folder, pool, options.noops)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
