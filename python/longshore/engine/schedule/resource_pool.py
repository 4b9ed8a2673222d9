"""Resource pool: reserves countable resources without exceeding capacity, and hands out each identity only once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

Identities: TypeAlias = Mapping[str, tuple[str, ...]]
"""Identities of resources whose members are distinct, such as GPUs, by the resource's name."""
NO_IDENTITIES: Final[Identities] = {}


class Pool:
    """Capacity of a machine, and the part that is free.

    Parameters
    ----------
    capacity
        Amount per resource name. A resource without an entry is not counted.
    identities
        Members of the resources that are handed out by name; their number is the amount.
    """

    def __init__(self, capacity: Mapping[str, int], identities: Mapping[str, Sequence[str]] | None = None) -> None:
        self.identities = {name: tuple(these) for name, these in (identities or {}).items()}
        self.capacity = {**capacity, **{name: len(these) for name, these in self.identities.items()}}
        self.ceiling = dict(self.capacity)
        """Most that may be taken of the capacity; the rest is for other runs."""
        self.free = dict(self.capacity)
        """Rest of the ceiling; below 0 where the ceiling was lowered beneath the amount taken."""
        self._allowed = dict(self.identities)
        self._had: dict[str, list[str]] = {name: [] for name in self.identities}

    @property
    def amounts_in_use(self) -> dict[str, int]:
        """Amount taken per resource."""
        return {name: most - self.free[name] for name, most in self.ceiling.items()}

    @property
    def identities_in_use(self) -> dict[str, tuple[str, ...]]:
        """Identities that are taken."""
        return {name: tuple(these) for name, these in self._had.items()}

    def clamp(self, amounts: Mapping[str, int]) -> dict[str, int]:
        """Return the amounts of counted resources, each limited to the capacity.

        Requests above capacity are refused when a run is prepared. If the run moved to a smaller machine since, the
        job gets the whole machine rather than waiting for ever.
        """
        return {name: min(amount, self.capacity[name]) for name, amount in amounts.items() if name in self.capacity}

    def fits(self, amounts: Mapping[str, int]) -> bool:
        """Return whether all the amounts are free right now."""
        return self.count_fitting(amounts, 1) == 1

    def count_fitting(self, amounts: Mapping[str, int], most: int) -> int:
        """Return how many times the amounts are free right now, up to `most` times."""
        free = self.free
        for name, amount in amounts.items():
            if amount > free[name]:
                return 0
            if amount:
                most = min(most, free[name] // amount)
                if name in self.identities:
                    most = min(most, len(self._idle(name)) // amount)
        return most

    def take(self, amounts: Mapping[str, int]) -> Identities:
        """Reserve amounts that fit, and return the identities that go with them."""
        if not self.identities:
            self.hold(amounts)
            return NO_IDENTITIES
        given = {
            name: tuple(self._idle(name)[:amount])
            for name, amount in amounts.items()
            if amount and name in self.identities
        }
        self.hold(amounts, given)
        return given

    def hold(self, amounts: Mapping[str, int], identities: Identities = NO_IDENTITIES, *, times: int = 1) -> None:
        """Count resources that are already in use, whether or not they fit; the amounts so many times."""
        for name, amount in amounts.items():
            self.free[name] -= amount * times
        for name, these in identities.items():
            if name in self._had:
                self._had[name].extend(these)

    def give(self, amounts: Mapping[str, int], identities: Identities = NO_IDENTITIES) -> None:
        """Return amounts and identities that were taken."""
        free = self.free
        for name, amount in amounts.items():
            free[name] += amount
        for name, these in identities.items() if identities else ():
            for identity in these:
                if identity in self._had.get(name, ()):
                    self._had[name].remove(identity)

    def resize(self, ceiling: Mapping[str, int], identities: Identities = NO_IDENTITIES) -> None:
        """Set a ceiling within the capacity; amounts in use stay in use.

        Parameters
        ----------
        ceiling
            Amount per resource name; a resource without an entry is unavailable.
        identities
            Members that may be handed out, of each resource that has identities.
        """
        for name, capacity in self.capacity.items():
            most = max(0, min(capacity, ceiling.get(name, 0)))
            self.free[name] += most - self.ceiling[name]
            self.ceiling[name] = most
        self._allowed = {
            name: tuple(each for each in these if each in identities.get(name, ()))
            for name, these in self.identities.items()
        }

    def _idle(self, name: str) -> list[str]:
        had = self._had[name]
        return [identity for identity in self._allowed[name] if identity not in had]
