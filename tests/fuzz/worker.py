"""A process that runs cases within limits of memory, and prints a line of JSON per case that failed.

Usage: python -m tests.fuzz.worker KIND SEED BEGIN END FOLDER [RUNS]
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import warnings
from pathlib import Path

from tests.fuzz.cases import make_case
from tests.fuzz.targets import run_case

MOST_B = 1 << 30
"""Memory of a case, and of the program around it."""


def main(kind: str, seed: str, begin: str, end: str, folder: str, runs: str = "") -> None:
    """Run the cases from `begin` to `end`."""
    warnings.simplefilter("ignore")
    os.environ |= {"HOME": f"{folder}/home", "XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/config"}
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_B, MOST_B))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(int(begin), int(end)):
        print(json.dumps({"begun": number}), flush=True)
        files = make_case(kind, int(seed), number, Path(runs) if runs else None)
        finding = run_case(kind, files, Path(folder) / str(number), Path(runs) if runs else None)
        if finding:
            print(json.dumps({"case": number, "signature": finding.signature, "text": finding.text}), flush=True)
        if number % 50 == 0:
            gc.collect()


if __name__ == "__main__":
    main(*sys.argv[1:])
