"""Fuzzes Longshore's readers: ``python -m tests.fuzz --cases 10000 --seed 1 [--kind config|pipeline|...]``.

Prints each new kind of failure with the case that makes it again, and its file as small as possible. Then follow, for
each kind, how many cases got past the parser, and how many were accepted as a whole. The exit status is 1 if any case
failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from pathlib import Path

from tests.fuzz.kinds import KINDS
from tests.fuzz.run_directories import make_runs
from tests.fuzz.session import CaseCounts, run_cases, shrink


def main() -> int:
    """Run the cases that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--cases", type=int, default=1000, help="number of cases of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=KINDS, action="append", help="kinds of cases; all by default")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    seen: set[str] = set()
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        os.environ["XDG_STATE_HOME"] = f"{scratch}/state"
        for kind in options.kind or KINDS:
            runs = folder / "made" / "runs"
            if KINDS[kind].has_runs and not runs.exists():
                make_runs(folder / "made")
            counts = CaseCounts()
            numbers = range(options.first, options.first + options.cases)
            here = 0
            for case in run_cases(kind, options.seed, numbers, folder / kind, runs, counts):
                here += 1
                if case.finding.signature in seen:
                    continue
                seen.add(case.finding.signature)
                print(f"--kind {kind} --seed {case.seed} --first {case.number} --cases 1: {case.finding.signature}")
                print(case.finding.text)
                for name, content in shrink(case, folder / kind, runs).items():
                    print(f"  {name}: {content[:600]!r}", flush=True)
            print(f"{kind}: {counts}, {here} failed", flush=True)
            failed += here
            os.chdir("/")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
