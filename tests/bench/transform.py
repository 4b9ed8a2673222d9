"""Times clustering and transform of quantum graphs, beside BPS where it is installed.

Usage: python -m tests.bench.transform [--graph FILE.qg] [--without-bps] [--ordering noop|group] [QUANTA ...]

Without numbers: 10,000, 100,000 and 1,000,000 quanta, made up in the shape of nights: per visit 52 times `isr`
and `calibrate`, and one `consolidateVisit` behind them. A graph of LSST's is read by its packages, which must be there.
Each measurement has a process of its own, so that its memory is its own, and its seconds are those of the processor, so
that others may work meanwhile; BPS is spared the million. With an ordering, the jobs of each visit come before those
of the next, for the labels whose quanta have a visit and no tract.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from tests.bench.figures import note_figure
from tests.bench.processes import peak_mb

from longshore.errors import Origin
from longshore.graphs.graph_file import AcquiredPayload
from longshore.graphs.quantum_graph import RUN_GRAPH, LabelQuanta, QuantumGraphRecord, read_quantum_graph, task_graph
from longshore.model.tasks import File
from longshore.plan.acquire import AcquiredRun
from longshore.plan.clustering import cluster_run
from longshore.plan.resolved_run import resolve_run
from longshore.plan.run_plan import plan_run

SIZES: Final = (10_000, 100_000, 1_000_000)
MOST_FOR_BPS: Final = 200_000
DETECTORS: Final = 52
SHAPE: Final = Path(__file__).resolve().parents[1] / "data" / "lsst" / "g1.qg"
"""The generated graphs use its pipeline."""
DETECTOR: Final = ("instrument", "detector", "visit")
VISIT: Final = ("instrument", "visit")
IMPLIED: Final = ("band", "day_obs", "physical_filter")
YAML: Final = """\
wmsServiceClass: local
qgraphFile: graph.qg
payload: {payloadName: bench, butlerConfig: repo, inCollection: in, output: u/bench}
"""
BPS: Final = """\
submitPath: submit
operator: me
qgraphFile: graph.qg
payload: {payloadName: bench, butlerConfig: repo, inCollection: in, output: u/bench, outputRun: u/bench/run}
wmsServiceClass: lsst.ctrl.bps.BaseWmsService
"""


ORDERING: Final = """\
ordering: {{by_visit: {{labels: "{labels}", dimensions: visit, implementation: {implementation}}}}}
"""


class Figures(NamedTuple):
    """Figures of one measurement."""

    quanta: int
    jobs: int
    cluster_s: float
    transform_s: float
    peak_mb: float

    @property
    def both_s(self) -> float:
        """Seconds of clustering and transform."""
        return self.cluster_s + self.transform_s


def generate_graph(quanta: int) -> QuantumGraphRecord:
    """Generate a graph of about ``quanta`` quanta."""
    visits = max(1, quanta // (2 * DETECTORS + 1))
    numbers = [(visit, detector) for visit in range(visits) for detector in range(DETECTORS)]

    def of_detectors(kind: int) -> list[tuple[str, tuple[Any, ...]]]:
        return [
            (_uuid(kind, visit, detector), ("Cam", detector, visit, "r", 20250101, "Cam-r"))
            for visit, detector in numbers
        ]

    labels = {
        "isr": LabelQuanta(required=DETECTOR, implied=IMPLIED, quanta=of_detectors(1)),
        "calibrate": LabelQuanta(required=DETECTOR, implied=IMPLIED, quanta=of_detectors(2)),
        "consolidateVisit": LabelQuanta(
            required=VISIT,
            implied=IMPLIED,
            quanta=[(_uuid(3, visit, 0), ("Cam", visit, "r", 20250101, "Cam-r")) for visit in range(visits)],
        ),
    }
    edges = [(_uuid(1, *each), _uuid(2, *each)) for each in numbers]
    edges += [(_uuid(2, visit, detector), _uuid(3, visit, 0)) for visit, detector in numbers]
    return QuantumGraphRecord(labels=labels, edges=edges)


def _uuid(kind: int, visit: int, detector: int) -> str:
    return f"01a1f840-917e-7{kind:03x}-8{detector:03x}-{visit:012x}"


class _Quiet:
    def note(self, text: str) -> None:
        pass

    def stage(self, text: str) -> None:
        pass


def _ordering(record: QuantumGraphRecord, implementation: str) -> str:
    """Return configuration that orders visits; empty without an implementation."""
    labels = [
        label for label, these in record.labels.items() if "visit" in these.required and "tract" not in these.required
    ]
    return ORDERING.format(labels=", ".join(labels), implementation=implementation) if implementation else ""


def measure_longshore(record: QuantumGraphRecord, implementation: str) -> Figures:
    """Measure Longshore's clustering and transform, checks included."""
    Path("run.yaml").write_text(YAML + _ordering(record, implementation), "utf-8")
    run = resolve_run(Path("run.yaml"), now=0.0, progress=_Quiet())
    named = f"<FILE:{RUN_GRAPH}>"
    graph = task_graph(record, name="bench", file=File(name=RUN_GRAPH, path="graph.qg"), origin=Origin("graph.qg"))
    payload = AcquiredPayload(graph=graph, values={"qgraphFile": named, RUN_GRAPH: named})
    began = time.process_time()
    clustered = cluster_run(AcquiredRun(run=run, payload=payload))
    packed = time.process_time()
    plan = plan_run(clustered, _Quiet())
    done = time.process_time()
    return Figures(len(graph.dag), len(plan.workflow), packed - began, done - packed, peak_mb() or 0.0)


def measure_bps(record: QuantumGraphRecord, implementation: str) -> Figures:
    """Measure the same two stages of BPS with its defaults and the same graph."""
    from uuid import UUID

    from lsst.ctrl.bps import BPS_DEFAULTS, BpsConfig
    from lsst.ctrl.bps.pre_transform import cluster_quanta
    from lsst.ctrl.bps.transform import transform
    from lsst.pipe.base.pipeline_graph import TaskImportMode
    from lsst.pipe.base.quantum_graph import PredictedQuantumGraph
    from lsst.pipe.base.quantum_graph._predicted import PredictedThinGraphModel, PredictedThinQuantumModel

    with PredictedQuantumGraph.open(str(SHAPE), import_mode=TaskImportMode.DO_NOT_IMPORT) as reader:
        quanta = {
            label: [
                PredictedThinQuantumModel.model_construct(quantum_id=UUID(uuid), data_coordinate=list(values))
                for uuid, values in of_label.quanta
            ]
            for label, of_label in record.labels.items()
        }
        edges = [(UUID(parent), UUID(child)) for parent, child in record.edges]
        thin = PredictedThinGraphModel.model_construct(quanta=quanta, edges=edges)
        reader.components.thin_graph = thin
        reader.components.header.n_quanta = sum(map(len, quanta.values()))
        graph = reader.finish()
    Path("bps.yaml").write_text(BPS + _ordering(record, implementation), "utf-8")
    config = BpsConfig("bps.yaml", defaults=BPS_DEFAULTS)
    config[".bps_defined.timestamp"] = "20250101T000000Z"
    config[".bps_defined.submitPath"] = str(Path.cwd())
    config[".bps_defined.uniqProcName"] = "u_bench_run"
    config[".bps_defined.runQgraphFile"] = "graph.qg"
    began = time.process_time()
    clustered = cluster_quanta(config, graph, "u_bench_run")
    packed = time.process_time()
    workflow, _ = transform(config, clustered, str(Path.cwd()))
    done = time.process_time()
    jobs = sum(workflow.job_counts.values())
    return Figures(reader.components.header.n_quanta, jobs, packed - began, done - packed, peak_mb() or 0.0)


Measure: TypeAlias = Callable[[QuantumGraphRecord, str], Figures]


def _measure_apart(measure: Measure, source: int | Path, implementation: str) -> Figures:
    """Measure in a separate folder and process."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):
        return pool.submit(_measure_in_folder, measure, source, implementation, folder).result()


def _measure_in_folder(measure: Measure, source: int | Path, implementation: str, folder: str) -> Figures:
    record = generate_graph(source) if isinstance(source, int) else read_quantum_graph(source)
    os.chdir(folder)
    with redirect_stdout(StringIO()):
        return measure(record, implementation)


def main() -> None:
    """Print one line per graph and program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("quanta", nargs="*", type=int, default=SIZES)
    parser.add_argument("--graph", type=Path, action="append", default=[])
    parser.add_argument("--without-bps", action="store_true")
    parser.add_argument("--ordering", choices=["noop", "group"], default="")
    options = parser.parse_args()
    beside = not options.without_bps and importlib.util.find_spec("lsst") and importlib.util.find_spec("lsst.ctrl.bps")
    print("program    graph       quanta      jobs  cluster s  transform s   both s  us/quantum  peak MB")
    for source in [*(path.resolve() for path in options.graph), *(options.quanta or SIZES)]:
        mine = _print_line("longshore", source, _measure_apart(measure_longshore, source, options.ordering))
        if beside and mine.quanta <= MOST_FOR_BPS:
            other = _print_line("bps", source, _measure_apart(measure_bps, source, options.ordering))
            faster, smaller = other.both_s / mine.both_s, other.peak_mb / mine.peak_mb
            note_figure(
                f"clustering and jobs of {mine.quanta:,} quanta",
                f"{mine.both_s:.2f} s of a processor, {mine.peak_mb:.0f} MB",
                f"BPS: {other.both_s:.1f} s, {other.peak_mb:.0f} MB",
            )
            print(f"           {faster:.1f} times as fast, in 1/{smaller:.1f} of the memory")


def _print_line(program: str, source: int | Path, got: Figures) -> Figures:
    name = "made up" if isinstance(source, int) else source.name
    print(
        f"{program:<10} {name:<10} {got.quanta:>8,} {got.jobs:>9,} {got.cluster_s:>10.2f} {got.transform_s:>12.2f} "
        f"{got.both_s:>8.2f} {got.both_s / got.quanta * 1e6:>11.1f} {got.peak_mb:>8.0f}",
        flush=True,
    )
    return got


if __name__ == "__main__":
    main()
