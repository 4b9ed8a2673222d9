"""A process that runs cases within limits of memory, and prints lines of JSON: what became of each case.

Usage: python -m tests.fuzz.worker KIND SEED BEGIN END FOLDER RUNS
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
import warnings
from pathlib import Path

from tests.fuzz.kinds import KINDS, make_case
from tests.fuzz.targets import run_case

MOST_B = 1 << 30
"""Memory of a case, and of the program around it."""


def main(kind: str, seed: str, begin: str, end: str, folder: str, runs: str) -> None:
    """Run the cases from `begin` to `end`."""
    warnings.simplefilter("ignore")
    os.environ |= {"HOME": f"{folder}/home", "XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/config"}
    # Local times of logs and accounting mean the same moments everywhere, and some days have 23 hours.
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_B, MOST_B))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(int(begin), int(end)):
        print(json.dumps({"begun": number}), flush=True)
        files = make_case(kind, int(seed), number, Path(runs))
        outcome = run_case(KINDS[kind], files, Path(folder) / str(number))
        print(json.dumps({"read": outcome.is_read, "accepted": outcome.is_accepted}))
        if outcome.finding:
            record = {"case": number, "signature": outcome.finding.signature, "text": outcome.finding.text}
            print(json.dumps(record), flush=True)
        if number % 50 == 0:
            gc.collect()


if __name__ == "__main__":
    main(*sys.argv[1:])
