"""Share rules: divide a machine among the runs of one user; pure, so that all runs compute the same result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from longshore.model.run.claim import ResourceClaim

PATIENCE_S: Final = 60.0
"""Longest time, in seconds, that a run with work waits without resources, regardless of the others' estimates."""

Amounts = Mapping[str, int]


def compute_shares(claims: Iterable[ResourceClaim], now: float) -> dict[str, dict[str, int]]:
    """Compute the share of each run, by run and resource.

    First every run gets the amounts of one of its jobs: runs that have waited long go first, the rest by their expected
    ends, nearest first. Then, in the order of their ends, each gets all it wants. What is left is spread evenly, so
    that a run that comes to want more need not wait for it.

    Parameters
    ----------
    claims
        Claims of all runs. Runs whose engines are gone keep the resources that their jobs hold.
    now
        This moment, on the clock of the claims' times.
    """
    everybody = list(claims)
    living = sorted((claim for claim in everybody if claim.alive), key=lambda claim: (claim.end_at, claim.run))
    left = _total(everybody)
    for claim in everybody:
        if not claim.alive:
            _give(left, {}, claim.holds)
    given: dict[str, dict[str, int]] = {claim.run: {} for claim in living}
    for claim in sorted(living, key=lambda claim: _starved_since(claim, now)):
        if all(left.get(name, 0) >= amount for name, amount in claim.next.items()):
            _give(left, given[claim.run], claim.next)
    for claim in living:
        own = given[claim.run]
        more = {name: min(max(0, amount - own.get(name, 0)), left.get(name, 0)) for name, amount in claim.wants.items()}
        _give(left, own, more)
    _spread(left, living, given)
    return given


def claimable_amounts(claims: Iterable[ResourceClaim], own: ResourceClaim) -> dict[str, int]:
    """Return the most that a run can claim beside the claims of others, by resource."""
    others = list(claims)
    left = _total([*others, own])
    for claim in others:
        for name, amount in (claim.leased if claim.alive else claim.holds).items():
            left[name] = left.get(name, 0) - amount
    return {name: max(0, min(left[name], amount)) for name, amount in own.capacity.items()}


def choose_identities(
    everybody: Sequence[str], had: Iterable[str], taken: Iterable[str], amount: int
) -> tuple[str, ...]:
    """Choose the members of a resource that a run claims: those it has, then those that no other claims.

    Parameters
    ----------
    everybody
        All members that it knows, in order.
    had
        Members that its jobs have.
    taken
        Members that others claim.
    amount
        Number that it may claim.
    """
    kept = list(dict.fromkeys(had))
    free = [each for each in everybody if each not in kept and each not in set(taken)]
    return tuple(kept + free[: max(0, amount - len(kept))])


def _total(claims: Iterable[ResourceClaim]) -> dict[str, int]:
    """Return the total of each resource: the largest capacity that any run claims."""
    total: dict[str, int] = {}
    for claim in claims:
        for name, amount in claim.capacity.items():
            total[name] = max(total.get(name, 0), amount)
    return total


def _starved_since(claim: ResourceClaim, now: float) -> float:
    starved = claim.idle_since is not None and now - claim.idle_since >= PATIENCE_S
    return claim.idle_since if starved and claim.idle_since is not None else now


def _give(left: dict[str, int], to: dict[str, int], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        left[name] = max(0, left.get(name, 0) - amount)
        to[name] = to.get(name, 0) + amount


def _spread(left: dict[str, int], living: Sequence[ResourceClaim], given: dict[str, dict[str, int]]) -> None:
    for name in list(left):
        # Those with the least room first, so that what they cannot have goes to the others.
        sharing = [claim for claim in living if name in claim.capacity]
        sharing.sort(key=lambda claim: (claim.capacity[name] - given[claim.run].get(name, 0), claim.end_at, claim.run))
        for place, claim in enumerate(sharing):
            own = given[claim.run]
            most = claim.capacity[name] - own.get(name, 0)
            part = max(0, min(most, left[name] // (len(sharing) - place)))
            _give(left, own, {name: part})
