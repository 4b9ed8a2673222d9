"""Share of many histories, for a process of its own."""

from __future__ import annotations

from tests.simulation.history import run_history
from tests.simulation.plan import Plan, World, make_plan


def run_share(first: int, number: int, world: World | None) -> tuple[int, list[Plan]]:
    """Run some histories; return their number, and the plans of those that break a promise."""
    plans = (make_plan(seed, world=world) for seed in range(first, first + number))
    return number, [plan for plan in plans if run_history(plan).broken]
