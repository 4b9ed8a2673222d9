"""Times reports and statistics of a run of 100,172 jobs that is 94 % done, and the list of 1,000 runs.

Usage: python -m tests.bench.report [--rounds N] [--watch SECONDS]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import msgspec
from tests.bench.bigrun import SIZE, engine_lock, prepare, write_journal, write_progress
from tests.bench.figures import note_figure
from tests.bench.processes import installed_environment

from longshore.contract.service import RunPaths
from longshore.rundir.registry import RegistryEntry, write_entry
from longshore.rundir.run_directory import read_card, write_card

_RUNS = 1000


_MEASURE = """
import os, subprocess, sys, time
began = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
usage = os.wait4(process.pid, 0)[2]
process.returncode = 0
print(time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
"""
"""Runs in a separate process: a program inherits the peak memory of its parent."""


def measure(command: list[str], folder: Path) -> tuple[float, ...]:
    """Return wall and processor seconds of a command and its peak memory in MB."""
    line = [sys.executable, "-c", _MEASURE, *command]
    done = subprocess.run(
        line, cwd=folder, env=installed_environment(folder), capture_output=True, check=True, text=True
    )
    return tuple(map(float, done.stdout.split()))


def print_medians(
    what: str, command: list[str], folder: Path, number: int, *, warm: bool = True, goal: str = "", row: str = ""
) -> None:
    """Print medians of several rounds, and the goal if there is one; a warm-up round compiles modules first.

    `row` names the figure in the table of all benchmarks; without it, the table lacks the figure.
    """
    if warm:
        measure(command, folder)
    wall, cpu, memory = (
        statistics.median(values) for values in zip(*(measure(command, folder) for _ in range(number)), strict=True)
    )
    shown = f"; goal: {goal}" if goal else ""
    print(f"  {what:44} {wall:6.2f} s, {cpu:6.2f} s of processor, {memory:5.0f} MB{shown}")
    if row:
        note_figure(row, f"{wall:.2f} s by the clock, {cpu:.2f} s of a processor", f"goal: {goal}" if goal else "")


def without_cache(run: RunPaths, command: list[str]) -> list[str]:
    """Return a command that deletes the run's cache first."""
    return ["sh", "-c", f'rm -rf {run.cache}; exec "$@"', "sh", *command]


def watch_share(command: list[str], folder: Path, seconds: float) -> float:
    """Return the share of a core that a command uses after its start."""
    environment = {**installed_environment(folder), "TERM": "xterm"}
    line = ["script", "-qec", " ".join(command), "/dev/null"]
    process = subprocess.Popen(line, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    try:
        time.sleep(8.0)
        child = _last_descendant(process.pid)
        before, began = _cpu_s(child), time.perf_counter()
        time.sleep(seconds)
        return (_cpu_s(child) - before) / (time.perf_counter() - began)
    finally:
        process.terminate()
        process.wait()


def _last_descendant(pid: int) -> int:
    while children := Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split():
        pid = int(children[0])
    return pid


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def register_runs(folder: Path) -> None:
    """Write a thousand finished runs into the registry."""
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    (folder / "graph.json").unlink()
    small = prepare(folder, 20, name="small")
    write_journal(small, done=1.0, running=0)
    card = read_card(small)
    for number in range(_RUNS):
        root = folder / "many" / f"{number:04}"
        root.mkdir(parents=True)
        for name in ("workflow.jsonl", "status.json"):
            os.link(small.root / name, root / name)
        (root / "journal").mkdir()
        os.link(small.journal / "0001.jsonl", root / "journal" / "0001.jsonl")
        copy = msgspec.structs.replace(card, id=f"k{number:05}")
        write_card(RunPaths(root), copy)
        write_entry(
            RegistryEntry(id=copy.id, path=str(root), name=copy.name, service="local", created_at=float(number))
        )


def main() -> None:
    """Write the runs, alternate the commands, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--watch", type=float, default=30.0)
    options = parser.parse_args()
    longshore = [sys.executable, "-m", "longshore"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = prepare(folder, SIZE)
        state = write_journal(run)
        root = str(run.root)
        print(f"median of {options.rounds} rounds, {SIZE} jobs, 94 % done:")
        with engine_lock(run):
            print_medians("report --id", [*longshore, "report", "--id", root], folder, options.rounds)
            every_job = [*longshore, "report", "--json", "--id", root]
            print_medians(
                "report --id --json (every job), first",
                without_cache(run, every_job),
                folder,
                options.rounds,
                row=f"`report --json` of {SIZE:,} jobs on this machine, first",
            )
            print_medians(
                "report --id --json (every job), again",
                every_job,
                folder,
                options.rounds,
                goal="0.8 s",
                row=f"`report --json` of {SIZE:,} jobs on this machine, again",
            )
            print_medians("status", [*longshore, "status", "--id", root], folder, options.rounds)
            print_medians(
                "stats",
                [*longshore, "stats", root],
                folder,
                options.rounds,
                goal="1 s",
                row=f"`stats` of {SIZE:,} jobs",
            )
            print_medians("suggest-resources", [*longshore, "suggest-resources", root], folder, options.rounds)
            stop = threading.Event()
            engine = threading.Thread(target=write_progress, args=(run, state, stop))
            engine.start()
            share = watch_share([*longshore, "report", "--watch", "--id", root], folder, options.watch)
            stop.set()
            engine.join()
            print(f"  {'report --watch, 100 jobs a second':44} {100 * share:6.2f} % of a core")
        dead = [*longshore, "report", "--id", root]
        print_medians("report --id, engine dead, first", without_cache(run, dead), folder, options.rounds)
        print_medians("report --id, engine dead, again", dead, folder, options.rounds)
        register_runs(folder)
        print(f"list of {_RUNS} finished runs:")
        listing = [*longshore, "report", "--hist", "10000"]
        print_medians("registry cold", listing, folder, 1, warm=False)
        print_medians("registry warm", listing, folder, options.rounds)


if __name__ == "__main__":
    main()
