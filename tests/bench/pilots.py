"""Measures the pilot program alone: jobs of `true` per second, against a keeper's, and memory with jobs handed over.

Usage: python -m tests.bench.pilots [JOBS] [HANDED]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.bench.processes import peak_mb
from tests.services.batch.pilots.pilot_box import GIB, PilotBox

from longshore.keeper import program as keeper

_SLOTS: Final = 4
_GROUP: Final = 500
"""Attempts of one order."""


def _members(folder: Path, jobs: int) -> Iterator[list[dict[str, Any]]]:
    for first in range(0, jobs, _GROUP):
        group = range(first, min(jobs, first + _GROUP))
        yield [{"j": job, "a": 1, "argv": ["true"], "log": f"{folder}/logs/{job}.log"} for job in group]


def _await_ends(path: Path, jobs: int) -> None:
    seen, offset, rest = 0, 0, b""
    while seen < jobs:
        time.sleep(0.02)
        if path.exists():
            with path.open("rb") as file:
                file.seek(offset)
                text = file.read()
            offset += len(text)
            *lines, rest = (rest + text).split(b"\n")
            seen += sum(line.startswith(b'{"r":"end"') for line in lines)


def measure_pilot(folder: Path, jobs: int) -> float:
    """Return the jobs per second of a pilot with four processors."""
    box = PilotBox(folder, until="-", lease_s="600")
    hand_over(box, jobs, cpus=1)
    box.begin()
    began = time.monotonic()
    _await_ends(box.mail / "records", jobs)
    per_s = jobs / (time.monotonic() - began)
    box.end()
    return per_s


def hand_over(box: PilotBox, jobs: int, *, cpus: int) -> None:
    """Write the orders of jobs."""
    common = {"e": 0, "cwd": str(box.root), "v": {}}
    for members in _members(box.root, jobs):
        box.order(o="run", b="tag", q={"cpus": cpus, "memory": GIB // 4}, need=None, p=common, m=members)


def measure_keeper(folder: Path, jobs: int) -> float:
    """Return the jobs per second of a keeper with a lane of four slots, into which fifty jobs at a time are sent."""
    records = folder / "records.jsonl"
    (folder / "tmp").mkdir()
    words = [sys.executable, "-I", "-S", str(keeper.FOLDER / keeper.PROGRAM), str(records), str(folder / "tmp")]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stdin
    began = time.monotonic()
    process.stdin.write(b'{"o":"env","id":0,"env":{"PATH":"/usr/bin:/bin"}}\n')
    sent = 0
    for members in _members(folder, jobs):
        # Attempts wait in a lane for a moment only.
        for first in range(0, len(members), 50):
            part = [{**member, "e": 0, "v": {}, "cwd": str(folder)} for member in members[first : first + 50]]
            order = {"o": "run", "b": "tag", "l": "lane", "n": _SLOTS, "m": part}
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
            sent += len(part)
            _await_ends(records, sent - 50)
    _await_ends(records, jobs)
    per_s = jobs / (time.monotonic() - began)
    process.stdin.close()
    process.wait()
    return per_s


def measure_memory(folder: Path, handed: int) -> float:
    """Return the peak memory, in MB, of a pilot that has taken so many attempts while one runs."""
    box = PilotBox(folder, until="-", lease_s="600")
    box.hand([0], "sleep 600", cpus=4)
    hand_over(box, handed, cpus=4)
    process = box.begin()
    while not any(beat["wait"] >= handed for beat in box.records("beat")):
        time.sleep(0.1)
    peak = peak_mb(process.pid) or 0.0
    box.end()
    return peak


def main() -> None:
    """Print one line per figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", type=int, nargs="?", default=10_000)
    parser.add_argument("handed", type=int, nargs="?", default=100_000)
    options = parser.parse_args()
    for name, measure in (("pilot", measure_pilot), ("keeper", measure_keeper)):
        with tempfile.TemporaryDirectory() as folder:
            print(f"{name}: {measure(Path(folder), options.jobs):.0f} jobs/s")
    with tempfile.TemporaryDirectory() as folder:
        print(f"pilot with {options.handed} jobs handed over: {measure_memory(Path(folder), options.handed):.0f} MB")


if __name__ == "__main__":
    main()
