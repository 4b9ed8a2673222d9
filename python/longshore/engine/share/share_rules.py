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
    all_claims = list(claims)
    live_claims = sorted((claim for claim in all_claims if claim.alive), key=lambda claim: (claim.end_at, claim.run))
    rest = _total(all_claims)
    for claim in all_claims:
        if not claim.alive:
            _move(rest, {}, claim.holds)
    shares: dict[str, dict[str, int]] = {claim.run: {} for claim in live_claims}
    for claim in sorted(live_claims, key=lambda claim: _waiting_since(claim, now)):
        if all(rest.get(name, 0) >= amount for name, amount in claim.next.items()):
            _move(rest, shares[claim.run], claim.next)
    for claim in live_claims:
        own = shares[claim.run]
        missing = {
            name: min(max(0, amount - own.get(name, 0)), rest.get(name, 0)) for name, amount in claim.wants.items()
        }
        _move(rest, own, missing)
    _spread_rest(rest, live_claims, shares)
    return shares


def claimable_amounts(claims: Iterable[ResourceClaim], own: ResourceClaim) -> dict[str, int]:
    """Return the most that a run can claim beside the claims of others, by resource."""
    others = list(claims)
    rest = _total([*others, own])
    for claim in others:
        for name, amount in (claim.leased if claim.alive else claim.holds).items():
            rest[name] = rest.get(name, 0) - amount
    return {name: max(0, min(rest[name], amount)) for name, amount in own.capacity.items()}


def choose_identities(
    identities: Sequence[str], own_identities: Iterable[str], other_identities: Iterable[str], amount: int
) -> tuple[str, ...]:
    """Choose the members of a resource that a run claims: those it has, then those that no other claims.

    Parameters
    ----------
    identities
        All members that it knows, in order.
    own_identities
        Members that its jobs have.
    other_identities
        Members that others claim.
    amount
        Number that it may claim.
    """
    chosen = list(dict.fromkeys(own_identities))
    free = [each for each in identities if each not in chosen and each not in set(other_identities)]
    return tuple(chosen + free[: max(0, amount - len(chosen))])


def _total(claims: Iterable[ResourceClaim]) -> dict[str, int]:
    """Return the total of each resource: the largest capacity that any run claims."""
    total: dict[str, int] = {}
    for claim in claims:
        for name, amount in claim.capacity.items():
            total[name] = max(total.get(name, 0), amount)
    return total


def _waiting_since(claim: ResourceClaim, now: float) -> float:
    is_starved = claim.idle_since is not None and now - claim.idle_since >= PATIENCE_S
    return claim.idle_since if is_starved and claim.idle_since is not None else now


def _move(rest: dict[str, int], receiver: dict[str, int], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        rest[name] = max(0, rest.get(name, 0) - amount)
        receiver[name] = receiver.get(name, 0) + amount


def _spread_rest(rest: dict[str, int], live_claims: Sequence[ResourceClaim], shares: dict[str, dict[str, int]]) -> None:
    for name in list(rest):
        # Those with the least room first, so that what they cannot have goes to the others.
        claimants = [claim for claim in live_claims if name in claim.capacity]
        claimants.sort(
            key=lambda claim: (claim.capacity[name] - shares[claim.run].get(name, 0), claim.end_at, claim.run)
        )
        for place, claim in enumerate(claimants):
            own = shares[claim.run]
            most = claim.capacity[name] - own.get(name, 0)
            part = max(0, min(most, rest[name] // (len(claimants) - place)))
            _move(rest, own, {name: part})
