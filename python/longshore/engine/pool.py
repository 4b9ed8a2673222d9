"""A pool of countable resources: what is taken never exceeds what there is."""

from __future__ import annotations

from collections.abc import Mapping


class Pool:
    """What a machine has, and what of it is free.

    Parameters
    ----------
    capacity
        Amount per resource name. A resource that is not named is not counted.
    """

    def __init__(self, capacity: Mapping[str, int]) -> None:
        self.capacity = dict(capacity)
        self.free = dict(capacity)

    def clamp(self, amounts: Mapping[str, int]) -> dict[str, int]:
        """The amounts that are counted, none above the capacity.

        Requests above it are refused when a run is prepared; what is left is a run that moved to a smaller machine,
        where the job has the machine for itself rather than waiting for ever.
        """
        return {name: min(amount, self.capacity[name]) for name, amount in amounts.items() if name in self.capacity}

    def fits(self, amounts: Mapping[str, int]) -> bool:
        """Whether all of it is free right now."""
        free = self.free
        return all(amount <= free[name] for name, amount in amounts.items())

    def take(self, amounts: Mapping[str, int]) -> None:
        """Reserve amounts that fit."""
        for name, amount in amounts.items():
            self.free[name] -= amount

    def give(self, amounts: Mapping[str, int]) -> None:
        """Return amounts that were taken."""
        for name, amount in amounts.items():
            self.free[name] += amount
