"""State of a site between runs: values that were set or asked for, and the runs that were sent there since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

DECREASING: Final = {"nodes_free": "nodes", "cpus_free": "cpus"}
"""Field of a claim that a value decreases by, per name."""
CLAIM_S: Final = 86_400.0
"""Seconds after which a run that was sent to a site no longer counts."""


class SiteValue(msgspec.Struct, frozen=True, kw_only=True):
    """Value of a site: a number or a text, when it became known, and from where (``set``, ``probe``, ``profile``)."""

    value: float | str
    at: float | None
    by: Literal["profile", "set", "probe"]


class SiteClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Run that was sent to a site, which its state may not count yet."""

    run: str
    at: float
    nodes: int = 1
    cpus: int = 1


class SiteState(msgspec.Struct, frozen=True, kw_only=True):
    """Stored state of a site."""

    values: Mapping[str, SiteValue] = msgspec.field(default_factory=dict)
    claims: tuple[SiteClaim, ...] = ()

    def counted_claims(self, now: float) -> tuple[SiteClaim, ...]:
        """Return the runs that still count."""
        return tuple(claim for claim in self.claims if claim.at > now - CLAIM_S)

    def counted_values(self, now: float) -> dict[str, SiteValue]:
        """Return the values, less what was sent there after they became known."""
        claims = self.counted_claims(now)
        found = dict(self.values)
        for name, field in DECREASING.items():
            value = found.get(name)
            if value is not None and not isinstance(value.value, str):
                since = sum(getattr(claim, field) for claim in claims if claim.at >= (value.at or 0))
                found[name] = msgspec.structs.replace(value, value=max(0.0, value.value - since))
        return found

    def newer(self, values: Mapping[str, SiteValue]) -> SiteState:
        """Return the state with these values where they are newer."""
        merged = dict(self.values)
        for name, value in values.items():
            known = merged.get(name)
            if known is None or (known.at or 0) <= (value.at or 0):
                merged[name] = value
        return msgspec.structs.replace(self, values=merged)
