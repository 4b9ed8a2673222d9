"""Times reading a quantum graph file, beside LSST's own reader, and `prepare` of it for HTCondor, as a whole command.

Usage: python -m tests.bench.quantum_graph [--rounds N] [QUANTA ...]

Runs with the environment `.venv-lsst`. Files are made up as in `tests.bench.transform`; each reading has a process of
its own. Without numbers: 10,000 and 100,170 quanta. Seconds are those of the processor.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Final

from tests.bench.figures import note_figure
from tests.bench.processes import installed_environment
from tests.bench.transform import SHAPE, generate_graph

SIZES: Final = (10_000, 100_170)
_READ: Final = """
import sys, time
from pathlib import Path
from longshore.graphs import quantum_graph
began = time.process_time()
path = Path(sys.argv[2])
if sys.argv[1] == "library":
    record = quantum_graph._read_with_library(path, quantum_graph._Header(version=1), None)
else:
    record = quantum_graph.read_quantum_graph(path)
used = time.process_time() - began
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(used, peak * 1024 / 1e6, sum(len(each.quanta) for each in record.labels.values()))
"""
_MEASURE: Final = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
process.returncode = os.waitstatus_to_exitcode(status)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6, process.returncode)
"""
_RUN: Final = """\
wmsServiceClass: lsst.ctrl.bps.htcondor.HTCondorService
qgraphFile: graph.qg
updateQuantumGraph: ""
payload: {payloadName: bench, butlerConfig: repo, inCollection: in, output: u/bench}
"""


def write_graph(path: Path, quanta: int) -> None:
    """Write a file of LSST's format with about ``quanta`` quanta; its datasets are those of a small graph."""
    import zstandard

    record = generate_graph(quanta)
    thin: dict[str, Any] = {
        "quanta": {
            label: [{"quantum_id": uuid, "data_coordinate": values} for uuid, values in of_label.quanta]
            for label, of_label in record.labels.items()
        },
        "edges": record.edges,
    }
    with zipfile.ZipFile(SHAPE) as archive, zipfile.ZipFile(path, "w") as copy:
        words = zstandard.ZstdCompressionDict(archive.read("compression_dict"))
        for each in archive.namelist():
            content = archive.read(each)
            if each == "thin_graph.json.zst":
                content = zstandard.ZstdCompressor(dict_data=words).compress(json.dumps(thin).encode())
            copy.writestr(each, content)


def measure(words: list[str], folder: Path) -> list[float]:
    """Return the numbers that a program prints."""
    done = subprocess.run(words, cwd=folder, env=installed_environment(folder), capture_output=True, text=True)  # noqa: PLW1510 - reported below
    if done.returncode:
        raise SystemExit(done.stderr)
    return [float(each) for each in done.stdout.split()]


def medians_of(found: list[list[float]]) -> str:
    """Return the medians of several rounds in words."""
    seconds, peak = (statistics.median(each) for each in list(zip(*found, strict=True))[:2])
    return f"{seconds:.2f} s of a processor, {peak:.0f} MB"


def main() -> None:
    """Write a file per size, and let the readers take turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quanta", nargs="*", type=int, default=SIZES)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for quanta in options.quanta:
        with tempfile.TemporaryDirectory(prefix="quantum-graph-") as name:
            folder = Path(name)
            write_graph(folder / "graph.qg", quanta)
            (folder / "run.yaml").write_text(_RUN, "utf-8")
            commands = {
                "Longshore's reader": [sys.executable, "-c", _READ, "own", "graph.qg"],
                "LSST's reader, as a record": [sys.executable, "-c", _READ, "library", "graph.qg"],
                "longshore prepare for HTCondor": [
                    *(sys.executable, "-c", _MEASURE),
                    *(sys.executable, "-m", "longshore", "prepare", "run.yaml"),
                ],
            }
            for words in commands.values():  # compiles modules
                measure(words, folder)
            found: dict[str, list[list[float]]] = {what: [] for what in commands}
            for _ in range(options.rounds):
                for what, words in commands.items():
                    found[what].append(measure(words, folder))
            if any(each[2] for each in found["longshore prepare for HTCondor"]):
                raise SystemExit("'longshore prepare' failed")
            print(f"about {quanta} quanta:")
            for what, each in found.items():
                print(f"  {what:34} {medians_of(each)}", flush=True)
            own, library, prepare = map(medians_of, found.values())
            note_figure(f"reading {quanta:,} quanta", own, f"LSST's reader: {library}")
            note_figure(f"`prepare` of {quanta:,} quanta for HTCondor", prepare)


if __name__ == "__main__":
    main()
