"""Documents about the choice of a site: ``site match`` and ``site set-state``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from longshore.app.documents.document import Count, DatedDocument, DocumentEntry, Seconds
from longshore.model.run.moment import format_timestamp
from longshore.model.sites.site_decision import CandidateRecord, SiteDecision
from longshore.model.sites.site_state import SiteState, SiteValue


class UnmetEntry(DocumentEntry, frozen=True):
    """A requirement that a site does not meet."""

    what: str
    """The requirement, as a phrase."""
    asked: str
    """What is asked."""
    nearest: str
    """The nearest that the site has."""


class StateValueEntry(DocumentEntry, frozen=True):
    """A value of a site."""

    value: float | str
    """The value, less what was sent there since."""
    age_s: Seconds | None
    """Its age in seconds; null for a value of the profile."""
    by: Literal["profile", "set", "probe"]
    """Where it is from: the profile, `site set-state`, or an answer of the workload manager."""


class CandidateEntry(DocumentEntry, frozen=True):
    """A candidate."""

    name: str
    """Name of the site."""
    matches: bool
    """Whether it has all that the run needs."""
    left_out: str
    """Why it was left out, such as an error in its profile; empty if it was not."""
    unmet: Sequence[UnmetEntry]
    """What it lacks."""
    state: Mapping[str, StateValueEntry]
    """What is known of it, by name; empty if it does not match."""


class SiteMatchDocument(DatedDocument, frozen=True, kw_only=True):
    """Which sites match a configuration, and which one is selected: `longshore site match FILE --json`."""

    kind: Literal["site_match"] = "site_match"
    site: str | None
    """The selected site; null if none passes."""
    wished: Sequence[str]
    """Names and patterns under `computeSite`."""
    algorithm: str
    """Algorithm of the selection."""
    seed: Count
    """Seed of its chance."""
    candidates: Sequence[CandidateEntry]
    """All candidates, in order."""
    steps: Sequence[str]
    """What each step of the selection did."""
    warnings: Sequence[str]
    """What may not be meant."""
    fallback: str
    """Why the run goes to this machine; empty if it does not fall back."""


class SiteStateDocument(DatedDocument, frozen=True, kw_only=True):
    """State of a site: `longshore site set-state NAME --json`."""

    kind: Literal["site_state"] = "site_state"
    name: str
    """Name of the site."""
    values: Mapping[str, StateValueEntry]
    """What is stored of it, by name."""
    runs: Count
    """Number of runs that were sent there and still count."""


def site_match_document(decision: SiteDecision) -> SiteMatchDocument:
    """Return a decision as ``site match --json`` prints it."""
    return SiteMatchDocument.from_record(
        decision,
        site=decision.site or None,
        candidates=[_candidate_entry(each, decision.at) for each in decision.candidates],
        as_of=decision.at,
    )


def site_state_document(name: str, state: SiteState, *, as_of: float) -> SiteStateDocument:
    """Return the state of a site as ``site set-state --json`` prints it."""
    return SiteStateDocument(
        name=name,
        values=_values(state.counted_values(as_of), as_of),
        runs=len(state.counted_claims(as_of)),
        as_of=format_timestamp(as_of, exact=True),
    )


def _candidate_entry(candidate: CandidateRecord, at: float) -> CandidateEntry:
    unmet = [UnmetEntry.from_record(each) for each in candidate.unmet]
    return CandidateEntry.from_record(candidate, unmet=unmet, state=_values(candidate.state, at))


def _values(values: Mapping[str, SiteValue], at: float) -> dict[str, StateValueEntry]:
    return {
        name: StateValueEntry(
            value=each.value,
            age_s=None if each.at is None else max(0.0, at - each.at),
            by=each.by,
        )
        for name, each in values.items()
    }
