"""Prints how well the time left is estimated: recorded workflows in virtual time, with several numbers of slots.

Usage: python -m tests.bench.time_left

A moment is right if the true end lies in the range. The width is that of the range as a share of the true time left.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.replayed_runs import INSTANCES, Estimate, ReplayedRun

SLOTS = (1, 2, 4, 8, 16)
SHARES = tuple(number / 20 for number in range(2, 20))


def describe(name: str, estimates: Sequence[Estimate]) -> str:
    """Return a line about some estimates."""
    made = [each for each in estimates if each.range_s is not None]
    right = sum(each.is_right for each in made)
    width = statistics.median(each.width for each in made) if made else 0.0
    low = sum(each.range_s is not None and each.true_s > each.range_s[1] for each in made)
    return (
        f"  {name:40} {right / max(1, len(made)):6.1%} right of {len(made):4} moments ({len(estimates) - len(made):2} "
        f"without estimate, {low:3} end later), median width {width:5.2f}"
    )


def main() -> None:
    """Run the workflows, and print a line for each, for each share of the run, and for all."""
    fresh: list[Estimate] = []
    again: list[Estimate] = []
    with tempfile.TemporaryDirectory() as name:
        for instance in INSTANCES:
            here: list[Estimate] = []
            for slots in SLOTS:
                run = ReplayedRun(instance, slots, Path(name) / f"{instance.stem}-{slots}")
                here += run.estimates(SHARES)
                again += run.estimates(SHARES, run.counted)
            print(describe(instance.stem, here))
            fresh += here
    for share in SHARES:
        print(describe(f"after {share:.0%}", [each for each in fresh if each.share == share]))
    print(describe("all, nothing known of earlier runs", fresh))
    print(describe("all, with the history of an equal run", again))


if __name__ == "__main__":
    main()
