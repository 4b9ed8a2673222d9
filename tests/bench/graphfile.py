"""Times each stage from a graph file to the workflow on disk.

Usage: python -m tests.bench.graphfile [--packed] [--wall] [TASKS ...]

Without numbers: 1,000, 10,000, 100,000 and 1,000,000 tasks. They are in layers of a thousand, each with five parents
in the layer before, data IDs of three dimensions and commands of their label: five times as many edges as tasks. Each
measurement has a process of its own, so that its memory is its own. Its seconds are those of the processor, so that
others may work meanwhile; with --wall, those of the clock on the wall. The last lines tell how time and memory grow.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from tests.bench.growth import SIZES, describe_growth, note_growth
from tests.bench.processes import peak_mb, run_apart

from longshore.graphs.graph_file import GRAPH_KIND, GRAPH_VERSION, write_graph_file
from longshore.plan.acquire import acquire_run
from longshore.plan.clustering import cluster_run
from longshore.plan.resolved_run import resolve_run
from longshore.plan.run_plan import plan_run
from longshore.plan.write_run import write_run

WIDTH: Final = 1000
"""Tasks in a layer."""
OFFSETS: Final = (0, 1, 7, 31, 500)
"""Offsets of a task's parents in the layer before."""
YAML: Final = """\
wmsServiceClass: local
graphFile: {name}
payload: {{payloadName: bench}}
submitPath: run
"""


class Figures(NamedTuple):
    """Seconds of one measurement."""

    tasks: int
    edges: int
    file_mb: float
    read_s: float
    cluster_s: float
    transform_s: float
    write_s: float
    peak_mb: float

    @property
    def all_s(self) -> float:
        """Seconds from the file to the workflow on disk."""
        return self.read_s + self.cluster_s + self.transform_s + self.write_s


def graph_lines(tasks: int) -> Iterator[bytes]:
    """Yield the lines of a graph file."""
    layers = -(-tasks // WIDTH)
    commands = {f"stage{stage}": "env true --visit {visit} --detector {detector} --band {band}" for stage in range(3)}
    edges = len(OFFSETS) * max(0, tasks - WIDTH)
    header = {
        "kind": GRAPH_KIND,
        "version": GRAPH_VERSION,
        "name": "bench",
        "tasks": tasks,
        "edges": edges,
        "commands": commands,
    }
    yield msgspec.json.encode(header) + b"\n"
    for number in range(tasks):
        layer, place = divmod(number, WIDTH)
        task: dict[str, Any] = {
            "name": f"stage{layer % 3}_{layer:04}_{place:03}",
            "label": f"stage{layer % 3}",
            "data_id": {"visit": layer, "detector": place, "band": "ugrizy"[layer * 6 // layers]},
        }
        if layer:
            task["parents"] = [(layer - 1) * WIDTH + (place + offset) % WIDTH for offset in OFFSETS]
        yield msgspec.json.encode(task) + b"\n"


class _Quiet:
    def note(self, text: str) -> None:
        pass

    def stage(self, text: str) -> None:
        pass


def measure(name: str, *, wall: bool) -> Figures:
    """Measure from the file in the current directory to the run directory."""
    Path("run.yaml").write_text(YAML.format(name=name), "utf-8")
    clock: Callable[[], float] = time.perf_counter if wall else time.process_time
    run = resolve_run(Path("run.yaml"), now=0.0, progress=_Quiet(), run_id="bench")
    times = [clock()]
    acquired = acquire_run(run, _Quiet())
    times.append(clock())
    clustered = cluster_run(acquired)
    times.append(clock())
    plan = plan_run(clustered, _Quiet())
    times.append(clock())
    write_run(plan)
    times.append(clock())
    dag = acquired.payload.graph.dag
    read_s, cluster_s, transform_s, write_s = (after - before for before, after in pairwise(times))
    return Figures(
        tasks=len(dag),
        edges=sum(map(len, dag.parents)),
        file_mb=Path(name).stat().st_size / 1e6,
        read_s=read_s,
        cluster_s=cluster_s,
        transform_s=transform_s,
        write_s=write_s,
        peak_mb=peak_mb() or 0.0,
    )


def _write_graph_file(folder: str, name: str, tasks: int) -> None:
    write_graph_file(Path(folder, name), graph_lines(tasks))


def _measure_in_folder(folder: str, name: str, wall: bool) -> Figures:
    os.chdir(folder)
    return measure(name, wall=wall)


def measure_apart(tasks: int, *, packed: bool, wall: bool) -> Figures:
    """Measure in a separate folder and process; another process writes the file."""
    name = "tasks.jsonl.gz" if packed else "tasks.jsonl"
    with tempfile.TemporaryDirectory() as folder:
        run_apart(_write_graph_file, folder, name, tasks)
        return run_apart(_measure_in_folder, folder, name, wall)


def main() -> None:
    """Print one line per size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("tasks", nargs="*", type=int, default=SIZES)
    parser.add_argument("--packed", action="store_true", help="read files packed with gzip")
    parser.add_argument("--wall", action="store_true", help="time by the clock on the wall")
    options = parser.parse_args()
    print("    tasks      edges  file MB  read s  cluster s  transform s  write s   all s  us/task  peak MB")
    rows: list[Figures] = []
    for tasks in options.tasks:
        got = measure_apart(tasks, packed=options.packed, wall=options.wall)
        rows.append(got)
        print(
            f"{got.tasks:>9,} {got.edges:>10,} {got.file_mb:>8.1f} {got.read_s:>7.2f} {got.cluster_s:>10.2f} "
            f"{got.transform_s:>12.2f} {got.write_s:>8.2f} {got.all_s:>7.2f} {got.all_s / got.tasks * 1e6:>8.1f} "
            f"{got.peak_mb:>8.0f}",
            flush=True,
        )
    sizes = [row.tasks for row in rows]
    print(describe_growth("all s", sizes, [row.all_s for row in rows]))
    print(describe_growth("peak MB", sizes, [row.peak_mb for row in rows]))
    note_growth("graph file to workflow, tasks", sizes, [row.all_s for row in rows], [row.peak_mb for row in rows])


if __name__ == "__main__":
    main()
