"""Times `verify` of a run of 100,172 jobs that is over, and what checking the workflow costs an engine that starts.

Usage: python -m tests.bench.verify [--rounds N]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.bigrun import SIZE, prepare, write_journal
from tests.bench.report import print_medians

from longshore.rundir.job_table import JobTable
from longshore.rundir.submissions import refuse_changed_files


def median_cpu_s(work: Callable[[], object], rounds: int) -> float:
    """Return the median of the processor seconds that a call takes."""
    found = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return statistics.median(found)


def main() -> None:
    """Write the run, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = prepare(folder)
        write_journal(run, done=1.0, running=0)
        events = (run.journal / "0001.jsonl").read_bytes().count(b"\n")
        print(f"{SIZE:,} jobs, {run.workflow.stat().st_size / 1e6:.0f} MB of workflow, {events:,} events")
        print_medians("verify", [sys.executable, "-m", "longshore", "verify", str(run.root)], folder, rounds)
        checked = median_cpu_s(lambda: JobTable(run, "parents"), rounds)
        others = median_cpu_s(lambda: refuse_changed_files(run, with_workflow=False), rounds)
        print(f"  engine reads and checks the workflow: {checked:.3f} s of processor")
        print(f"  engine compares the other files: {others:.3f} s of processor")


if __name__ == "__main__":
    main()
