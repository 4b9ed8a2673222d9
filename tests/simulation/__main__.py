"""Simulation by hand: many histories, or one of them told as a story.

``python -m tests.simulation --histories 100000 --workers 2`` runs many; ``--seed N`` replays one, ``--plan FILE`` one
whose plan was printed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import msgspec
from tests.simulation.history import Outcome, run_history
from tests.simulation.plan import Plan, make_plan
from tests.simulation.share import run_share
from tests.simulation.shrink import shrink
from tests.simulation.story import tell

_SHARE: Final = 50
"""Histories per task of a worker."""
_SHARES: Final = 40
"""Tasks of a worker before it is replaced."""
_MOST_FAILURES: Final = 20


def run_many(arguments: argparse.Namespace) -> Iterator[Plan]:
    """Run many histories; yield the plans of those that break a promise."""
    began, done = time.monotonic(), 0
    last = arguments.first + arguments.histories
    firsts = range(arguments.first, last, _SHARE)
    size = _SHARES * arguments.workers
    # Histories run without garbage collection, so that a worker grows: 10 GB after 26,000 of them.
    for block in (firsts[start : start + size] for start in range(0, len(firsts), size)):
        with ProcessPoolExecutor(arguments.workers, get_context("spawn")) as pool:
            shares = [
                pool.submit(run_share, first, min(_SHARE, last - first), arguments.world or None) for first in block
            ]
            for share in shares:
                number, failing = share.result()
                done += number
                yield from failing
                if done % (20 * _SHARE) == 0 or done == arguments.histories:
                    rate = 60 * done / (time.monotonic() - began)
                    print(f"{done} histories, {rate:.0f} a minute", flush=True)


def show(outcome: Outcome, arguments: argparse.Namespace) -> None:
    """Print a history; a failing one is made as small as possible before."""
    if outcome.broken and not arguments.whole:
        outcome = shrink(outcome)
    print(tell(outcome, every_call=arguments.trace))
    if outcome.broken:
        print(f"\nPlan: {msgspec.json.encode(outcome.plan).decode()}")


def main(words: list[str] | None = None) -> int:
    """Carry out a command; the exit status is 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--histories", type=int, default=1000, help="number of histories")
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument("--workers", type=int, default=1, help="processes that share them")
    parser.add_argument(
        "--world", choices=("", "manager", "local", "pilots"), default="", help="only histories of this kind"
    )
    parser.add_argument("--seed", type=int, help="replay this one history")
    parser.add_argument("--plan", type=Path, help="replay the plan in this file")
    parser.add_argument("--whole", action="store_true", help="show a failing history as it was, not made smaller")
    parser.add_argument("--trace", action="store_true", help="show every call")
    arguments = parser.parse_args(words)
    if arguments.seed is not None or arguments.plan:
        one = (
            msgspec.json.decode(arguments.plan.read_bytes(), type=Plan)
            if arguments.plan
            else make_plan(arguments.seed, world=arguments.world or None)
        )
        outcome = run_history(one)
        show(outcome, arguments)
        return bool(outcome.broken)
    failures = 0
    for plan in run_many(arguments):
        failures += 1
        if failures <= _MOST_FAILURES:
            print(f"\nSeed {plan.seed} breaks a promise:", flush=True)
            show(run_history(plan), arguments)
    print(f"{failures} of {arguments.histories} histories break a promise")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
