"""A pool of countable resources: what is taken never exceeds what there is, and no identity is had twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

Identities: TypeAlias = Mapping[str, tuple[str, ...]]
"""Which ones of each resource that tells them apart, such as GPUs, by the resource's name."""
NO_IDENTITIES: Final[Identities] = {}


class Pool:
    """What a machine has, and what of it is free.

    Parameters
    ----------
    capacity
        Amount per resource name. A resource that is not named is not counted.
    identities
        The members of those resources that are handed out by name; there are as many as are named.
    """

    def __init__(self, capacity: Mapping[str, int], identities: Mapping[str, Sequence[str]] | None = None) -> None:
        self.identities = {name: tuple(these) for name, these in (identities or {}).items()}
        self.capacity = {**capacity, **{name: len(these) for name, these in self.identities.items()}}
        self.ceiling = dict(self.capacity)
        """What may be taken of the capacity; the rest is for other runs."""
        self.free = dict(self.capacity)
        """What is left of the ceiling; below 0 where the ceiling came down on what is taken."""
        self._allowed = dict(self.identities)
        self._had: dict[str, list[str]] = {name: [] for name in self.identities}

    @property
    def taken(self) -> dict[str, int]:
        """Amount taken per resource."""
        return {name: most - self.free[name] for name, most in self.ceiling.items()}

    @property
    def had(self) -> dict[str, tuple[str, ...]]:
        """Identities that are taken."""
        return {name: tuple(these) for name, these in self._had.items()}

    def clamp(self, amounts: Mapping[str, int]) -> dict[str, int]:
        """The amounts that are counted, none above the capacity.

        Requests above it are refused when a run is prepared; what is left is a run that moved to a smaller machine,
        where the job has the machine for itself rather than waiting for ever.
        """
        return {name: min(amount, self.capacity[name]) for name, amount in amounts.items() if name in self.capacity}

    def fits(self, amounts: Mapping[str, int]) -> bool:
        """Whether all of it is free right now."""
        free = self.free
        for name, amount in amounts.items():
            if amount > free[name] or (amount and name in self.identities and amount > len(self._idle(name))):
                return False
        return True

    def take(self, amounts: Mapping[str, int]) -> Identities:
        """Reserve amounts that fit, and return the identities that go with them."""
        if not self.identities:
            for name, amount in amounts.items():
                self.free[name] -= amount
            return NO_IDENTITIES
        given = {
            name: tuple(self._idle(name)[:amount])
            for name, amount in amounts.items()
            if amount and name in self.identities
        }
        self.hold(amounts, given)
        return given

    def hold(self, amounts: Mapping[str, int], identities: Identities = NO_IDENTITIES) -> None:
        """Count what is in use already, whether or not it fits."""
        for name, amount in amounts.items():
            self.free[name] -= amount
        for name, these in identities.items():
            if name in self._had:
                self._had[name].extend(these)

    def give(self, amounts: Mapping[str, int], identities: Identities = NO_IDENTITIES) -> None:
        """Return amounts and identities that were taken."""
        for name, amount in amounts.items():
            self.free[name] += amount
        for name, these in identities.items():
            for identity in these:
                if identity in self._had.get(name, ()):
                    self._had[name].remove(identity)

    def resize(self, ceiling: Mapping[str, int], identities: Identities = NO_IDENTITIES) -> None:
        """Let no more be taken than this, of what there is; what is taken already stays taken.

        Parameters
        ----------
        ceiling
            Amount per resource name; what is not named is not to be had.
        identities
            The members that may be handed out, of each resource that has such.
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
