"""Jobs per second of the local service beside ninja's, on the same graph, in alternating rounds of one run.

Usage: python -m tests.bench.throughput [--jobs N] [--rounds N] [--slots N] [--command WORDS]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.graphs import write_ninja, write_wfformat


def longshore_round(folder: Path, size: int, slots: int, command: str) -> tuple[float, float]:
    """Jobs per second from submit's first moment to the end, and of the engine alone."""
    write_wfformat(folder / "graph.json", size)
    (folder / "run.yaml").write_text(
        f"wfformat: graph.json\nrunQuantumCommand: {json.dumps(command)}\n"
        f"resources: {{cpus: {slots}}}\nrequestMemory: 0\nworkingDirectory: {folder}\n",
        "utf-8",
    )
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    began = time.perf_counter()
    answer = subprocess.run(
        [sys.executable, "-m", "longshore", "submit", "run.yaml", "--wait", "--json"],
        cwd=folder,
        env=environment,
        capture_output=True,
        check=True,
        text=True,
    )
    whole = time.perf_counter() - began
    run = Path(json.loads(answer.stdout)["submit_dir"])
    events = [json.loads(line) for line in (run / "journal" / "0001.jsonl").read_text("utf-8").splitlines()]
    engine = events[-1]["t"] - events[0]["t"]
    return size / whole, size / engine


def ninja_round(folder: Path, size: int, slots: int, command: str) -> float:
    """Jobs per second of ninja."""
    write_ninja(folder / "build.ninja", size, command)
    (folder / "logs").mkdir()
    began = time.perf_counter()
    subprocess.run(["ninja", "-j", str(slots)], cwd=folder, stdout=subprocess.DEVNULL, check=True)
    return size / (time.perf_counter() - began)


def main() -> None:
    """Run the rounds and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--command", default="true")
    options = parser.parse_args()
    rates: dict[str, list[float]] = {"longshore, whole command": [], "longshore, engine": [], "ninja": []}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            whole, engine = longshore_round(Path(folder), options.jobs, options.slots, options.command)
        rates["longshore, whole command"].append(whole)
        rates["longshore, engine"].append(engine)
        if shutil.which("ninja"):
            with tempfile.TemporaryDirectory() as folder:
                rates["ninja"].append(ninja_round(Path(folder), options.jobs, options.slots, options.command))
    print(f"{options.jobs} jobs of '{options.command}', {options.slots} slots, median of {options.rounds} rounds:")
    base = statistics.median(rates["ninja"]) if rates["ninja"] else None
    for name, values in rates.items():
        if values:
            median = statistics.median(values)
            ratio = f"  {median / base:.2f} of ninja" if base else ""
            print(f"  {name:26} {median:8.0f} jobs/s{ratio}")


if __name__ == "__main__":
    main()
