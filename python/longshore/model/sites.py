"""What is known of a site between runs, and why a run is at its site; apart, because looks at a run read only these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

# State of a site between runs: values that were set or asked for, and the runs that were sent there since.


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


# Why a run is at its site (``site-choice.json``): candidates, what they lacked, what was known, and each step.


class UnmetRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Requirement that a site does not meet."""

    what: str
    asked: str
    nearest: str


class CandidateRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Candidate of a choice: whether it matches, what it lacks or why it was left out, and its state."""

    name: str
    matches: bool
    unmet: tuple[UnmetRecord, ...] = ()
    left_out: str = ""
    """Why it was not judged or was taken back, such as an error in its profile."""
    state: Mapping[str, SiteValue] = msgspec.field(default_factory=dict)


class SiteDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Choice of the site of a run.

    Attributes
    ----------
    site
        The chosen site; empty if none was.
    at
        When, in seconds since the epoch.
    wished
        What ``computeSite`` has.
    algorithm, seed
        Algorithm of the selection, and the seed of its chance.
    candidates
        All candidates, in order.
    steps, warnings
        What each step of the selection did, and what may not be meant.
    fallback
        Why the run falls back to this machine; empty if it does not.
    """

    site: str
    at: float
    wished: tuple[str, ...] = ()
    algorithm: str = ""
    seed: int = 0
    candidates: tuple[CandidateRecord, ...] = ()
    steps: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    fallback: str = ""

    def summary(self) -> str:
        """Return the decision as one line."""
        if self.fallback:
            return f"the run falls back to '{self.site}': {self.fallback}"
        matching = sum(each.matches and not each.left_out for each in self.candidates)
        known = next((each for each in self.candidates if each.name == self.site), None)
        values = known.state if known else {}
        shown = [
            f"{name} {value.value if isinstance(value.value, str) else format(value.value, '.6g')}"
            for name, value in values.items()
        ]
        ages_s = [self.at - value.at for value in values.values() if value.at is not None]
        oldest = f", at most {max(0.0, *ages_s, 0.0):.0f} s old" if ages_s else ""
        state = f"; {', '.join(shown)}{oldest}" if shown else ""
        among = f"{matching} matching of {len(self.candidates)} candidates"
        return f"'{self.site}' was chosen by '{self.algorithm}' of {among}{state}"
