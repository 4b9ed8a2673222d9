"""What it costs to understand a run of 100,172 jobs that is 94 % done, and to list 1,000 runs.

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
from tests.bench.bigrun import SIZE, drive, go_on, living, prepare
from tests.bench.processes import as_installed

from longshore.contract.context import RunPaths
from longshore.world.runs.registry import Entry, register
from longshore.world.runs.run_directory import read_card, write_card

_RUNS = 1000


_MEASURE = """
import os, subprocess, sys, time
began = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
usage = os.wait4(process.pid, 0)[2]
process.returncode = 0
print(time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
"""
"""In a process of its own: a program begins with the largest memory of the one that started it."""


def measured(command: list[str], folder: Path) -> tuple[float, ...]:
    """Wall and processor seconds of a command, and its largest memory in MB."""
    line = [sys.executable, "-c", _MEASURE, *command]
    done = subprocess.run(line, cwd=folder, env=as_installed(folder), capture_output=True, check=True, text=True)
    return tuple(map(float, done.stdout.split()))


def rounds(what: str, command: list[str], folder: Path, number: int, *, warm: bool = True) -> None:
    """Print the medians of some rounds, after one that compiles what is imported unless nothing is to be warm."""
    if warm:
        measured(command, folder)
    wall, cpu, memory = (
        statistics.median(values) for values in zip(*(measured(command, folder) for _ in range(number)), strict=True)
    )
    print(f"  {what:44} {wall:6.2f} s, {cpu:6.2f} s of processor, {memory:5.0f} MB")


def anew(run: RunPaths, command: list[str]) -> list[str]:
    """A command before which a shell forgets what was read of a run."""
    return ["sh", "-c", f'rm -rf {run.cache}; exec "$@"', "sh", *command]


def watched(command: list[str], folder: Path, seconds: float) -> float:
    """Share of a core that a command needs once it has begun."""
    environment = {**as_installed(folder), "TERM": "xterm"}
    line = ["script", "-qec", " ".join(command), "/dev/null"]
    process = subprocess.Popen(line, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    try:
        time.sleep(8.0)
        child = _deepest(process.pid)
        before, began = _cpu(child), time.perf_counter()
        time.sleep(seconds)
        return (_cpu(child) - before) / (time.perf_counter() - began)
    finally:
        process.terminate()
        process.wait()


def _deepest(pid: int) -> int:
    while children := Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split():
        pid = int(children[0])
    return pid


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def many_runs(folder: Path) -> None:
    """A thousand finished runs in the registry."""
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    (folder / "graph.json").unlink()
    small = prepare(folder, 20, name="small")
    drive(small, done=1.0, running=0)
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
        register(Entry(id=copy.id, path=str(root), name=copy.name, service="local", created_at=float(number)))


def main() -> None:
    """Make the runs, take turns, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--watch", type=float, default=30.0)
    options = parser.parse_args()
    longshore = [sys.executable, "-m", "longshore"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = prepare(folder, SIZE)
        state = drive(run)
        root = str(run.root)
        print(f"median of {options.rounds} rounds, {SIZE} jobs, 94 % done:")
        with living(run):
            rounds("report --id", [*longshore, "report", "--id", root], folder, options.rounds)
            rounds(
                "report --id --json (every job)", [*longshore, "report", "--json", "--id", root], folder, options.rounds
            )
            rounds("status", [*longshore, "status", "--id", root], folder, options.rounds)
            stop = threading.Event()
            engine = threading.Thread(target=go_on, args=(run, state, stop))
            engine.start()
            share = watched([*longshore, "report", "--watch", "--id", root], folder, options.watch)
            stop.set()
            engine.join()
            print(f"  {'report --watch, 100 jobs a second':44} {100 * share:6.2f} % of a core")
        dead = [*longshore, "report", "--id", root]
        rounds("report --id, engine dead, first", anew(run, dead), folder, options.rounds)
        rounds("report --id, engine dead, again", dead, folder, options.rounds)
        many_runs(folder)
        print(f"list of {_RUNS} finished runs:")
        listing = [*longshore, "report", "--hist", "10000"]
        rounds("registry cold", listing, folder, 1, warm=False)
        rounds("registry warm", listing, folder, options.rounds)


if __name__ == "__main__":
    main()
