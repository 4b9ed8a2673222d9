"""Times a pipeline of 100,000 data IDs: from YAML and a join table to tasks, and by a query.

Usage: python -m tests.bench.pipeline [--visits N] [--rounds N]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable

from longshore.config.yaml_text import parse_yaml
from longshore.errors import Origin
from longshore.graphs.pipeline import Pipeline, read_pipeline
from longshore.graphs.query import Column, ColumnValues, bind_conditions, parse_query
from longshore.graphs.tables import ValueKind, parse_csv

DETECTORS = 100

YAML = """
dimensions:
  visit: {{range: [1, {visits}]}}
  detector: {{range: [0, 99]}}
  patch: {{range: [0, 1000]}}
relations:
  overlap: {{table: overlap.csv}}
datasets:
  raw: "raw/{{visit}}_{{detector:03}}.fits"
  calexp: "out/calexp/{{visit}}/{{detector}}.fits"
  coadd: "out/coadd/{{patch}}.fits"
tasks:
  calibrate:
    dimensions: [visit, detector]
    command: "calibrate {{raw}} {{calexp}} --visit {{visit}}"
    inputs: [raw]
    outputs: [calexp]
  stack:
    dimensions: [patch]
    command: [stack, --out, "{{coadd}}", "{{calexp}}"]
    inputs: [calexp]
    outputs: [coadd]
  publish: {{dimensions: [], command: "publish", after: [stack]}}
"""


def overlap_table(visits: int) -> str:
    """Return a table that maps each detector of each visit to a sky patch, every tenth to two."""
    rows = ["visit,detector,patch"]
    for visit in range(1, visits + 1):
        for detector in range(DETECTORS):
            patch = (visit * 7 + detector) % 1000
            rows.append(f"{visit},{detector},{patch}")
            if not detector % 10:
                rows.append(f"{visit},{detector},{patch + 1}")
    return "\n".join(rows) + "\n"


def build_graph(yaml: str, table: str) -> Pipeline:
    """Parse the YAML and the table and build the task graph."""
    return read_pipeline(parse_yaml(yaml, "pipeline.yaml"), {"overlap.csv": parse_csv(table, Origin("overlap.csv"))})


def count_matches(visits: int) -> int:
    """Return the number of data IDs that match a query over two dimensions."""
    columns = {
        "visit": ColumnValues("visit", range(1, visits + 1), ValueKind.NUMBER),
        "detector": ColumnValues("detector", range(DETECTORS), ValueKind.NUMBER),
    }
    rows = [(visit, detector) for visit in range(visits) for detector in range(DETECTORS)]
    codes = dict(zip(columns, zip(*rows, strict=True), strict=True))
    expression = parse_query("visit IN (1..400, 500..900:2) AND NOT detector = 7 OR visit > 950 AND detector < 50")

    def resolve(column: Column) -> ColumnValues:
        return columns[column.name]

    passed = len(rows)
    for condition in bind_conditions(expression, resolve):
        passed = sum(condition.passes(codes, len(rows)))
    return passed


def median_s(rounds: int, what: Callable[[], object]) -> float:
    """Return the median wall time in seconds."""
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        result = what()
        taken.append(time.perf_counter() - began)
        del result
    return statistics.median(taken)


def main() -> None:
    """Print medians of all measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visits", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    yaml, table = YAML.format(visits=options.visits), overlap_table(options.visits)
    pipeline = build_graph(yaml, table)
    edges = sum(1 for _ in pipeline.graph.dag.edges())
    print(f"{len(pipeline.graph.dag):,} tasks, {edges:,} edges, {len(pipeline.graph.files):,} files")
    del pipeline
    seconds = median_s(options.rounds, lambda: build_graph(yaml, table))
    print(f"  text to task graph       {seconds:6.2f} s")
    seconds = median_s(options.rounds, lambda: count_matches(options.visits))
    print(f"  query of all data IDs    {seconds:6.2f} s")
    print(f"  peak memory              {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:6.0f} MiB")


if __name__ == "__main__":
    main()
