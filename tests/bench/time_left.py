"""Prints how well the time left is estimated: recorded workflows in virtual time, with several numbers of slots.

Usage: python -m tests.bench.time_left

A moment is right if the true end lies in the range. The width is that of the range as a share of the true time left.
Summed estimates are those of runs with very many open jobs. Copies of a workflow side by side make such runs.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.replayed_runs import INSTANCES, Estimate, ReplayedRun

SLOTS = (1, 2, 4, 8, 16)
LARGE_SLOTS = (16, 64, 256)
COPIES = 40
SHARES = tuple(number / 20 for number in range(2, 20))


def describe(name: str, estimates: Sequence[Estimate]) -> str:
    """Return a line about some estimates."""
    made = [each for each in estimates if each.range_s is not None]
    right = sum(each.is_right for each in made)
    width = statistics.median(each.width for each in made) if made else 0.0
    low = sum(each.range_s is not None and each.true_s > each.range_s[1] for each in made)
    return (
        f"  {name:62} {right / max(1, len(made)):6.1%} right of {len(made):4} moments ({len(estimates) - len(made):2} "
        f"without estimate, {low:3} end later), median width {width:5.2f}"
    )


class Estimates:
    """Estimates of all runs in four ways: without and with the history of an equal run, simulated and summed."""

    def __init__(self) -> None:
        self.fresh: list[Estimate] = []
        self.again: list[Estimate] = []
        self.fresh_summed: list[Estimate] = []
        self.again_summed: list[Estimate] = []

    def add(self, run: ReplayedRun) -> None:
        """Add the estimates of a run."""
        self.fresh += run.estimates(SHARES)
        self.again += run.estimates(SHARES, run.counted)
        self.add_summed(run)

    def add_summed(self, run: ReplayedRun) -> None:
        """Add the summed estimates of a run."""
        self.fresh_summed += run.estimates(SHARES, is_summed=True)
        self.again_summed += run.estimates(SHARES, run.counted, is_summed=True)


def main() -> None:
    """Run the workflows, and print a line for each, for each share of the run, and for all."""
    found, large = Estimates(), Estimates()
    with tempfile.TemporaryDirectory() as name:
        for instance in INSTANCES:
            before = len(found.fresh)
            for slots in SLOTS:
                found.add(ReplayedRun(instance, slots, Path(name) / f"{instance.stem}-{slots}"))
            print(describe(instance.stem, found.fresh[before:]))
        for share in SHARES:
            print(describe(f"after {share:.0%}", [each for each in found.fresh if each.share == share]))
        print(describe("all, nothing known of earlier runs", found.fresh))
        print(describe("all, with the history of an equal run", found.again))
        print(describe("summed, nothing known of earlier runs", found.fresh_summed))
        print(describe("summed, with the history of an equal run", found.again_summed))
        for instance in INSTANCES:
            before = len(large.fresh_summed)
            for slots in LARGE_SLOTS:
                large.add_summed(
                    ReplayedRun(instance, slots, Path(name) / f"{instance.stem}-{slots}-large", copies=COPIES)
                )
            print(describe(f"{COPIES} copies of {instance.stem}", large.fresh_summed[before:]))
        print(describe(f"{COPIES} copies, nothing known of earlier runs", large.fresh_summed))
        print(describe(f"{COPIES} copies, with the history of an equal run", large.again_summed))


if __name__ == "__main__":
    main()
