"""Prints the cost of HTCondor runs: preparation, reports, and execution in a pool of its own.

Usage: python -m tests.bench.htcondor [--root DIR] [--only NAMES] [--jobs N] [--rounds N] [--noops N] [QUANTA ...]

NAMES, with commas: prepare, and those of `tests.bench.htcondor_runs`, which start a pool. Prepared are, unless numbers
are given, 10,395 and 100,170 quanta, made up as for `tests.bench.transform`, a job each. Beside them stand the figures
of BPS's plugin for the same numbers, which were taken on another day: it cannot be imported beside the bindings of
HTCondor that are used here. Each measurement has a process of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench import htcondor_runs
from tests.bench.processes import peak_mb
from tests.bench.transform import YAML, _Quiet, generate_graph

from longshore.contract.service import Context, RunPaths, Site
from longshore.errors import Origin
from longshore.graphs.graph_file import AcquiredPayload
from longshore.graphs.quantum_graph import RUN_GRAPH, task_graph
from longshore.model.tasks import File
from longshore.plan.acquire import AcquiredRun
from longshore.plan.clustering import cluster_run
from longshore.plan.resolved_run import resolve_run
from longshore.plan.run_plan import plan_run
from longshore.rundir.run_directory import write_rendered
from longshore.services.htcondor.render.dag import folders, render

SIZES: Final = (10_395, 100_170)
BPS_THEN: Final = {10_395: (1.07, 10_404, 28.5, 285.0), 100_170: (14.6, 100_179, 277.0, 1264.0)}
"""Seconds, files, MB and peak MB of BPS 30.2026.300, its directory in memory."""


class Figures(NamedTuple):
    """Figures of one measurement."""

    jobs: int
    wall_s: float
    cpu_s: float
    files: int
    written_mb: float
    before_mb: float
    peak_mb: float


def measure_longshore(quanta: int) -> Figures:
    """Render a workflow and write it."""
    record = generate_graph(quanta)
    Path("run.yaml").write_text(YAML, "utf-8")
    resolved = resolve_run(Path("run.yaml"), now=0.0, progress=_Quiet())
    named = f"<FILE:{RUN_GRAPH}>"
    graph = task_graph(record, name="bench", file=File(name=RUN_GRAPH, path="graph.qg"), origin=Origin("graph.qg"))
    del record
    payload = AcquiredPayload(graph=graph, values={"qgraphFile": named})
    workflow = plan_run(cluster_run(AcquiredRun(run=resolved, payload=payload)), _Quiet()).workflow
    del graph, payload
    before = peak_mb() or 0.0
    run = RunPaths(Path("run").absolute())
    ctx = Context(settings={}, site=Site(name="pool"), paths=run, templates={}, run_token="kbench-0")
    began, used = time.perf_counter(), time.process_time()
    for folder in folders(workflow):
        (run.root / folder).mkdir(parents=True)
    files = len(write_rendered(run, render(workflow, ctx)))
    wall, cpu = time.perf_counter() - began, time.process_time() - used
    size = sum(path.stat().st_size for path in run.wms.iterdir())
    return Figures(len(workflow), wall, cpu, files, size / 1e6, before, peak_mb() or 0.0)


def _measure_apart(quanta: int, root: str | None) -> Figures:
    with (
        tempfile.TemporaryDirectory(dir=root) as folder,
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):
        return pool.submit(_measure_in_folder, quanta, folder).result()


def _measure_in_folder(quanta: int, folder: str) -> Figures:
    os.chdir(folder)
    with redirect_stdout(StringIO()):
        return measure_longshore(quanta)


def main() -> None:
    """Print one line per size and program, then the figures of runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quanta", nargs="*", type=int, default=SIZES)
    parser.add_argument("--root", help="where to prepare; a directory in memory leaves the disk out")
    htcondor_runs.add_options(parser, ("prepare", *htcondor_runs.PARTS))
    options = parser.parse_args()
    if "prepare" in options.only:
        compare_prepare(options)
    if any(part in options.only for part in htcondor_runs.PARTS):
        htcondor_runs.measure(options)


def compare_prepare(options: argparse.Namespace) -> None:
    """Print one line per size and program."""
    print("program        jobs   wall s    cpu s    files       MB  bytes/job  peak MB")
    for quanta in options.quanta or SIZES:
        got = _measure_apart(quanta, options.root)
        print(
            f"longshore {got.jobs:>9,} {got.wall_s:>8.2f} {got.cpu_s:>8.2f} {got.files:>8,} {got.written_mb:>8.2f} "
            f"{got.written_mb * 1e6 / got.jobs:>10.0f} {got.peak_mb:>8.0f}  ({got.before_mb:.0f} before)",
            flush=True,
        )
        if quanta in BPS_THEN:
            wall, files, size, peak = BPS_THEN[quanta]
            print(
                f"bps, then {quanta:>9,} {wall:>8.2f} {'':>8} {files:>8,} {size:>8.2f} {size * 1e6 / quanta:>10.0f} "
                f"{peak:>8.0f}"
            )


if __name__ == "__main__":
    main()
