"""Times `import longshore`, `longshore --help` and `longshore status` beside `python -c pass`.

Usage: python -m tests.bench.startup [--rounds N]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.graphs import write_wfformat
from tests.bench.processes import installed_environment


def time_command(command: list[str], folder: Path) -> float:
    """Return the wall time of a command."""
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, env=installed_environment(folder), capture_output=True, check=False)
    return time.perf_counter() - began


def main() -> None:
    """Alternate the commands and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    longshore = [sys.executable, "-m", "longshore"]
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import longshore": [sys.executable, "-c", "import longshore"],
        "longshore.submit, not called": [sys.executable, "-c", "import longshore; longshore.submit"],
        "longshore --help": [*longshore, "--help"],
        "longshore status (100 jobs)": [*longshore, "status", "--id", "@last"],
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_wfformat(folder / "graph.json", 100)
        (folder / "run.yaml").write_text("wfformat: graph.json\nrunQuantumCommand: 'true'\n", "utf-8")
        time_command([*longshore, "submit", "run.yaml", "--wait"], folder)
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for command in commands.values():
            time_command(command, folder)
        for _ in range(options.rounds):
            for what, command in commands.items():
                taken[what].append(time_command(command, folder))
    bare = statistics.median(taken["python -c pass"])
    print(f"median of {options.rounds} rounds:")
    for what, values in taken.items():
        median = statistics.median(values)
        print(f"  {what:30} {median * 1000:6.1f} ms, {(median - bare) * 1000:6.1f} ms of its own")


if __name__ == "__main__":
    main()
