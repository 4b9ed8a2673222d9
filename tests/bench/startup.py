"""Times short commands beside `python -c pass`: imports, help, reports of a run of 100 jobs, and a whole run of one.

Usage: python -m tests.bench.startup [--rounds N]

Prints the medians of alternating rounds: milliseconds by the clock, of the processor, and of the processor without
what Python needs to start. Goals are milliseconds of the processor as a whole; that of the run of one job is by the
clock, without Python's start.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.figures import note_figure
from tests.bench.graphs import write_wfformat
from tests.bench.processes import installed_environment

_BARE: Final = "python -c pass"
_HELLO: Final = "submit --wait, one job"
_LIBRARIES: Final = (
    "from longshore.cli.light_imports import import_libraries; import_libraries(); import os; os._exit(0)"
)
_GOALS_MS: Final = {"status": 80, "report": 100, "report --id": 150, "ping": 150}


class Times(NamedTuple):
    """Seconds of a command by the clock and of the processor, without those of processes that it leaves behind."""

    wall: float
    busy: float


def time_command(command: list[str], folder: Path) -> Times:
    """Run a command, and return its times."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, env=installed_environment(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    usage = os.wait4(process.pid, 0)[2]
    process.returncode = 0
    return Times(time.perf_counter() - began, usage.ru_utime + usage.ru_stime)


def print_times(rounds: int, taken: dict[str, list[Times]]) -> None:
    """Print the medians."""
    medians = {what: Times(*map(statistics.median, zip(*values, strict=True))) for what, values in taken.items()}
    bare = medians[_BARE]
    print(f"median of {rounds} rounds, in milliseconds:")
    print(f"  {'':30} {'clock':>7} {'processor':>10} {'of its own':>11}  goal")
    for what, times in medians.items():
        goal = str(_GOALS_MS.get(what, ""))
        if what == _HELLO:
            goal = f"350; {1000 * (times.wall - bare.wall):.0f} by the clock without Python's start"
        wall, busy = 1000 * times.wall, 1000 * times.busy
        print(f"  {what:30} {wall:7.1f} {busy:10.1f} {busy - 1000 * bare.busy:11.1f}  {goal}".rstrip())
        if what in _GOALS_MS:
            note_figure(
                f"`{what}` of a run of 100 jobs",
                f"{busy:.0f} ms of a processor",
                f"Python alone: {1000 * bare.busy:.0f}",
            )
        elif what == _HELLO:
            note_figure(f"`{what}`", f"{wall:.0f} ms by the clock", f"Python alone: {1000 * bare.wall:.0f}")


def main() -> None:
    """Alternate the commands and print medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    longshore = [sys.executable, "-m", "longshore"]
    commands = {
        _BARE: [sys.executable, "-c", "pass"],
        "python -I -S -c pass": [sys.executable, "-I", "-S", "-c", "pass"],
        "import click, msgspec": [sys.executable, "-c", "import click, msgspec"],
        "the same, as commands do": [sys.executable, "-c", _LIBRARIES],
        "import longshore": [sys.executable, "-c", "import longshore"],
        "longshore.submit, not called": [sys.executable, "-c", "import longshore; longshore.submit"],
        "--help": [*longshore, "--help"],
        "status": [*longshore, "status", "--id", "@last"],
        "report": [*longshore, "report"],
        "report --id": [*longshore, "report", "--id", "@last"],
        "ping": [*longshore, "ping"],
        _HELLO: [*longshore, "submit", "one.yaml", "--wait"],
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for what, jobs in (("run", 100), ("one", 1)):
            write_wfformat(folder / f"{what}.json", jobs)
            (folder / f"{what}.yaml").write_text(f"wfformat: {what}.json\nrunQuantumCommand: 'true'\n", "utf-8")
        taken: dict[str, list[Times]] = {name: [] for name in commands}
        for command in commands.values():  # compiles modules
            time_command(command, folder)
        time_command([*longshore, "submit", "run.yaml", "--wait"], folder)
        for _ in range(options.rounds):
            for what, command in commands.items():
                if what != _HELLO:  # reports are of the run of 100 jobs
                    taken[what].append(time_command(command, folder))
        for _ in range(options.rounds):
            taken[_HELLO].append(time_command(commands[_HELLO], folder))
    print_times(options.rounds, taken)


if __name__ == "__main__":
    main()
