"""Prints the cost of the Grid Engine service beside a bare job array, and beside a chain of bare jobs.

Usage: python -m tests.bench.sge [--only NAMES] [--jobs N] [--rounds N]

NAMES, with commas: array, chain, levels. It starts a cluster of its own on loopback, which wants root.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.bench.batch_runs import BatchBench, compare_array, compare_chain, compare_levels
from tests.bench.choice import known_names
from tests.live.sge_pools import PROGRAMS, SgePool, sge


class Bench(BatchBench):
    """A Grid Engine and runs on it."""

    programs = ("qsub", "qstat", "qacct", "qdel", "qconf", "qalter")
    service = "sge"
    dependency = "-hold_jid"

    def __init__(self, pool: SgePool, folder: Path) -> None:
        super().__init__(folder, pool.variables, str(PROGRAMS))
        self._pool = pool

    def site_lines(self) -> str:
        """Return the lines that select the cluster, with the programs whose calls are counted."""
        return f'  bin: "{self.bin}"\n  root: "{self._pool.root}"\n  mem_resource: h_vmem\n'

    def submit_bare(self, width: int, after: str) -> str:
        """Submit an array of empty jobs."""
        words = ["qsub", "-terse", "-N", "bare", "-t", f"1-{width}", "-l", "h_vmem=50M", "-j", "y", "-o", "/dev/null"]
        after_words = ["-hold_jid", after] if after else []
        return self._pool.run(*words, *after_words, "-b", "y", "/bin/true").partition(".")[0].strip()

    def is_in_queue(self, job: str) -> bool:
        """Whether qstat has a job."""
        return "job_number" in self._pool.run("qstat", "-j", job, check=False)


def main() -> None:
    """Run the chosen measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = {"array": compare_array, "chain": compare_chain, "levels": compare_levels}
    parser.add_argument("--only", type=known_names(parts), default=list(parts))
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sge(Path(folder) / "pool") as pool:
        (Path(folder) / "runs").mkdir()
        bench = Bench(pool, Path(folder) / "runs")
        for name in options.only:
            parts[name](bench, options)


if __name__ == "__main__":
    main()
