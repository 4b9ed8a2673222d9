"""Documents about sites and services: lists, profiles, checks, the options of a service, and the choice of a site."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from longshore.model.sites import CandidateRecord, SiteDecision, SiteState, SiteValue
from longshore.model.wording import format_timestamp
from longshore.reports.documents.document import (
    Count,
    DatedDocument,
    DocumentEntry,
    JsonValue,
    PlaceEntry,
    Seconds,
    place_entry,
)

if TYPE_CHECKING:
    from longshore.plan.site_check import SiteCheck
    from longshore.sites.new_profile import NewProfile
    from longshore.sites.site import KnownSite, SiteDescription


PlaceKind: TypeAlias = Literal["site path", "user", "system", "installed", "package", "configuration"]


class SiteEntry(DocumentEntry, frozen=True):
    """A site."""

    name: str
    """Name of the site."""
    service: str | None
    """Short name of its service; null if it names none."""
    title: str
    """Title of the site."""
    place: PlaceKind
    """Kind of the place that describes it."""
    origin: PlaceEntry
    """Place that describes it."""
    disabled: str | None
    """Reason for which it is disabled; null if it is not."""
    error: str | None
    """What is wrong with it; null if nothing was found."""


class SitesDocument(DatedDocument, frozen=True, kw_only=True):
    """All sites: `longshore site list --json`."""

    kind: Literal["sites"] = "sites"
    sites: Sequence[SiteEntry]
    """The sites, in the order of their names."""


class SiteProfileDocument(DatedDocument, frozen=True, kw_only=True):
    """A site with all it inherits: `longshore site show NAME --json`."""

    kind: Literal["site_profile"] = "site_profile"
    name: str
    """Name of the site."""
    service: str | None
    """Short name of its service; null if it names none."""
    title: str
    """Title of the site."""
    place: PlaceKind
    """Kind of the place that describes it."""
    origin: PlaceEntry
    """Place that describes it."""
    disabled: str | None
    """Reason for which it is disabled; null if it is not."""
    error: str | None
    """What is wrong with it; null if nothing was found."""
    chain: Sequence[str]
    """Names of the sites it consists of, weakest first."""
    values: Mapping[str, JsonValue]
    """All its values; see site.json."""
    origins: Mapping[str, PlaceEntry]
    """Place of each value that is no map. The keys that lead to it are joined by dots."""


class PingDocument(DatedDocument, frozen=True, kw_only=True):
    """Whether a service can be used, and what it offers: `longshore ping --json`."""

    kind: Literal["ping"] = "ping"
    service: str
    """Name of the service."""
    ok: bool
    """Whether it can be used now."""
    message: str
    """The answer in one line; where it cannot be used, why."""
    notes: Sequence[str]
    """What is doubtful of the site, such as a partition that is closed now."""
    details: Mapping[str, str]
    """Facts about the service, in the order to show them."""
    capacity: Mapping[str, Count] | None
    """Largest amount of each resource that one job can have: `cpus` in pieces, `memory` and `disk` in bytes, others by
    name. A resource that is absent is not counted; null if the service cannot tell."""


class BackendOptionsDocument(DatedDocument, frozen=True, kw_only=True):
    """Options of a service: any command with `--backend-options=-h --json`."""

    kind: Literal["backend_options"] = "backend_options"
    text: str
    """The options, a line each, for people."""


class SiteProblemEntry(DocumentEntry, frozen=True):
    """Problem of a site."""

    severity: Literal["error", "note"]
    """A note does not make the check fail."""
    message: str
    """What is wrong."""
    hint: str
    """The mend; may be empty."""
    origin: PlaceEntry | None
    """Place of the value; null if it is in no file."""


class SiteCheckDocument(DatedDocument, frozen=True, kw_only=True):
    """Check of a site: `longshore site check NAME --json`."""

    kind: Literal["site_check"] = "site_check"
    name: str
    """Name of the site."""
    service: str
    """Name of its service."""
    ok: bool
    """Whether no error was found."""
    answer: str | None
    """What the workload manager answered in one line; null if it was not asked: the profile is wrong or empty."""
    problems: Sequence[SiteProblemEntry]
    """What is wrong, in the order of the checks."""


class NewProfileDocument(DatedDocument, frozen=True, kw_only=True):
    """Profile that was made: `longshore site init NAME --json`."""

    kind: Literal["site_init"] = "site_init"
    name: str
    """Name of the site."""
    service: str
    """Name of its service."""
    path: str | None
    """The file; null if only its text is wanted."""
    text: str
    """The profile in YAML."""


def site_check_document(check: SiteCheck, *, as_of: float) -> SiteCheckDocument:
    """Return the document of a check."""
    return SiteCheckDocument(
        as_of=format_timestamp(as_of, exact=True),
        name=check.name,
        service=check.service,
        ok=check.ok,
        answer=check.report.message if check.report else None,
        problems=[
            SiteProblemEntry(
                severity="error" if each.fatal else "note",
                message=each.message,
                hint=each.hint,
                origin=place_entry(each.origin) if each.origin else None,
            )
            for each in check.problems
        ],
    )


def new_profile_document(profile: NewProfile, *, as_of: float) -> NewProfileDocument:
    """Return the document of a new profile."""
    return NewProfileDocument(
        as_of=format_timestamp(as_of, exact=True),
        name=profile.name,
        service=profile.service,
        path=str(profile.path) if profile.path else None,
        text=profile.text,
    )


def sites_document(sites: Iterable[KnownSite], *, as_of: float) -> SitesDocument:
    """Return sites as ``site list --json`` prints them."""
    entries = [SiteEntry.from_record(site, origin=place_entry(site.origin)) for site in sites]
    return SitesDocument(sites=entries, as_of=format_timestamp(as_of, exact=True))


def site_profile_document(shown: SiteDescription, *, as_of: float) -> SiteProfileDocument:
    """Return a site as ``site show --json`` prints it."""
    return SiteProfileDocument.from_record(
        shown.entry,
        origin=place_entry(shown.entry.origin),
        chain=shown.chain,
        values=shown.values,
        origins={".".join(steps): place_entry(origin) for steps, (_, origin) in shown.origins.items()},
        as_of=as_of,
    )


def backend_options_document(text: str) -> BackendOptionsDocument:
    """Return the options of a service as ``--backend-options=-h --json`` prints them."""
    return BackendOptionsDocument(text=text, as_of=None)


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
