"""Prints the memory and time that an engine takes to begin with the layered graph, and how they grow.

Usage: python -m tests.bench.memory [JOBS ...]

Without numbers: 1,000, 10,000, 100,000 and 1,000,000 jobs. Each measurement has a process of its own, and ends before
the first start of a job.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from tests.bench.graphs import parents_of
from tests.bench.growth import SIZES, describe_growth
from tests.bench.processes import peak_mb, run_apart

from longshore.contract.service import RunPaths
from longshore.engine.run.loop import Engine
from longshore.engine.settings import EngineSettings
from longshore.rundir.submissions import accept_changes, read_manifest
from longshore.testing.fakes import FakeClock, FakeExecutor, FakeManager
from longshore.testing.runs import write_run


def write_jobs(run: RunPaths, size: int) -> None:
    """Replace a run's jobs with those of the layered graph, and its manifest with that of these."""
    header = msgspec.json.decode(run.workflow.read_bytes().splitlines()[0])
    with run.workflow.open("wb", 1 << 20) as file:
        file.write(msgspec.json.encode({**header, "jobs": size}) + b"\n")
        file.writelines(_lines(size))
    if manifest := read_manifest(run):
        accept_changes(run, manifest)


def _lines(size: int) -> Iterator[bytes]:
    for job in range(size):
        yield b'{"name":"job_%d","s":0,"p":%s,"c":"true"}\n' % (job, msgspec.json.encode(parents_of(job)))


def measure(size: int) -> tuple[float, float]:
    """Return the processor seconds that an engine takes to begin, and its peak memory in MB."""
    with tempfile.TemporaryDirectory() as folder:
        run = write_run(Path(folder) / "run", {"a_1": ()})
        # In a process of its own, so that what writing takes is not counted.
        run_apart(write_jobs, run, size)
        clock = FakeClock()
        began = time.process_time()
        Engine(run, FakeExecutor(FakeManager(clock)), EngineSettings(), clock=clock, by="submit", log_line=print)
        return time.process_time() - began, peak_mb() or 0.0


def main() -> None:
    """Print one line per size, and how the figures grow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", type=int, nargs="*", default=SIZES)
    sizes = parser.parse_args().jobs
    rows: list[tuple[float, float]] = []
    for size in sizes:
        rows.append(run_apart(measure, size))
        took, memory = rows[-1]
        print(f"{size:>9,} jobs: an engine takes {memory:.0f} MB, {took:.2f} s of processor time to begin", flush=True)
    print(describe_growth("seconds", sizes, [took for took, _ in rows]))
    print(describe_growth("MB", sizes, [memory for _, memory in rows]))


if __name__ == "__main__":
    main()
