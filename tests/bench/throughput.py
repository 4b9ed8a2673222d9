"""Compares jobs per second of the local service and other programs on one graph, in alternating rounds.

Usage: python -m tests.bench.throughput [--jobs N] [--rounds N] [--slots N] [--command WORDS] [--growth [--million]]
       [--folder PATH] [--others NAMES] [--python PATH]

A command such as `true; true` needs a shell, here and in the other programs. The limit of the machine is a loop of
posix_spawn(3) in the same rounds. With --growth, Longshore alone runs 1,000, 10,000 and 100,000 jobs (--million:
1,000,000 as well), and prints how rate, time and memory grow, and what a job takes in each tenth of the largest run.
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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from tests.bench.choice import known_names
from tests.bench.figures import note_figure
from tests.bench.graphs import write_wfformat
from tests.bench.growth import SIZES, describe_growth
from tests.bench.others import KNOWN, Other, installed_programs
from tests.bench.processes import cpu_s, peak_mb
from tests.bench.tenths import JobEnd, Tenth, compare_costs, compare_rates, describe_tenths, split_run


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one run's engine.

    Attributes
    ----------
    per_s
        Jobs per second, from the engine's first event to its last.
    engine_ms, keeper_ms, job_ms
        Processor milliseconds per job of the engine, of the keeper, and of the job's own processes.
    engine_mb, keeper_mb
        The most memory each had.
    tenths
        What the jobs of each tenth took.
    run
        The run directory.
    """

    per_s: float
    engine_ms: float
    keeper_ms: float
    job_ms: float
    engine_mb: float
    keeper_mb: float
    tenths: list[Tenth]
    run: Path


class UsageSamples:
    """Processor time and memory of a process, sampled while it lives."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self.peak_mb = 0.0
        self.cpu_by_time: list[tuple[float, float]] = []
        """Epoch seconds, and processor seconds so far."""

    def ask(self, pid: int) -> None:
        """Take a sample."""
        self.cpu_s = cpu_s(pid) or self.cpu_s
        self.cpu_by_time.append((time.time(), self.cpu_s))
        self.peak_mb = peak_mb(pid) or self.peak_mb


def prepare_run(
    folder: Path, size: int, slots: int, command: str, *, tasks: list[dict[str, Any]] | None = None
) -> Path:
    """Prepare a run of the layered graph, or of the given tasks, and return its directory."""
    write_wfformat(folder / "graph.json", size, tasks)
    (folder / "run.yaml").write_text(
        f"wfformat: graph.json\nrunQuantumCommand: {json.dumps(command)}\n"
        f"resources: {{cpus: {slots}}}\nrequestMemory: 0\nworkingDirectory: {folder}\n",
        "utf-8",
    )
    return prepare(folder)


def prepare(folder: Path) -> Path:
    """Prepare the run of ``run.yaml``, and return its directory."""
    answer = subprocess.run(
        [sys.executable, "-m", "longshore", "prepare", "run.yaml", "--json"],
        cwd=folder,
        env=_environment(folder),
        capture_output=True,
        check=True,
        text=True,
    )
    return Path(json.loads(answer.stdout)["submit_dir"])


def start_engine(folder: Path, run: Path) -> tuple[subprocess.Popen[bytes], Iterator[UsageSamples]]:
    """Start a prepared run's engine; the iterator samples engine and keeper until the end."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "longshore", "drive", str(run), "--by", "submit"],
        env=_environment(folder),
        stderr=subprocess.DEVNULL,
    )
    return process, _sample_usage(process, run)


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(folder / "state")}


def _sample_usage(process: subprocess.Popen[bytes], run: Path) -> Iterator[UsageSamples]:
    engine, keeper = UsageSamples(), UsageSamples()
    keeper_pid = None
    while process.poll() is None:
        keeper_pid = keeper_pid or _keeper_of(run)
        engine.ask(process.pid)
        if keeper_pid:
            keeper.ask(keeper_pid)
        time.sleep(0.02)
    yield engine
    yield keeper


def _keeper_of(run: Path) -> int | None:
    for path in (run / "keeper").glob("*.jsonl"):
        with path.open(encoding="utf-8") as file:
            if (line := file.readline()).endswith("\n"):
                return int(json.loads(line)["pid"])
    return None


def run_round(folder: Path, size: int, slots: int, command: str) -> Round:
    """Run the graph once."""
    return run_prepared(folder, prepare_run(folder, size, slots, command), size)


def run_prepared(folder: Path, run: Path, size: int) -> Round:
    """Run a prepared run of so many jobs to its end."""
    process, used = start_engine(folder, run)
    engine, keeper = used
    if process.returncode:
        raise SystemExit(f"the engine failed; its words are in '{run}'")
    with (run / "journal" / "0001.jsonl").open("rb") as file:
        lines = file.read().splitlines()
    took = json.loads(lines[-1])["t"] - json.loads(lines[0])["t"]
    ends = list(_job_ends(run))
    return Round(
        per_s=size / took,
        engine_ms=engine.cpu_s * 1000 / size,
        keeper_ms=keeper.cpu_s * 1000 / size,
        job_ms=sum(end.cpu_s for end in ends) * 1000 / size,
        engine_mb=engine.peak_mb,
        keeper_mb=keeper.peak_mb,
        tenths=split_run(ends, engine.cpu_by_time, keeper.cpu_by_time),
        run=run,
    )


def _job_ends(run: Path) -> Iterator[JobEnd]:
    """Yield the ends of jobs that ran, as keepers recorded them."""
    for path in sorted((run / "keeper").glob("*.jsonl")):
        with path.open("rb") as file:
            records = (json.loads(line) for line in file if line.startswith(b'{"r":"end"') and b'"cpu"' in line)
            yield from (JobEnd(record["t"], record["cpu"]) for record in records)


def compare(size: int, *, rounds: int, slots: int, command: str, folder: str | None, others: list[Other]) -> None:
    """Alternate rounds and print medians."""
    rates: dict[str, list[float]] = {"Longshore": [], **{other.name: [] for other in others}}
    ratios: dict[str, list[float]] = {}
    mine: list[Round] = []
    # Nothing is removed before the end: file systems give out the numbers of files that were just removed reluctantly,
    # so that who comes after a removal is slow.
    kept = Path(tempfile.mkdtemp(prefix="longshore-bench-", dir=folder))
    try:
        for number in range(rounds):
            place = kept / f"{number}"
            place.mkdir()
            mine.append(run_round(place, size, slots, command))
            rates["Longshore"].append(mine[-1].per_s)
            for other in others:
                place = kept / f"{number}-{other.name}"
                place.mkdir()
                rates[other.name].append(other.round(place, size, slots, command)[0])
            for other in others:
                ratios.setdefault(other.name, []).append(mine[-1].per_s / rates[other.name][-1])
    finally:
        shutil.rmtree(kept, ignore_errors=True)
    print(f"{size} jobs of '{command}', {slots} slots, {os.cpu_count()} cores, medians of {rounds} alternating rounds:")
    versions = {other.name: other.version for other in others}
    print(f"  {'':12} {'jobs/s':>7} {'Longshore by it':>16}")
    for name, values in rates.items():
        ratio = f"{statistics.median(ratios[name]):.2f}" if name in ratios else ""
        print(f"  {name:12} {statistics.median(values):7.0f} {ratio:>16}  {versions.get(name, '')}".rstrip())
    _print_costs(mine)
    note_figure(
        f"{size} jobs of `{command}`, {slots} slots",
        f"{statistics.median(rates['Longshore']):.0f} jobs/s",
        ", ".join(f"{name} {statistics.median(values):.0f}" for name, values in rates.items() if name != "Longshore"),
    )


def _print_costs(rounds: list[Round]) -> None:
    """Print where the time of a job goes, as medians in microseconds of a processor."""
    spent = {what: statistics.median(getattr(one, f"{what}_ms") for one in rounds) for what in _COSTS}
    for what, per_job_ms in spent.items():
        most = f", {max(getattr(one, f'{what}_mb') for one in rounds):.0f} MB at most" if what != "job" else ""
        print(f"  {_COSTS[what]}: {1000 * per_job_ms:.0f} us of a processor per job{most}")
    available_ms = (os.cpu_count() or 1) * 1000 / statistics.median(one.per_s for one in rounds)
    print(
        f"  sum: {1000 * sum(spent.values()):.0f} of the {1000 * available_ms:.0f} us that the processors had per job;"
        " the rest is idle, or went to others"
    )


_COSTS = {"engine": "engine, with its start", "keeper": "keeper", "job": "processes of the job"}


def measure_growth(sizes: Sequence[int], *, slots: int, command: str, folder: str | None) -> None:
    """Run graphs of these sizes, and print how rate, time and memory grow."""
    kept = Path(tempfile.mkdtemp(prefix="longshore-bench-", dir=folder))
    rounds: list[Round] = []
    try:
        for size in sizes:
            place = kept / f"{size}"
            place.mkdir()
            rounds.append(done := run_round(place, size, slots, command))
            print(
                f"{size:9,} jobs: {done.per_s:.0f} jobs/s,"
                f" {compare_rates(done.tenths):.2f} of it at the end against the beginning,"
                f" engine {done.engine_ms:.3f} ms per job and {done.engine_mb:.0f} MB,"
                f" keeper {done.keeper_ms:.3f} ms and {done.keeper_mb:.0f} MB",
                flush=True,
            )
            note_figure(f"{size:,} jobs of `{command}`", f"{done.per_s:.0f} jobs/s, engine {done.engine_mb:.0f} MB")
    finally:
        shutil.rmtree(kept, ignore_errors=True)
    took = [size / done.per_s for size, done in zip(sizes, rounds, strict=True)]
    print(describe_growth("time", sizes, took))
    print(describe_growth("the engine's memory", sizes, [done.engine_mb for done in rounds]))
    print(*describe_tenths(rounds[-1].tenths), sep="\n")
    note_figure(
        f"the last of {sizes[-1]:,} jobs against the first",
        f"processor time of engine and keeper {compare_costs(rounds[-1].tenths):.2f}",
        f"rate by the clock {compare_rates(rounds[-1].tenths):.2f}",
    )


def comparison_parser(description: str | None) -> argparse.ArgumentParser:
    """Return the parser of all comparisons."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--folder", help="where runs are kept until the end")
    parser.add_argument("--others", type=known_names(KNOWN), default=KNOWN, help="names of programs, with commas")
    parser.add_argument(
        "--python", default=sys.executable, help="an interpreter that has Parsl, HyperQueue and Snakemake"
    )
    return parser


def chosen_programs(options: argparse.Namespace) -> list[Other]:
    """Return the chosen programs that are installed."""
    return [other for other in installed_programs(options.python) if other.name in options.others]


def main() -> None:
    """Compare with one command."""
    parser = comparison_parser(__doc__)
    parser.add_argument("--command", default="true")
    parser.add_argument("--growth", action="store_true", help="Longshore alone, in runs of several sizes")
    parser.add_argument("--million", action="store_true", help="with --growth: 1,000,000 jobs as well")
    options = parser.parse_args()
    if options.growth:
        sizes = SIZES if options.million else SIZES[:-1]
        measure_growth(sizes, slots=options.slots, command=options.command, folder=options.folder)
        return
    compare(
        options.jobs,
        rounds=options.rounds,
        slots=options.slots,
        command=options.command,
        folder=options.folder,
        others=chosen_programs(options),
    )


if __name__ == "__main__":
    main()
