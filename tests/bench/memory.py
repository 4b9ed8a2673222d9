"""Prints an engine's memory for the layered graph of a given size, before a job starts.

Usage: python -m tests.bench.memory JOBS
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from tests.bench.graphs import parents_of
from tests.bench.processes import peak_mb

from longshore.contract.context import RunPaths
from longshore.engine.run.loop import Engine
from longshore.engine.settings import EngineSettings
from longshore.testing.fakes import FakeClock, FakeExecutor, FakeManager
from longshore.testing.runs import write_run


def write_jobs(run: RunPaths, size: int) -> None:
    """Replace a run's jobs with those of the layered graph."""
    header = msgspec.json.decode(run.workflow.read_bytes().splitlines()[0])
    with run.workflow.open("wb", 1 << 20) as file:
        file.write(msgspec.json.encode({**header, "jobs": size}) + b"\n")
        file.writelines(_lines(size))


def _lines(size: int) -> Iterator[bytes]:
    for job in range(size):
        yield b'{"name":"job_%d","s":0,"p":%s,"c":"true"}\n' % (job, msgspec.json.encode(parents_of(job)))


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", type=int)
    size = parser.parse_args().jobs
    with tempfile.TemporaryDirectory() as folder:
        run = write_run(Path(folder) / "run", {"a_1": ()})
        # In a process of its own, so that what writing takes is not counted.
        if not (child := os.fork()):
            write_jobs(run, size)
            os._exit(0)
        os.waitpid(child, 0)
        clock = FakeClock()
        began = time.process_time()
        engine = Engine(
            run, FakeExecutor(FakeManager(clock)), EngineSettings(), clock=clock, by="submit", log_line=print
        )
        took = time.process_time() - began
        print(f"{engine.state.size} jobs: an engine takes {peak_mb():.0f} MB, {took:.1f} s of processor time to begin")


if __name__ == "__main__":
    main()
