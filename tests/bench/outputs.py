"""Prints the cost of checking outputs: jobs per second with two outputs each, with and without the check.

The rounds alternate. In half of them, the outputs of an earlier run are there when the jobs start.

Usage: python -m tests.bench.outputs [--jobs N] [--rounds N] [--slots N] [--folder PATH]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench.throughput import Round, prepare, run_prepared

CHECKS = ("false", "true", "fresh")


def run_round(folder: Path, size: int, slots: int, check: str) -> Round:
    """Run the jobs once."""
    (folder / "run.yaml").write_text(
        f"resources: {{cpus: {slots}}}\nrequestMemory: 0\ncheckOutputs: {check}\n"
        f"pipeline:\n  dimensions: {{n: {{range: [1, {size}]}}}}\n  tasks:\n"
        '    make: {dimensions: [n], command: ["cp", "run.yaml", "graph", "{folder}"], '
        'outputs: {first: "out/{n}/run.yaml", second: "out/{n}/graph"}}\n'.replace("{folder}", "out/{n}"),
        "utf-8",
    )
    (folder / "graph").write_text("some text\n", "utf-8")
    found = run_prepared(folder, prepare(folder), size)
    made = sum(1 for _ in folder.glob("out/*/*"))
    if made != 2 * size:
        raise SystemExit(f"{made} of {2 * size} outputs are in '{folder}'")
    return found


def measure(size: int, *, rounds: int, slots: int, kept: Path) -> Iterator[str]:
    """Run alternating rounds, and yield a line per check and kind of round."""
    found: dict[tuple[str, str], list[Round]] = {}
    for number in range(rounds):
        for check in CHECKS:
            place = kept / f"{number}-{check}"
            place.mkdir()
            for outputs in ("new", "there before"):
                found.setdefault((check, outputs), []).append(run_round(place, size, slots, check))
    for (check, outputs), values in sorted(found.items(), key=lambda item: item[0][1]):
        per_s = statistics.median(each.per_s for each in values)
        keeper = statistics.median(each.keeper_ms for each in values)
        engine = statistics.median(each.engine_ms for each in values)
        yield (
            f"  outputs {outputs:13} checkOutputs: {check:6} {per_s:6.0f} jobs/s, processor time per job: "
            f"keeper {keeper:.3f} ms, engine {engine:.3f} ms"
        )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--folder", help="where runs are kept until the end")
    options = parser.parse_args()
    kept = Path(tempfile.mkdtemp(prefix="longshore-bench-", dir=options.folder))
    print(f"{options.jobs} jobs with two outputs each, {options.slots} slots, {os.cpu_count()} cores:")
    try:
        for line in measure(options.jobs, rounds=options.rounds, slots=options.slots, kept=kept):
            print(line)
    finally:
        shutil.rmtree(kept, ignore_errors=True)


if __name__ == "__main__":
    main()
