"""Documents of ``stats`` and ``suggest-resources``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from longshore.model.states import Cause
from longshore.model.wording import format_timestamp
from longshore.model.workflow import Request
from longshore.reports.documents.document import Count, DamageEntry, DatedDocument, DocumentEntry, Ordinal, Seconds

if TYPE_CHECKING:
    from longshore.model.measurements import Distribution
    from longshore.reports.statistics import AttemptStatistics, BadputSum, RunStatistics
    from longshore.reports.suggested_requests import RequestAdvice


class DistributionEntry(DocumentEntry, frozen=True):
    """Distribution of the known values of a measure; all but the counts are null where no value is known."""

    known: Count
    """Number of attempts with a value."""
    unknown: Count
    """Number of attempts without one."""
    min: float | None
    """Minimum."""
    p50: float | None
    """Median; a value that was measured."""
    p95: float | None
    """95th percentile; a value that was measured."""
    max: float | None
    """Maximum."""
    total: float | None
    """Sum."""


class BadputEntry(DocumentEntry, frozen=True):
    """Badput: attempts that did not succeed, and what they took."""

    attempts: Count
    """Their number."""
    run_s: Seconds | None
    """Seconds that they ran; null if these are unknown of all that ran."""
    core_s: Seconds | None
    """Their run times, each times the requested processors; null if these are unknown of all that ran."""
    unknown: Count
    """Those of them that started, and whose run time is unknown."""


class RequestedEntry(DocumentEntry, frozen=True):
    """What the first attempts of a label request."""

    cpus: Ordinal
    """Processors."""
    memory_b: Count | None
    """Bytes of memory; null if none is requested."""
    walltime_s: Seconds | None
    """Seconds of run time; null if none are requested."""


class StatisticsEntry(DocumentEntry, frozen=True):
    """Statistics of a group of attempts."""

    jobs: Count
    """Jobs; for a host, those with an attempt there."""
    attempts: Count
    """Attempts."""
    succeeded: Count
    """Attempts that succeeded."""
    unfinished: Count
    """Attempts whose end is not known."""
    retries: Count
    """Attempts that are not the first of their job."""
    badput: BadputEntry
    """Attempts that did not succeed."""
    badput_causes: Mapping[Cause, BadputEntry]
    """The same per cause."""
    core_s: Seconds | None
    """Run time of all attempts that ended, each times the requested processors; null if it is unknown of all that
    ran."""
    unknown_run: Count
    """Attempts that ran and ended, and whose run time is unknown: `core_s` lacks them."""
    cpu_s: Seconds | None
    """Known processor time of all attempts that ended; null if some ran and it is unknown of all."""
    wait_s: DistributionEntry
    """Seconds in the queue, of attempts that started."""
    run_s: DistributionEntry
    """Run times of attempts that succeeded."""
    cpu_efficiency: DistributionEntry
    """Processor time of attempts that succeeded, as a share of run time times requested processors."""
    peak_memory_b: DistributionEntry
    """Peak memory of attempts that succeeded, in bytes."""
    memory_share: DistributionEntry
    """The same as a share of the requested memory."""


class LabelStatisticsEntry(DocumentEntry, frozen=True):
    """Statistics of a label."""

    label: str
    """The label."""
    requested: RequestedEntry | None
    """What its first attempts request."""
    statistics: StatisticsEntry
    """Its statistics."""


class HostStatisticsEntry(DocumentEntry, frozen=True):
    """Statistics of a host."""

    host: str | None
    """The host; null for attempts that started on an unknown one."""
    statistics: StatisticsEntry
    """Statistics of the attempts that started there."""


class RunStatisticsEntry(DocumentEntry, frozen=True):
    """Statistics of a run, or of some of its labels."""

    id: str
    """Id of the run."""
    name: str
    """Name of the run."""
    service: str
    """Its service."""
    path: str
    """Path of its directory."""
    kept: Count
    """Jobs whose results were kept from another run: those attempts are not counted."""
    total: StatisticsEntry
    """Statistics of all these attempts."""
    labels: Sequence[LabelStatisticsEntry]
    """Statistics per label, in the order of the workflow."""
    hosts: Sequence[HostStatisticsEntry]
    """Statistics per host, by name."""
    damage: Sequence[DamageEntry]
    """Damage of the journal: attempts behind it are not counted."""


class StatsDocument(DatedDocument, frozen=True, kw_only=True):
    """Statistics of runs: `longshore stats --json`."""

    kind: Literal["stats"] = "stats"
    selected_labels: Sequence[str]
    """Labels to which the statistics are restricted; empty for all."""
    runs: Sequence[RunStatisticsEntry]
    """The runs."""


def stats_document(runs: Iterable[RunStatistics], labels: Sequence[str], *, as_of: float) -> StatsDocument:
    """Return statistics of runs as ``stats --json`` prints them."""
    entries = [
        RunStatisticsEntry.from_record(
            run.opened.card,
            path=str(run.opened.directory),
            kept=run.kept,
            total=_statistics(run.grouped.total),
            labels=[
                LabelStatisticsEntry(label, _requested(run.requests.get(label)), _statistics(statistics))
                for label, statistics in run.grouped.labels.items()
            ],
            hosts=[HostStatisticsEntry(host, _statistics(each)) for host, each in run.grouped.hosts.items()],
            damage=[DamageEntry.from_record(damage) for damage in run.opened.damages],
        )
        for run in runs
    ]
    return StatsDocument(selected_labels=labels, runs=entries, as_of=format_timestamp(as_of, exact=True))


def _requested(request: Request | None) -> RequestedEntry | None:
    return None if request is None else RequestedEntry.from_record(request)


def _statistics(statistics: AttemptStatistics) -> StatisticsEntry:
    return StatisticsEntry.from_record(
        statistics,
        core_s=statistics.known_core_s,
        cpu_s=statistics.known_cpu_s,
        badput=_badput_entry(statistics.badput),
        badput_causes={cause: _badput_entry(each) for cause, each in statistics.badput_causes.items()},
        **{
            name: _distribution(getattr(statistics, name))
            for name in ("wait_s", "run_s", "cpu_efficiency", "peak_memory_b", "memory_share")
        },
    )


def _badput_entry(badput: BadputSum) -> BadputEntry:
    return BadputEntry.from_record(badput, run_s=badput.known_run_s, core_s=badput.known_core_s)


def _distribution(found: Distribution) -> DistributionEntry:
    return DistributionEntry.from_record(found, min=found.least, max=found.most)


class SuggestedValueEntry(DocumentEntry, frozen=True):
    """A suggested value."""

    key: Literal["requestMemory", "requestCpus", "requestWalltime"]
    """Key of the configuration."""
    requested: float | None
    """Request now: bytes, processors or seconds; null if there is none."""
    suggested: float
    """Suggested request, in the same unit."""
    change: bool
    """Whether it differs from the request by enough to be in the YAML."""
    basis: Literal["p95", "max", "bound"]
    """What it rests on: 95th percentile or maximum of attempts that succeeded, or a lower bound from jobs that never
    succeeded."""
    measured: float
    """That percentile, maximum or bound."""
    samples: Count
    """Number of measured values."""
    exceeding: Count
    """Those of them above the suggestion: jobs that would be retried."""
    bounds: Count
    """Jobs that ran out of it in all their attempts."""
    origin: str
    """Where the figure comes from, as a sentence."""
    written_at: str | None
    """File, line and column where the configuration sets the value itself, which wins over an included file."""


class LabelSuggestionEntry(DocumentEntry, frozen=True):
    """Suggestions for a label."""

    label: str
    """The label."""
    section: str
    """Section of the configuration: pipetask, cluster, or empty for the root."""
    attempts: Count
    """Attempts that ended."""
    successes: Count
    """Attempts that succeeded."""
    guess: bool
    """Whether too few attempts succeeded to rely on."""
    values: Sequence[SuggestedValueEntry]
    """The values."""
    why_none: str
    """Why there are none; empty if there are some."""
    avoided_retries: Count
    """Failed attempts that the runs would not have had."""
    expected_retries: Count
    """Jobs that would have been retried."""
    saved_core_s: float
    """Core seconds that the runs would not have taken; negative if they would have taken more."""
    saved_memory_b_s: float
    """Requested memory times run time, in byte seconds, likewise."""


class SuggestResourcesDocument(DatedDocument, frozen=True, kw_only=True):
    """Suggested requests: `longshore suggest-resources --json`."""

    kind: Literal["suggest_resources"] = "suggest_resources"
    runs: Sequence[str]
    """Ids of the runs whose attempts count."""
    margin: float
    """Factor on what was measured."""
    labels: Sequence[LabelSuggestionEntry]
    """Suggestions per label."""
    saved_core_s: float
    """Core seconds that the runs would not have taken."""
    saved_memory_b_s: float
    """Requested memory times run time, in byte seconds, likewise."""
    avoided_retries: Count
    """Failed attempts that the runs would not have had."""
    expected_retries: Count
    """Jobs that would have been retried."""
    yaml: str
    """The YAML that applies the suggestions."""
    output: str | None
    """Path of the file with that YAML; null if none was written."""


def suggest_resources_document(
    advice: RequestAdvice, yaml: str, *, output: str | None, as_of: float
) -> SuggestResourcesDocument:
    """Return suggested requests as ``suggest-resources --json`` prints them."""
    from longshore.reports.suggested_requests import describe_value

    labels = [
        LabelSuggestionEntry.from_record(
            each,
            section=advice.sections[each.label],
            guess=each.is_guess,
            values=[
                SuggestedValueEntry.from_record(
                    value,
                    change=value.is_change,
                    basis=value.basis.value,
                    origin=describe_value(value),
                    written_at=str(place) if (place := advice.written.get((each.label, value.key))) else None,
                )
                for value in each.values
            ],
            saved_core_s=each.core_s,
            saved_memory_b_s=each.memory_b_s,
        )
        for each in advice.suggestions
    ]
    return SuggestResourcesDocument.from_record(
        advice,
        runs=[opened.card.id for opened in advice.runs],
        labels=labels,
        saved_core_s=advice.core_s,
        saved_memory_b_s=advice.memory_b_s,
        yaml=yaml,
        output=output,
        as_of=as_of,
    )
