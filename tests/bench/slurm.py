"""Prints the cost of the Slurm service beside a bare job array, and while jobs run or wait.

Usage: python -m tests.bench.slurm [--only NAMES] [--jobs N] [--pending N] [--rounds N] [--seconds N] [--accounting]
           [--pilots] [--late S]

NAMES, with commas: task, array, chain, levels, nodes, idle, pending. `nodes` wants --pilots and a C compiler is needed
for --late. It starts a cluster of its own on loopback, which wants
root.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from tests.bench.batch_runs import (
    POLL_S,
    BatchBench,
    compare_array,
    compare_chain,
    compare_levels,
    format_calls,
    wait_for_end,
)
from tests.bench.choice import known_names
from tests.bench.processes import cpu_s
from tests.faults.mount import Mount
from tests.live.pools import SlurmPool, slurm
from tests.waiting import engine_of

from longshore.contract.service import RunPaths
from longshore.model.states import JobState
from longshore.rundir.run_directory import read_snapshot

_PROCESSORS = 16
"""Processors of the cluster: four nodes of four."""
_SHORT = "sleep 0.01"
_TASKS = 200
"""Number of starts of the batch script per measurement."""


class Bench(BatchBench):
    """A Slurm cluster and runs on it."""

    programs = ("sbatch", "squeue", "sacct", "scontrol", "scancel")
    service = "slurm"
    dependency = "afterok"

    def __init__(self, pool: SlurmPool, folder: Path) -> None:
        super().__init__(folder, {}, os.environ["PATH"])
        self.pool = pool

    def site_lines(self) -> str:
        """Return the line that names the cluster's configuration."""
        return f'  config: "{self.pool.conf}"\n'

    def submit_bare(self, width: int, after: str) -> str:
        """Submit an array of empty jobs."""
        words = ["sbatch", "--parsable", f"--array=0-{width - 1}", "--mem=50M", "--output=/dev/null", "--wrap=true"]
        return self.pool.run(*words, *([f"--dependency=afterok:{after}"] if after else [])).strip()

    def is_in_queue(self, job: str) -> bool:
        """Whether squeue has a job."""
        return bool(self.pool.run("squeue", "--noheader", f"--jobs={job}", "--format=%i", check=False).strip())


def measure_batch_script(bench: Bench, options: argparse.Namespace) -> None:
    """Print the batch script's cost per member beside an empty script, without Slurm."""
    run = bench.submit(_TASKS)
    wait_for_end(run)
    (table,) = (run / "batches").glob("*.tsv")
    script, ends = run / "task.sh", run / "task-ends"
    ends.mkdir()
    words = f"-e {shlex.quote(str(ends))} {shlex.quote(str(table))} && . {shlex.quote(str(run / 'wms/longshore-job'))}"
    script.write_text(f'#!/bin/sh\nset -- -m "$1" {words}\n', "utf-8")
    nothing = run / "nothing.sh"
    nothing.write_text("#!/bin/sh\ntrue\n", "utf-8")
    for name, path in (("a job's script", script), ("one that does nothing", nothing)):
        processes, used_s = script_cost(path)
        print(f"{name}: {processes:.1f} processes, {1000 * used_s:.1f} ms of a processor (mean of {_TASKS})")


def script_cost(script: Path) -> tuple[float, float]:
    """Return processes and processor seconds per call of a script."""
    # In a namespace of its own, the number of the last process is the number of processes.
    loop = f'i=0; while [ $i -lt {_TASKS} ]; do i=$((i + 1)); /bin/sh "$0" $i; done; sh -c "echo \\$\\$"'
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = ["unshare", "--pid", "--fork", "/bin/sh", "-c", loop, str(script)]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # The loop's shell, and the one that tells.
    return (int(said.split()[-1]) - 2) / _TASKS, used_s / _TASKS


def compare_nodes(bench: Bench, options: argparse.Namespace) -> None:
    """Print short jobs in one allocation of two nodes beside the same commands under `xargs`, in alternating rounds.

    All nodes of the cluster are this machine, so both sides have the same processors.
    """
    bench.run_lines = "packing: pilot\npilot: {cpus: 4, memory: 800, count: 1, nodes: 2}\n"
    bench.submit(1)
    bare, run = [], []
    for number in range(options.rounds):
        if number % 2 == 0:
            bare.append(_xargs_s(options.jobs))
        began = time.monotonic()
        folder = bench.submit(options.jobs, command=_SHORT)
        prepared = time.monotonic()
        engine_s = wait_for_end(folder)
        run.append(time.monotonic() - prepared)
        if number % 2 == 1:
            bare.append(_xargs_s(options.jobs))
        print(
            f"  xargs {bare[-1]:.1f} s, run {run[-1]:.1f} s after {prepared - began:.1f} s of preparation; its engine "
            f"used {engine_s:.1f} s of a processor; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    middle, other = statistics.median(run), statistics.median(bare)
    print(
        f"{options.jobs} jobs of 10 ms on two nodes: {options.jobs / middle:.0f} jobs/s, {middle / other:.2f} times as "
        f"long as xargs (medians of {len(run)})"
    )


def _xargs_s(jobs: int) -> float:
    """Return the seconds that so many commands take of which eight run at once."""
    began = time.monotonic()
    numbers = "".join(f"{number}\n" for number in range(jobs))
    subprocess.run(["xargs", "-P", "8", "-I_", *_SHORT.split()], input=numbers, text=True, check=True)
    return time.monotonic() - began


def measure_idle(bench: Bench, options: argparse.Namespace) -> None:
    """Print the cost of an engine while all its jobs run and nothing happens."""
    run = bench.submit(_PROCESSORS, command="sleep 3600")
    while _count(run, JobState.RUNNING) < _PROCESSORS:
        time.sleep(POLL_S)
    # Until the interval between two questions has grown.
    time.sleep(60)
    print(f"{_PROCESSORS} jobs running: {idle_cost(bench, run, options.seconds)}")
    bench.cancel(run)
    wait_for_end(run)


def idle_cost(bench: Bench, run: Path, seconds: float) -> str:
    """Return the engine's share of a processor and the calls of programs over some time."""
    before, began, busy = bench.calls(), time.monotonic(), cpu_s(engine_of(run)) or 0.0
    time.sleep(seconds)
    took, used = time.monotonic() - began, (cpu_s(engine_of(run)) or 0.0) - busy
    calls = bench.calls() - before
    return f"engine {100 * used / took:.2f} % of a core over {took:.0f} s; {format_calls(calls) or 'no call'}"


def measure_pending(bench: Bench, options: argparse.Namespace) -> None:
    """Print the cost of an engine whose jobs are all pending."""
    nodes = "n[1-4]"
    bench.pool.run("scontrol", "update", f"nodename={nodes}", "state=drain", "reason=bench")
    try:
        run = bench.submit(options.pending, own=f"  n_max_queued_jobs: {options.pending}\n")
        # Until all are in, and the interval between two questions has grown.
        while "sbatch" not in bench.calls() or _count(run, JobState.PENDING) < options.pending:
            time.sleep(POLL_S)
        time.sleep(60)
        print(f"{options.pending} jobs pending: {idle_cost(bench, run, options.seconds)}")
        bench.cancel(run)
        wait_for_end(run)
    finally:
        bench.pool.run("scontrol", "update", f"nodename={nodes}", "state=resume")


def _count(run: Path, state: JobState) -> int:
    snapshot = read_snapshot(RunPaths(run))
    return 0 if snapshot is None else snapshot.counts.get(state, 0)


def main() -> None:
    """Run the chosen measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = {
        "task": measure_batch_script,
        "array": compare_array,
        "chain": compare_chain,
        "levels": compare_levels,
        "nodes": compare_nodes,
        "idle": measure_idle,
        "pending": measure_pending,
    }
    usual = [name for name in parts if name != "nodes"]
    parser.add_argument("--only", type=known_names(parts), default=usual)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--pending", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--accounting", action="store_true")
    parser.add_argument("--pilots", action="store_true", help="Let pilots run the jobs of runs.")
    parser.add_argument(
        "--late", type=float, default=0.0, help="Seconds after which pilots and engines see each other."
    )
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        slurm(Path(folder) / "pool", accounting=options.accounting) as pool,
    ):
        (Path(folder) / "runs").mkdir()
        bench = Bench(pool, Path(folder) / "runs")
        if options.pilots:
            bench.run_lines = "packing: pilot\npilot: {memory: 200}\n"
        if options.late:
            mount = Mount(Path(folder), Path(folder) / "gate", late_s=options.late, part="/pilots/mail/")
            bench.set_variables(mount.variables())
        for name in options.only:
            parts[name](bench, options)


if __name__ == "__main__":
    main()
