"""Prints the engine's figures: throughput, large runs, an idle engine, latency, and a simulated million jobs.

Usage: python -m tests.bench.engine [--only NAMES] [--jobs N] [--rounds N] [--slots N] [--folder PATH] [--others NAMES]
       [--python PATH]

NAMES, with commas: argv, shell, big, idle, latency, simulated. Without ``--only`` all of them run, which takes
a quarter of an hour.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.choice import known_names
from tests.bench.processes import cpu_s
from tests.bench.throughput import (
    chosen_programs,
    compare,
    comparison_parser,
    measure_growth,
    prepare_run,
    start_engine,
)

SHELL = "true; true"
"""A command that needs a shell."""


def compare_argv(options: argparse.Namespace) -> None:
    """Compare with other programs; the command is a list of words."""
    _compare(options, "true")


def compare_shell(options: argparse.Namespace) -> None:
    """Compare with other programs; the command needs a shell."""
    _compare(options, SHELL)


def _compare(options: argparse.Namespace, command: str) -> None:
    compare(
        options.jobs,
        rounds=options.rounds,
        slots=options.slots,
        command=command,
        folder=options.folder,
        others=chosen_programs(options),
    )


def measure_large_runs(options: argparse.Namespace) -> None:
    """Measure how runs grow: a tenth of the usual number of jobs, that number, and ten times as many."""
    sizes = (options.jobs // 10, options.jobs, 10 * options.jobs)
    measure_growth(sizes, slots=options.slots, command="true", folder=options.folder)
    subprocess.run([sys.executable, "-m", "tests.bench.memory"], check=True)


def measure_idle_engine(options: argparse.Namespace) -> None:
    """Measure an engine with a thousand jobs that run for long."""
    seconds = 20
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        tasks = [{"name": "job", "id": f"job_{job}", "parents": [], "children": []} for job in range(_WIDTH)]
        run = prepare_run(Path(folder), _WIDTH, _WIDTH, "sleep 1000", tasks=tasks)
        process, _ = start_engine(Path(folder), run)
        try:
            _wait_until(lambda: _running_jobs(run) >= _WIDTH)
            before = cpu_s(process.pid) or 0.0
            time.sleep(seconds)
            used = (cpu_s(process.pid) or 0.0) - before
        finally:
            subprocess.run([sys.executable, "-m", "longshore", "cancel", str(run)], check=False, capture_output=True)
            process.wait()
    print(f"idle with {_WIDTH} jobs running: {used / seconds:.1%} of one core over {seconds} s")


_WIDTH = 1000


def _running_jobs(run: Path) -> int:
    return sum(path.read_bytes().count(b'"r":"start"') for path in (run / "keeper").glob("*.jsonl"))


def _wait_until(true: Callable[[], object]) -> None:
    while not true():
        time.sleep(0.2)


def measure_latency(options: argparse.Namespace) -> None:
    """Measure the keeper's time from a parent's end to its child's start, at about 100 jobs per second."""
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        run = prepare_run(Path(folder), 2000, 4, "sleep 0.035")
        process, used = start_engine(Path(folder), run)
        list(used)
        parents = [json.loads(line).get("p", ()) for line in _jobs(run)]
        (records,) = (run / "keeper").glob("*.jsonl")
        start: dict[int, float] = {}
        end: dict[int, float] = {}
        for line in records.read_bytes().splitlines():
            record = json.loads(line)
            if record["r"] in {"start", "end"}:
                {"start": start, "end": end}[record["r"]][record["j"]] = record["t"]
    # A slot is what most children wait for; what counts is who could have started at once.
    waits = []
    ends = sorted(end.values())
    for job, these in enumerate(parents):
        if these:
            free = max((moment for moment in ends if moment <= start[job]), default=0.0)
            waits.append(start[job] - max(free, *(end[parent] for parent in these)))
    rate = len(start) / (max(end.values()) - min(start.values()))
    print(f"from the end of a parent, or of whoever had the slot, to the start: {_spread(waits)}, at {rate:.0f} jobs/s")
    _chain(options)
    assert process.returncode == 0


def _chain(options: argparse.Namespace) -> None:
    size = 300
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        tasks = [
            {"name": "job", "id": f"job_{job}", "parents": [f"job_{job - 1}"] if job else [], "children": []}
            for job in range(size)
        ]
        run = prepare_run(Path(folder), size, 4, "sleep 0.01", tasks=tasks)
        _, used = start_engine(Path(folder), run)
        list(used)
        (records,) = (run / "keeper").glob("*.jsonl")
        lines = [json.loads(line) for line in records.read_bytes().splitlines()]
    start = {line["j"]: line["t"] for line in lines if line["r"] == "start"}
    end = {line["j"]: line["t"] for line in lines if line["r"] == "end"}
    waits = [start[job] - end[job - 1] for job in range(1, size)]
    rate = size / (end[size - 1] - start[0])
    print(f"from the end of a parent to the start of its child in a chain: {_spread(waits)}, at {rate:.0f} jobs/s")


def _jobs(run: Path) -> list[bytes]:
    lines = (run / "workflow.jsonl").read_bytes().splitlines()
    return lines[1 : 1 + json.loads(lines[0])["jobs"]]


def _spread(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    return (
        f"median {statistics.median(ordered) * 1000:.1f} ms, 9 of 10 below {ordered[len(ordered) * 9 // 10] * 1000:.1f}"
    )


def measure_simulation(_options: argparse.Namespace) -> None:
    """Run a million jobs under a simulated clock."""
    subprocess.run([sys.executable, "-m", "tests.bench.simulated"], check=True)


FIGURES: dict[str, Callable[[argparse.Namespace], None]] = {
    "argv": compare_argv,
    "shell": compare_shell,
    "big": measure_large_runs,
    "idle": measure_idle_engine,
    "latency": measure_latency,
    "simulated": measure_simulation,
}


def main() -> None:
    """Print the chosen figures."""
    parser = comparison_parser(__doc__)
    parser.add_argument("--only", type=known_names(FIGURES), default=list(FIGURES))
    options = parser.parse_args()
    for name in options.only:
        print(f"-- {name}: {(FIGURES[name].__doc__ or '').strip()}", flush=True)
        FIGURES[name](options)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
