"""Prints what Longshore costs, beside other programs where they are installed: all benchmarks, one after another.

The last lines are a table of their main figures in Markdown, as in `doc/explanation/what-it-costs.md`.

Usage: python -m tests.bench.all [--only NAME,...] [--small]

With --small the sizes are a tenth, for a look. A benchmark that needs LSST's packages or the real BPS runs with the
environment `.venv-lsst` (and `.venv-bps`), which `bin/test --all` makes; where it is missing, a line says so. A machine
that does something else makes all figures of the clock worthless: the head of the output has its load.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.choice import known_names
from tests.bench.figures import VARIABLE, read_figures, table_lines

_ROOT: Final = Path(__file__).resolve().parents[2]
_BUSY: Final = 0.5
"""Load above which other work is assumed."""


class Benchmark(NamedTuple):
    """A benchmark: what it shows, the module with its options, those for a look, and the environment that it needs."""

    title: str
    words: tuple[str, ...]
    small: tuple[str, ...] = ()
    environment: str = ""


BENCHMARKS: Final = {
    "startup": Benchmark("Short commands, and a run of one job", ("startup",), ("--rounds", "5")),
    "throughput": Benchmark(
        "10,000 jobs of `true`, in four slots, beside other programs",
        ("throughput",),
        ("--jobs", "1000", "--rounds", "3"),
    ),
    "throughput-shell": Benchmark(
        "10,000 jobs of a shell's text, in four slots, beside other programs",
        ("throughput", "--command", "true; true"),
        ("--command", "true; true", "--jobs", "1000", "--rounds", "3"),
    ),
    "engine": Benchmark(
        "The engine: growth of runs, idle engines, latency",
        ("engine", "--only", "big,idle,latency"),
        ("--only", "big", "--jobs", "1000"),
    ),
    "simulated": Benchmark(
        "1,000,000 jobs with failures and restarts, simulated", ("simulated",), ("1000", "10000", "100000")
    ),
    "graphfile": Benchmark("From a graph file to the workflow on disk", ("graphfile",), ("1000", "10000", "100000")),
    "workflow": Benchmark("Workflows that are written in Python", ("workflow",), ("100000",)),
    "quantum-graph": Benchmark(
        "Quantum graphs, and `prepare` for HTCondor", ("quantum_graph",), ("10000", "--rounds", "1"), "lsst"
    ),
    "transform": Benchmark("Clustering and transform, beside BPS", ("transform",), ("10000",), "lsst"),
    "report": Benchmark("Reports and statistics of 100,172 jobs", ("report",), ("--rounds", "1", "--watch", "5")),
    "page": Benchmark("The HTML report of 100,172 jobs", ("page",), ("--rounds", "1", "--jobs", "10000")),
    "htcondor": Benchmark("HTCondor: reports, and runs beside a bare DAG", ("htcondor_runs",), ("--jobs", "50")),
    "beside-bps": Benchmark(
        "A run of real LSST tasks beside BPS, in one HTCondor pool", ("beside_bps",), ("--rounds", "1"), "lsst"
    ),
}
"""Benchmarks by name, in the order in which they run."""


def describe_machine() -> str:
    """Return the machine's processors and system, with its load."""
    load = os.getloadavg()[0]
    busy = " (busy: do not trust the clock)" if load > _BUSY else ""
    name = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "?"
    )
    python = platform.python_version()
    return f"{os.cpu_count()} x {name}; Linux {platform.release()}; Python {python}; load {load:.2f}{busy}"


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text("utf-8").splitlines()
    except OSError:
        return []


def run_benchmark(name: str, benchmark: Benchmark, figures: Path, *, small: bool) -> bool:
    """Run a benchmark with its output on this one's; return whether it ended well, or could not be tried here."""
    print(f"\n## {benchmark.title} ({name})\n", flush=True)
    python = Path(sys.executable)
    if benchmark.environment:
        python = _ROOT / f".venv-{benchmark.environment}" / "bin" / "python"
        if not python.exists():
            print(f"left out: there is no '{python.parent.parent.name}'; `bin/test --all` makes it")
            return True
    module, *options = benchmark.words
    words = [str(python), "-m", f"tests.bench.{module}", *(benchmark.small if small else options)]
    path = os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)])
    began = time.monotonic()
    environment = {**os.environ, "PATH": path, VARIABLE: str(figures)}
    status = subprocess.run(words, cwd=_ROOT, env=environment, check=False).returncode
    ended = "" if not status else f", failed with status {status}"
    print(f"({' '.join(words[1:])}: {time.monotonic() - began:.0f} s{ended})", flush=True)
    return not status


def main() -> None:
    """Run the chosen benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=known_names(BENCHMARKS), default=list(BENCHMARKS), help="names, with commas")
    parser.add_argument("--small", action="store_true", help="a tenth of the sizes, for a look")
    options = parser.parse_args()
    print(f"# What it costs\n\n{describe_machine()}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures.jsonl"
        failed = [
            name for name in options.only if not run_benchmark(name, BENCHMARKS[name], figures, small=options.small)
        ]
        print("\n## All in one table\n", *table_lines(read_figures(figures)), sep="\n")
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
