"""Times whole runs of one graph, from the command to its end, in Longshore and other programs, in alternating rounds.

Usage: python -m tests.bench.whole_runs [--jobs N] [--rounds N] [--slots N] [--others NAMES] [--python PATH]

The jobs run `true`. That tells what a tool costs, and not how fast real jobs are: those take the same time everywhere.
Processor time has the jobs in it. Parsl and HyperQueue are imported by `--python`, such as that of an environment in
which `pip install parsl hyperqueue snakemake` was typed.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import statistics
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.bench.graphs import write_wfformat
from tests.bench.others import Other, children_s
from tests.bench.throughput import chosen_programs, comparison_parser

_ADOPT_ORPHANS: Final = 36
"""PR_SET_CHILD_SUBREAPER of Linux."""


def _write_longshore(folder: Path, size: int, slots: int, command: str) -> list[str]:
    write_wfformat(folder / "graph.json", size)
    (folder / "run.yaml").write_text(
        f"wfformat: graph.json\nrunQuantumCommand: '{command}'\nresources: {{cpus: {slots}}}\nrequestMemory: 0\n"
        "submitPath: run\n",
        "utf-8",
    )
    # The directory of logs of the others is a link to this run's, which the same check counts.
    (folder / "logs").rmdir()
    (folder / "logs").symlink_to("run/logs")
    state = f"XDG_STATE_HOME={folder / 'state'}"
    return ["env", state, sys.executable, "-m", "longshore", "submit", "run.yaml", "--wait"]


def measure(program: Other, folder: Path, size: int, slots: int) -> tuple[float, float]:
    """Return wall time of a run, and processor time of all processes that it started, in seconds."""
    before = children_s()
    took = program.whole(folder, size, slots, "true")
    # Those that left the program, such as Longshore's engine, became children of this process.
    with suppress(ChildProcessError):
        while True:
            os.wait()
    return took, children_s() - before


def main() -> None:
    """Alternate rounds and print medians."""
    parser = comparison_parser((__doc__ or "").splitlines()[0])
    parser.set_defaults(jobs=1000, rounds=3)
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
    programs = [Other(name="Longshore", version="", write=_write_longshore), *chosen_programs(options)]
    taken: dict[str, list[tuple[float, float]]] = {each.name: [] for each in programs}
    kept = Path(tempfile.mkdtemp(prefix="longshore-bench-", dir=options.folder))
    try:
        for number in range(options.rounds):
            for program in programs:
                folder = kept / f"{number}-{program.name}"
                folder.mkdir()
                taken[program.name].append(measure(program, folder, options.jobs, options.slots))
    finally:
        shutil.rmtree(kept, ignore_errors=True)
    load = os.getloadavg()[0]
    print(f"{options.jobs} jobs of 'true', {options.slots} slots, {os.cpu_count()} cores, load {load:.1f}, medians of")
    print(f"{options.rounds} alternating rounds, from the command to its end:   wall s  processor s")
    for program in programs:
        wall, used = (statistics.median(column) for column in zip(*taken[program.name], strict=True))
        print(f"  {program.name + ' ' + program.version:50} {wall:8.1f} {used:12.1f}")


if __name__ == "__main__":
    main()
