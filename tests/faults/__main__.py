"""Searches for faults by hand, as many as wanted.

::

    python -m tests.faults power-loss [SCENARIO ...] [--rounds N] [--resume N]
    python -m tests.faults injection [--every N] [FAULT ...]

A FAULT is a class of calls, a number and an error: ``write:17:EIO``, ``rename:3:ENOSPC``, ``write:20:SHORT``. Each
problem is printed with its folder, which stays; the exit status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from tests.faults.injection import count_calls, faults, inject, name_fault, parse_fault
from tests.faults.places import in_memory
from tests.faults.power_loss import cases, on_disk, read_case, resume_case
from tests.faults.scenarios import SCENARIOS, record
from tests.faults.shim import Fault


def search_power_loss(options: argparse.Namespace, place: Path) -> Iterator[str]:
    """Read every legal state of the scenarios, and resume some."""
    for scenario in options.scenarios or SCENARIOS:
        begin, read, resumed = time.monotonic(), 0, 0
        dice = Random(options.seed)
        recording = record(scenario, place / scenario)
        for case in cases(recording, every=options.every, rounds=options.rounds, seed=options.seed):
            read += 1
            with on_disk(case, place) as run:
                found, problems = read_case(case, run)
                wanted = options.resume / (len(recording.steps) * (3 + options.rounds))
                if run.root.exists() and dice.random() < wanted:
                    resumed += 1
                    problems += resume_case(case, run, found)
            yield from (f"{scenario}: {case}: {problem}" for problem in problems)
        seconds = time.monotonic() - begin
        report(f"{scenario}: {len(recording.steps)} calls, {read} states read, {resumed} resumed, {seconds:.0f} s")


def search_injection(options: argparse.Namespace, place: Path) -> Iterator[str]:
    """Let one call of a run after the other fail."""
    counts = count_calls(place / "counted")
    report(f"calls: {', '.join(f'{kind.name.lower()} {number}' for kind, number in counts.items())}")
    chosen = [parse_fault(text) for text in options.faults] or faults(counts)[:: options.every]

    def run(fault: Fault) -> list[str]:
        name = name_fault(fault)
        return [f"{name}: {problem}" for problem in inject(fault, place / name.replace(":", "-"))]

    with ThreadPoolExecutor(options.workers) as pool:
        for problems in pool.map(run, chosen):
            yield from problems
    report(f"{len(chosen)} failures injected")


def report(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Search, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    commands = parser.add_subparsers(required=True)
    power = commands.add_parser("power-loss")
    power.add_argument("scenarios", nargs="*", metavar="SCENARIO", choices=[*SCENARIOS, []])
    power.add_argument("--rounds", type=int, default=4, help="random states after each call")
    power.add_argument("--every", type=int, default=1, help="calls between two looks")
    power.add_argument("--resume", type=int, default=20, help="states of each scenario to resume, about")
    power.add_argument("--seed", type=int, default=0)
    power.set_defaults(search=search_power_loss)
    injection = commands.add_parser("injection")
    injection.add_argument("faults", nargs="*", metavar="FAULT")
    injection.add_argument("--every", type=int, default=1, help="take only every N-th call")
    injection.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    injection.set_defaults(search=search_injection)
    options = parser.parse_args()
    place = in_memory()
    # Opening a run may register it: not for this user.
    os.environ["XDG_STATE_HOME"] = str(place / "state")
    number = 0
    for problem in options.search(options, place):
        number += 1
        report(problem)
    report(f"{number} problems; folder: {place}")
    return bool(number)


if __name__ == "__main__":
    sys.exit(main())
