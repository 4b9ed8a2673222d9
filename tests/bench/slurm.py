"""Prints the cost of the Slurm service beside a bare job array, and while jobs run or wait.

Usage: python -m tests.bench.slurm [--only NAMES] [--jobs N] [--pending N] [--rounds N] [--seconds N] [--accounting]

NAMES, with commas: task, array, chain, levels, idle, pending. It starts a cluster of its own on loopback, which wants
root.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.bench.choice import known_names
from tests.bench.processes import cpu_s, installed_environment
from tests.live.pools import SlurmPool, slurm
from tests.waiting import engine_of
from tests.workflows import wfformat

from longshore.contract.context import RunPaths
from longshore.model.run.states import JobState
from longshore.world.runs.run_directory import read_snapshot

_COUNTED = ("sbatch", "squeue", "sacct", "scontrol", "scancel")
_POLL_S = 0.2
_PROCESSORS = 16
"""Processors of the cluster: four nodes of four."""
_COLLECT_S = 10.0
"""Longest time that an engine collects what accounting knows after the end of its run."""
_TASKS = 200
"""Number of starts of the batch script per measurement."""
_CHAIN = (1,) * 10
"""Jobs per level of a chain."""
_LEVELS = (20,) * 5
"""Jobs per level of a graph in which each job waits for all of the level before."""


class Bench:
    """A cluster and runs on it.

    Parameters
    ----------
    pool
        The cluster.
    folder
        Where runs go.
    """

    def __init__(self, pool: SlurmPool, folder: Path) -> None:
        self.pool = pool
        self._folder = folder
        self._calls = folder / "calls"
        bin_ = folder / "bin"
        bin_.mkdir()
        for name in _COUNTED:
            text = f'#!/bin/sh\necho "{name} $*" >>"{self._calls}"\nexec "{shutil.which(name)}" "$@"\n'
            (bin_ / name).write_text(text, "utf-8")
            (bin_ / name).chmod(0o755)
        home = folder / "home"
        self._env = {
            **installed_environment(folder),
            "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            **{name: str(home / name) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")},
        }
        self._sites = home / "XDG_CONFIG_HOME" / "longshore" / "sites"
        self._sites.mkdir(parents=True)
        self._runs = 0

    def submit(self, *levels: int, slurm: str = "", command: str = "true") -> Path:
        """Submit a run of equal jobs, which do nothing by default; each waits for all of the level before."""
        self._runs += 1
        self._calls.write_text("", "utf-8")
        (self._sites / "cluster.yaml").write_text(
            f'title: A cluster\nservice: slurm\nslurm:\n  config: "{self.pool.conf}"\n{slurm}', "utf-8"
        )
        folder = self._folder / f"run{self._runs}"
        folder.mkdir()
        tasks: dict[str, tuple[str, list[str]]] = {}
        parents: list[str] = []
        for level, width in enumerate(levels):
            names = [f"t{level}_{number}" for number in range(width)]
            tasks |= dict.fromkeys(names, (f"L{level}", parents))
            parents = names
        (folder / "graph.json").write_text(json.dumps(wfformat(tasks)), "utf-8")
        (folder / "run.yaml").write_text(
            f"computeSite: cluster\nwfformat: graph.json\nrequestMemory: 50\nrunQuantumCommand: '{command}'\n", "utf-8"
        )
        ran = subprocess.run(
            [sys.executable, "-m", "longshore", "submit", "run.yaml", "--json"],
            cwd=folder,
            env=self._env,
            check=True,
            capture_output=True,
            text=True,
        )
        return Path(json.loads(ran.stdout)["submit_dir"])

    def cancel(self, run: Path) -> None:
        """Cancel a run."""
        command = [sys.executable, "-m", "longshore", "cancel", str(run)]
        subprocess.run(command, env=self._env, check=True, capture_output=True)

    def calls(self) -> Counter[str]:
        """Return calls of each program since the latest submission."""
        lines = self._calls.read_text("utf-8").splitlines()
        return Counter(line.split()[0] for line in lines if not line.endswith(("--version", "--helpformat")))

    def bare_s(self, *levels: int) -> float:
        """Return seconds of bare arrays, each after the success of the one before, until the queue is empty."""
        began = time.monotonic()
        number = ""
        for width in levels:
            words = ["sbatch", "--parsable", f"--array=0-{width - 1}", "--mem=50M", "--output=/dev/null", "--wrap=true"]
            after = [f"--dependency=afterok:{number}"] if number else []
            number = self.pool.run(*words, *after).strip()
        while self.pool.run("squeue", "--noheader", f"--jobs={number}", "--format=%i", check=False).strip():
            time.sleep(_POLL_S)
        return time.monotonic() - began

    def run_s(self, *levels: int) -> tuple[float, float, float]:
        """Return seconds of a run with and without preparation, and of its engine."""
        began = time.monotonic()
        run = self.submit(*levels)
        prepared = time.monotonic()
        engine_s = wait_for_end(run)
        return time.monotonic() - began, time.monotonic() - prepared, engine_s


def wait_for_end(run: Path) -> float:
    """Wait for the end of a run and return the engine's last known processor seconds."""
    used_s = 0.0
    while True:
        snapshot = read_snapshot(RunPaths(run))
        if snapshot is not None and snapshot.finished:
            return used_s
        if snapshot is not None:
            used_s = cpu_s(engine_of(run)) or used_s
        time.sleep(_POLL_S)


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


def compare_array(bench: Bench, options: argparse.Namespace) -> None:
    """Print a run of empty jobs beside a bare array of the same size, in alternating rounds."""
    # The first start of each program compiles its modules, which an installation has done.
    bench.run_s(1)
    bare: list[float] = []
    ours: list[float] = []
    preparing: list[float] = []
    for number in range(options.rounds):
        # Which of both is first alternates: the load of the machine may rise or fall.
        if number % 2 == 0:
            bare.append(bench.bare_s(options.jobs))
        whole, seconds, engine_s = bench.run_s(options.jobs)
        calls = bench.calls()
        if number % 2 == 1:
            bare.append(bench.bare_s(options.jobs))
        ours.append(whole)
        preparing.append(whole - seconds)
        print(
            f"  bare array {bare[-1]:.1f} s, run {whole:.1f} s ({preparing[-1]:.1f} s to submit it; its engine used "
            f"{engine_s:.1f} s of a processor); load {os.getloadavg()[0]:.1f}; {format_calls(calls)}",
            flush=True,
        )
    # The interval between two questions is 2 s at the least: no more calls of each than that.
    most = max(ours) / 2 + 2
    print(
        f"calls that ask: {calls['squeue']} squeue, {calls['sacct']} sacct, at most one each interval, "
        f"which would be {most:.0f}; that hand over: {calls['sbatch']} sbatch"
    )
    share = statistics.median(ours) / statistics.median(bare)
    print(
        f"{options.jobs} jobs of true: bare array {statistics.median(bare):.1f} s, run {statistics.median(ours):.1f} s "
        f"(medians of {options.rounds}), {share:.2f} times; to submit it "
        f"{statistics.median(preparing):.1f} s; newest round: {format_calls(calls)}"
    )


def measure_idle(bench: Bench, options: argparse.Namespace) -> None:
    """Print the cost of an engine while all its jobs run and nothing happens."""
    run = bench.submit(_PROCESSORS, command="sleep 3600")
    while _count(run, JobState.RUNNING) < _PROCESSORS:
        time.sleep(_POLL_S)
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


def compare_chain(bench: Bench, options: argparse.Namespace) -> None:
    """Print a chain of empty jobs beside bare jobs with ``afterok``."""
    _compare_levels(bench, options, f"chain of {len(_CHAIN)}", _CHAIN)


def compare_levels(bench: Bench, options: argparse.Namespace) -> None:
    """Print levels of empty jobs that wait for all of the level before, beside bare arrays with ``afterok``."""
    _compare_levels(bench, options, f"{len(_LEVELS)} levels of {_LEVELS[0]} that join", _LEVELS)


def _compare_levels(bench: Bench, options: argparse.Namespace, title: str, levels: Sequence[int]) -> None:
    bare: list[float] = []
    ours: list[float] = []
    for _ in range(options.rounds):
        bare.append(bench.bare_s(*levels))
        whole, seconds, _ = bench.run_s(*levels)
        ours.append(whole)
        print(f"  bare {bare[-1]:.1f} s, run {whole:.1f} s ({seconds:.1f} s without preparing it)")
        # Its engine may still collect what accounting knows.
        time.sleep(_COLLECT_S)
        print(f"    {format_calls(bench.calls())}")
    share = statistics.median(ours) / statistics.median(bare)
    print(
        f"{title}, {'with' if options.accounting else 'without'} accounting: bare afterok "
        f"{statistics.median(bare):.1f} s, run {statistics.median(ours):.1f} s (medians of {options.rounds}), "
        f"{share:.2f} times (target 1.50)"
    )


def measure_pending(bench: Bench, options: argparse.Namespace) -> None:
    """Print the cost of an engine whose jobs are all pending."""
    nodes = "n[1-4]"
    bench.pool.run("scontrol", "update", f"nodename={nodes}", "state=drain", "reason=bench")
    try:
        run = bench.submit(options.pending, slurm=f"  n_max_queued_jobs: {options.pending}\n")
        # Until all are in, and the interval between two questions has grown.
        while "sbatch" not in bench.calls() or _count(run, JobState.PENDING) < options.pending:
            time.sleep(_POLL_S)
        time.sleep(60)
        print(f"{options.pending} jobs pending: {idle_cost(bench, run, options.seconds)}")
        bench.cancel(run)
        wait_for_end(run)
    finally:
        bench.pool.run("scontrol", "update", f"nodename={nodes}", "state=resume")


def _count(run: Path, state: JobState) -> int:
    snapshot = read_snapshot(RunPaths(run))
    return 0 if snapshot is None else snapshot.counts.get(state, 0)


def format_calls(calls: Counter[str]) -> str:
    """Format numbers of calls."""
    return ", ".join(f"{number} {name}" for name, number in sorted(calls.items()))


def main() -> None:
    """Run the chosen measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = {
        "task": measure_batch_script,
        "array": compare_array,
        "chain": compare_chain,
        "levels": compare_levels,
        "idle": measure_idle,
        "pending": measure_pending,
    }
    parser.add_argument("--only", type=known_names(parts), default=list(parts))
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--pending", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--accounting", action="store_true")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        slurm(Path(folder) / "pool", accounting=options.accounting) as pool,
    ):
        (Path(folder) / "runs").mkdir()
        bench = Bench(pool, Path(folder) / "runs")
        for name in options.only:
            parts[name](bench, options)


if __name__ == "__main__":
    main()
