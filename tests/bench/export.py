"""Times the exports of a run of 100,172 jobs beside its statistics, which read the same attempts.

Usage: python -m tests.bench.export [--rounds N] [--jobs N]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.bench.bigrun import SIZE, prepare, write_journal
from tests.bench.report import print_medians

FORMATS = {"csv": "attempts.csv", "openmetrics": "run.prom", "wfformat": "workflow.json", "ro-crate": "crate.zip"}


def main() -> None:
    """Write the run, time each command, and print medians and sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=SIZE)
    options = parser.parse_args()
    longshore = [sys.executable, "-m", "longshore"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = prepare(folder, options.jobs)
        write_journal(run)
        print(f"median of {options.rounds} rounds, {options.jobs} jobs, 94 % done:")
        print_medians("stats --csv", [*longshore, "stats", str(run.root), "--csv"], folder, options.rounds)
        for form, file in FORMATS.items():
            command = [*longshore, "export", str(run.root), "--format", form, "--output", str(folder / file)]
            print_medians(f"export --format {form}", command, folder, options.rounds)
            print(f"  {'size':44} {(folder / file).stat().st_size / 1e6:6.2f} MB")


if __name__ == "__main__":
    main()
