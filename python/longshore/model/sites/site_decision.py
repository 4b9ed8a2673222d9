"""Why a run is at its site (``site-choice.json``): candidates, what they lacked, what was known, and each step."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from longshore.model.sites.site_state import SiteValue


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
