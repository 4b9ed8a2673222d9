"""Measures the cost of limits: a keeper's processor share for sleeping jobs, with and without limits.

Usage: python -m tests.bench.limits [JOBS] [SECONDS]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from longshore.keeper import program as keeper

_LIMITS: dict[str, dict[str, Any]] = {
    "none": {},
    "memory": {"lim": {"mem": 1 << 30}},
    "memory, time and log": {"lim": {"mem": 1 << 30, "wall": 1e6, "log": 1 << 30}},
}


def measure(jobs: int, seconds: float, more: dict[str, Any], folder: Path) -> tuple[float, float]:
    """Return processor share in percent while jobs sleep, and seconds until all have started."""
    records = folder / "records.jsonl"
    (folder / "tmp").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(keeper.FOLDER / keeper.PROGRAM), str(records), str(folder / "tmp")],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    assert process.stdin
    members = [
        {"j": job, "a": 1, "argv": ["/bin/sleep", str(seconds + 60)], "e": 0, "v": {}, "cwd": "/", **more}
        | {"log": str(folder / "logs" / f"{job}.log")}
        for job in range(jobs)
    ]
    began = time.monotonic()
    for order in ({"o": "env", "id": 0, "env": {}}, {"o": "run", "b": "t", "m": members}):
        process.stdin.write(json.dumps(order).encode() + b"\n")
    process.stdin.flush()
    while not records.exists() or records.read_bytes().count(b'"r":"start"') < jobs:
        time.sleep(0.05)
    started = time.monotonic() - began
    time.sleep(5.0)
    before = _cpu_s(process.pid)
    time.sleep(seconds)
    share = 100.0 * (_cpu_s(process.pid) - before) / seconds
    kill = {"o": "kill", "m": [[job, 1] for job in range(jobs)], "sig": 9}
    process.stdin.write(json.dumps(kill).encode() + b"\n")
    process.stdin.close()
    process.wait()
    return share, started


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print one line per kind of limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", type=int, nargs="?", default=1000)
    parser.add_argument("seconds", type=float, nargs="?", default=30.0)
    options = parser.parse_args()
    jobs, seconds = options.jobs, options.seconds
    print(f"{jobs} sleeping jobs, {seconds:.0f} s")
    for name, more in _LIMITS.items():
        with tempfile.TemporaryDirectory() as folder:
            share, started = measure(jobs, seconds, more, Path(folder))
        print(f"limits: {name:22} {share:5.2f} % of a processor, all started in {started:.2f} s")


if __name__ == "__main__":
    main()
