"""Prints what requests that differ from job to job cost: in the plan, in ``workflow.jsonl`` and in the engine.

Usage: python -m tests.bench.job_requests [--jobs N] [--values N ...]

Each number of distinct values is measured in a process of its own; 0 stands for one request without a variable.
Seconds are those of the processor.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Final, TypeVar

from tests.bench.processes import peak_mb

from longshore.contract.executor import Limits
from longshore.contract.service import RunPaths
from longshore.engine.run.make_scheduler import make_scheduler
from longshore.engine.schedule.estimates import RuntimeEstimates
from longshore.engine.schedule.resource_pool import ConcurrencyLimits
from longshore.engine.settings import EngineSettings
from longshore.graphs.graph_file import AcquiredPayload
from longshore.model.tasks import Dag, Scalar, Task, TaskGraph
from longshore.model.workflow_lines import workflow_lines
from longshore.plan.acquire import AcquiredRun
from longshore.plan.clustering import cluster_run
from longshore.plan.resolved_run import resolve_run
from longshore.plan.run_plan import plan_run
from longshore.rundir.job_table import JobTable
from longshore.runstate.replay import initial_state
from longshore.testing.fakes import FakeClock, FakeExecutor, FakeManager
from longshore.testing.runs import write_run

COLUMN: Final = "sample.size_kb"
YAML: Final = """\
wmsServiceClass: local
pipeline: {{dimensions: {{sample: [1]}}, tasks: {{work: {{command: "true"}}}}}}
payload: {{payloadName: bench}}
pipetask: {{work: {{runQuantumCommand: "true {{sample}}", requestMemory: "{request}"}}}}
"""
_Result = TypeVar("_Result")


class _Quiet:
    def note(self, text: str) -> None:
        pass

    def stage(self, text: str) -> None:
        pass


def build_graph(jobs: int, values: int) -> TaskGraph:
    """Build tasks of one label, whose samples have this many distinct sizes."""
    tasks = [Task(name=f"work_{number}", label="work", data_id={"sample": number}) for number in range(jobs)]
    sizes: dict[Scalar, Scalar] = {number: 300_000 + number % values for number in range(jobs)} if values else {}
    return TaskGraph(name="bench", dag=Dag.by_name(tasks, []), columns={COLUMN: sizes} if values else {})


def timed(act: Callable[[], _Result]) -> tuple[float, _Result]:
    """Return processor seconds of a call, and its result."""
    began = time.process_time()
    result = act()
    return time.process_time() - began, result


def measure(jobs: int, values: int, folder: str) -> str:
    """Plan, write and read the jobs, and return the line of figures."""
    os.chdir(folder)
    request = f"{{{COLUMN}}} * 3 KB" if values else "900 MB"
    Path("run.yaml").write_text(YAML.format(request=request), "utf-8")
    run = resolve_run(Path("run.yaml"), now=0.0, progress=_Quiet())
    clustered = cluster_run(AcquiredRun(run=run, payload=AcquiredPayload(graph=build_graph(jobs, values))))
    with redirect_stdout(StringIO()):
        plan_s, plan = timed(lambda: plan_run(clustered, _Quiet()))
    plan_mb = peak_mb() or 0.0
    paths = write_run(Path(folder) / "run", {"a_1": ()})
    write_s, _ = timed(lambda: paths.workflow.write_bytes(b"".join(workflow_lines(plan.workflow))))
    size_mb = paths.workflow.stat().st_size / 1e6
    with paths.workflow.open("rb") as file:
        header_mb = len(file.readline()) / 1e6
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        engine = pool.submit(measure_engine, paths).result()
    planned = f"{plan_s:>7.2f} {plan_mb:>8.0f}"
    return f"{values or 'one':>8} {planned} {write_s:>8.2f} {size_mb:>8.1f} {header_mb:>10.2f} {engine}"


def measure_engine(paths: RunPaths) -> str:
    """Begin an engine and let it choose its first jobs; return figures."""
    table_s, table = timed(lambda: JobTable(paths, "parents"))
    executor = FakeExecutor(FakeManager(FakeClock()), limits=Limits(max_batch=1000))
    state = initial_state(table)
    settings = EngineSettings()
    limits = ConcurrencyLimits(settings, table.header.settings)
    estimates = RuntimeEstimates(table.label_of)
    begin_s, scheduler = timed(
        lambda: make_scheduler(state, table, limits, settings, executor=executor, estimates=estimates, tag="t")
    )
    choose_s, batches = timed(lambda: scheduler.next_batches(0.0))
    started = sum(len(batch.jobs) for batch in batches)
    begun = f"{table_s:>7.2f} {begin_s:>8.2f} {peak_mb() or 0.0:>10.0f}"
    return f"{begun} {choose_s * 1e3:>10.1f} {started:>5} {len(batches):>8}"


def main() -> None:
    """Print a line per number of distinct values."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--values", type=int, nargs="+", default=[0, 1000, 100_000])
    options = parser.parse_args()
    print(f"{options.jobs:,} jobs:")
    print(
        "  values  plan s  plan MB  write s  file MB  header MB  read s  begin s  engine MB  choose ms  jobs  batches"
    )
    for values in options.values:
        with (
            tempfile.TemporaryDirectory() as folder,
            ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool,
        ):
            print(pool.submit(measure, options.jobs, values, folder).result(), flush=True)


if __name__ == "__main__":
    main()
