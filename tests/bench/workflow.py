"""Times `longshore.Workflow` from tasks to a graph file, beside a program that writes the file's lines itself.

Usage: python -m tests.bench.workflow [--rounds N] [TASKS ...]

Without numbers: 1,000, 10,000, 100,000 and 1,000,000 tasks. Nine tenths make a file each, with a data ID of two
dimensions, and each tenth task reads the files of the nine before it. Both write the same graph; each measurement has a
process of its own, and rounds alternate. Seconds are those of the processor, so that others may work meanwhile. The
last line of each size reads the written file into a graph, as `submit` does; the last lines of all tell how
`longshore.Workflow` grows.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from tests.bench.growth import SIZES, describe_growth, note_growth
from tests.bench.processes import peak_mb, run_apart

import longshore
from longshore.graphs.graph_file import GRAPH_KIND, GRAPH_VERSION, write_graph_file
from longshore.plan.acquire import acquire_run
from longshore.plan.resolved_run import resolve_run

GROUP: Final = 10
NAME: Final = "bench.jsonl"


def build_workflow(folder: Path, tasks: int) -> list[float]:
    """Write the graph with `Workflow`; return seconds of the tasks and of the file."""
    began = time.process_time()
    workflow = longshore.Workflow("bench")
    for group in range(tasks // GROUP):
        made = [
            workflow.task(
                "fit",
                ["fit.py", str(group), str(place)],
                data_id={"group": group, "place": place},
                outputs=[f"fits/{group}_{place}.json"],
            )
            for place in range(GROUP - 1)
        ]
        inputs = [path for task in made for path in task.outputs]
        workflow.task("join", ["join.py", str(group)], data_id={"group": group}, inputs=inputs, memory="2 GiB")
    between = time.process_time()
    workflow.to_graph_file(folder / NAME)
    return [between - began, time.process_time() - between]


def write_lines(folder: Path, tasks: int) -> list[float]:
    """Write the same graph line by line."""
    began = time.process_time()
    write_graph_file(folder / NAME, _lines(tasks))
    return [0.0, time.process_time() - began]


def read_file(folder: Path, _: int) -> list[float]:
    """Read the graph that was written."""
    (folder / "run.yaml").write_text(f"wmsServiceClass: local\ngraphFile: {folder / NAME}\n", "utf-8")
    began = time.process_time()
    acquire_run(resolve_run(folder / "run.yaml", now=0.0, progress=_Quiet(), run_id="bench"), _Quiet())
    return [time.process_time() - began, 0.0]


class _Quiet:
    def note(self, text: str) -> None:
        pass

    def stage(self, text: str) -> None:
        pass


def _lines(tasks: int) -> Iterator[bytes]:
    encode = msgspec.json.Encoder().encode
    groups, here = tasks // GROUP, f"{Path.cwd()}/"
    files, edges = groups * (GROUP - 1), groups * (GROUP - 1)
    header = {"kind": GRAPH_KIND, "version": GRAPH_VERSION, "name": "bench", "tasks": tasks, "edges": edges}
    yield encode({**header, "files": files, "directories": [f"{here}fits"]}) + b"\n"
    for number in range(files):
        name = f"fits/{number // (GROUP - 1)}_{number % (GROUP - 1)}.json"
        yield encode({"name": name, "path": here + name}) + b"\n"
    for group in range(groups):
        task: dict[str, Any]
        for place in range(GROUP - 1):
            task = {"name": f"fit_{group}_{place}", "label": "fit", "data_id": {"group": group, "place": place}}
            task |= {"command": ["fit.py", str(group), str(place)], "outputs": [group * (GROUP - 1) + place]}
            yield encode(task) + b"\n"
        made = range(group * GROUP, group * GROUP + GROUP - 1)
        read = range(group * (GROUP - 1), (group + 1) * (GROUP - 1))
        task = {"name": f"join_{group}", "label": "join", "parents": list(made), "data_id": {"group": group}}
        yield encode({**task, "command": ["join.py", str(group)], "inputs": list(read)}) + b"\n"


def _measure(way: Callable[[Path, int], list[float]], folder: Path, tasks: int) -> list[float]:
    return [*way(folder, tasks), peak_mb() or 0.0]


def compare(tasks: int, rounds: int) -> list[float]:
    """Alternate both ways, compare their files, print medians, and return those of `longshore.Workflow`."""
    ways = {"longshore.Workflow": build_workflow, "lines by hand": write_lines}
    taken: dict[str, list[list[float]]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for _ in range(rounds):
            graphs = []
            for what, way in ways.items():
                taken[what].append(run_apart(_measure, way, folder, tasks))
                graphs.append((folder / NAME).read_bytes())
            if graphs[0] != graphs[1]:
                raise SystemExit("the two graphs differ")
        taken["reading it"] = [run_apart(_measure, read_file, folder, tasks)]
    medians = {what: [statistics.median(column) for column in zip(*rows, strict=True)] for what, rows in taken.items()}
    print(f"{tasks:,} tasks, medians of {rounds} rounds:      tasks s   file s    all s  peak MB")
    for what, (first, second, peak) in medians.items():
        print(f"  {what:48} {first:>7.2f} {second:>8.2f} {first + second:>8.2f} {peak:>8.0f}", flush=True)
    return medians["longshore.Workflow"]


def main() -> None:
    """Print medians of each size, and how the figures grow."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tasks", nargs="*", type=int, default=SIZES)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    sizes = [tasks - tasks % GROUP for tasks in options.tasks]
    rows = [compare(tasks, options.rounds) for tasks in sizes]
    print(describe_growth("seconds", sizes, [tasks_s + file_s for tasks_s, file_s, _ in rows]))
    print(describe_growth("MB", sizes, [peak for _, _, peak in rows]))
    seconds = [tasks_s + file_s for tasks_s, file_s, _ in rows]
    note_growth("`Workflow` in Python to graph file, tasks", sizes, seconds, [peak for _, _, peak in rows])


if __name__ == "__main__":
    main()
