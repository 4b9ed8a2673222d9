"""Documents of ``report``: runs with their counts, summaries and jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, starmap
from operator import attrgetter
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from longshore.model.report import PAYLOAD_CODES, Badput, Damage, ExitCodes, Failure, JobReport, RunReport, RunSummary
from longshore.model.states import Cause, JobState
from longshore.model.tasks import collection_paused
from longshore.model.wording import format_exact_timestamp, format_timestamp
from longshore.reports.documents.document import (
    Count,
    DatedDocument,
    DocumentEntry,
    Ordinal,
    Seconds,
    Time,
    escape_unsafe,
    to_json,
    to_line,
)
from longshore.reports.documents.event import StagedEntry, staged_entry
from longshore.reports.documents.run import CountsEntry, counts_entry
from longshore.reports.job_reports import JobReports

_CHUNK: Final = 1000
"""Jobs encoded together."""
_encode_lines: Final = msgspec.json.Encoder().encode_lines


class JobEntry(DocumentEntry, frozen=True):
    """One job of a run."""

    name: str
    """Name of the job, unique in its run."""
    label: str
    """Label of the job."""
    state: JobState
    """State of the job."""
    cause: Cause | None
    """Why the newest attempt failed, or why the job waits; null if neither is so, or it is not known."""
    reason: str | None
    """The cause in words."""
    attempts: Count
    """Number of attempts so far."""
    exit_code: int | None
    """Exit code of the newest attempt; null if it has not ended, a signal killed it, or it is not known."""
    signal: Ordinal | None
    """Number of the signal that killed the newest attempt."""
    host: str | None
    """Host of the newest attempt."""
    started_at: Time | None
    """Start of the newest attempt."""
    finished_at: Time | None
    """End of the newest attempt."""
    run_s: Seconds | None
    """Wall time of the newest attempt, in seconds, measured on one clock."""
    cpu_s: Seconds | None
    """Processor time of the newest attempt, user and system, in seconds."""
    peak_memory_b: Count | None
    """Largest resident memory of the newest attempt, in bytes."""
    log: str | None
    """Path of the newest attempt's log; a relative one starts at the `path` of the run."""
    not_retried: str | None
    """Why a failed job was not tried again; null for other jobs, and if not known."""


class RangeEntry(DocumentEntry, frozen=True):
    """A range of numbers."""

    low: Seconds
    """The least."""
    high: Seconds
    """The most."""


class RunningEntry(DocumentEntry, frozen=True):
    """A running job."""

    name: str
    """Name of the job."""
    label: str
    """Label of the job."""
    host: str | None
    """Host of the job; null if not known."""
    started_at: Time | None
    """Start of the job; null if not known."""


class ExampleEntry(DocumentEntry, frozen=True):
    """A failed job."""

    job: str
    """Name of the job."""
    host: str | None
    """Host of its newest attempt; null if not known."""
    attempt: Count
    """Number of that attempt; 0 if not known."""
    reason: str | None
    """The cause in words."""
    log: str | None
    """Path of that attempt's log, for an archived run the archive and then the path in the run; null if none."""
    tail: Sequence[str]
    """The last lines of that log."""
    by_hand: str | None
    """Command that runs the job again by hand; null if there is none."""
    not_retried: str | None
    """Why the job was not tried again; null if not known."""


class FailureEntry(DocumentEntry, frozen=True):
    """Jobs that failed alike."""

    label: str
    """Label of the jobs."""
    cause: Cause | None
    """Why their newest attempts failed; null if not known."""
    exit_code: int | None
    """Exit code of these attempts; null if a signal killed them, or it is not known."""
    signal: Ordinal | None
    """Number of the signal that killed them."""
    message: str
    """The last line of their logs that tells of an error, with times, identifiers, paths and numbers replaced; empty if
    there is none."""
    count: Ordinal
    """Number of jobs known to belong to the group."""
    unread: Count
    """Number of further jobs of this label, cause, exit code and signal whose logs were not read because there are too
    many; every group of these has the same number."""
    example: ExampleEntry
    """One of the jobs."""


class SpentEntry(DocumentEntry, frozen=True):
    """Attempts that failed for one cause."""

    cause: Cause
    """The cause."""
    attempts: Count
    """Number of attempts."""
    seconds: Seconds
    """Sum of their wall times."""
    exit_codes: Mapping[str, Count]
    """Number of those that ended with an exit code, per code."""
    signals: Mapping[str, Count]
    """Number of those that a signal ended, per signal."""


class ExitCodesEntry(DocumentEntry, frozen=True):
    """How the failed and held jobs of a label ended."""

    payload: Mapping[str, Count]
    """Number of jobs per exit code 1 or 2, which BPS takes for errors of the payload."""
    infrastructure: Mapping[str, Count]
    """Number of jobs per other exit code, signal, or number of the reason for which the workload manager holds them."""
    unknown: Count
    """Number of failed jobs for which neither is known."""


class LastFailureEntry(DocumentEntry, frozen=True):
    """A job that failed, by its newest attempt."""

    name: str
    """Name of the job."""
    label: str
    """Label of the job."""
    cause: Cause | None
    """Why it failed; null if not known."""
    exit_code: int | None
    """Exit code; null if a signal killed it, or it is not known."""
    signal: Ordinal | None
    """Number of the signal that killed it."""
    reason: str | None
    """The cause in words."""
    ended_at: Time | None
    """End of the attempt; null if not known."""
    attempt: Count
    """Number of the attempt; 0 if not known."""
    message: str
    """The last line of its log that tells of an error; empty if there is none."""


class RetriesEntry(DocumentEntry, frozen=True):
    """Jobs whose newest attempt to end failed, and that are retried."""

    jobs: Count
    """Number of these jobs."""
    newest: Sequence[LastFailureEntry]
    """Those whose attempts failed last, the newest first."""


class RemovedEntry(DocumentEntry, frozen=True):
    """A job that a person removed from the workload manager."""

    name: str
    """Name of the job."""
    label: str
    """Label of the job."""
    reason: str
    """What the workload manager says of the removal."""


class RemovalsEntry(DocumentEntry, frozen=True):
    """Jobs that a person removed from the workload manager."""

    jobs: Count
    """Number of these jobs."""
    newest: Sequence[RemovedEntry]
    """Those that were removed last, the newest first."""


class LabelSummaryEntry(DocumentEntry, frozen=True):
    """Run times, memory and transfers of the jobs of a label."""

    median_s: Seconds | None
    """Median of the wall times of successful attempts; null before the first of them ended."""
    p95_s: Seconds | None
    """Wall time that 95 of 100 successful attempts did not exceed."""
    peak_memory_b: Count | None
    """Largest resident memory of an attempt, in bytes; null if not known."""
    requested_memory_b: Count | None
    """Largest memory that was requested, in bytes; null if none was."""
    staged: StagedEntry | None
    """Sum of the transfers of all attempts; null if none was staged."""


class RunEntry(DocumentEntry, frozen=True):
    """One run."""

    id: str
    """Id of the run as users give it: Longshore's own, or the workload manager's."""
    name: str
    """Name of the run."""
    path: str
    """Path of the run directory."""
    service: str
    """Name of the service that runs it, such as `local`."""
    state: JobState
    """State of the run."""
    expected: Count
    """Number of jobs of the run, the final one included."""
    counts: CountsEntry
    """Number of jobs in each state. They add up to `expected`, or `state` is UNKNOWN and `notes` says why."""
    labels: Mapping[str, CountsEntry]
    """The same per label, in the order of the pipeline."""
    operator: str
    """Operator of the run; empty if none is named."""
    project: str
    """Project; empty if none is named."""
    campaign: str
    """Campaign; empty if none is named."""
    payload: str
    """Name of the payload; empty if it has none."""
    site: str
    """Compute site; empty if none is named."""
    user: str
    """Account that submitted the run; empty if not known."""
    submitted_at: Time | None
    """Time of submission; null if not known."""
    started_at: Time | None
    """First start of a job; null before it."""
    finished_at: Time | None
    """End of the run; null before it."""
    wall_s: Seconds | None
    """Seconds from `started_at` to `finished_at`, less those between an end and a restart; null while either is."""
    percent_succeeded: Annotated[int, Meta(ge=0, le=100)] | None
    """Jobs that succeeded, in whole percent rounded down; null for a run without jobs."""
    paused: bool
    """Whether no more jobs start until the run is unpaused."""
    notes: Sequence[str]
    """What a reader must know, a sentence each."""
    damage: Sequence[Damage]
    """Files and lines of the run directory that are not as they were written; empty if it is intact."""
    global_id: str
    """Id that no other run has, not even one of another user or machine."""
    specifics: Sequence[str]
    """Details of the service about the run, a line each."""
    elapsed_s: Seconds | UnsetType | None = UNSET
    """Seconds from the first start until the end, or until now; null if not known. This and all that follows is present
    only for a run that was named."""
    left_s: RangeEntry | UnsetType | None = UNSET
    """Seconds that the run is likely to need from now on; null if too little is known, or with hopeless_jobs."""
    hopeless_jobs: Count | UnsetType = UNSET
    """Jobs that the workload manager can never start as they are; while there are any, the run has no end."""
    longest_running: Sequence[RunningEntry] | UnsetType = UNSET
    """The jobs that run longest, the longest first."""
    waits: Sequence[str] | UnsetType = UNSET
    """Reasons why jobs or the run wait, a sentence each."""
    digest: Sequence[FailureEntry] | UnsetType = UNSET
    """Jobs that failed alike, the largest group first, and that of the final job last."""
    badput: Sequence[SpentEntry] | UnsetType = UNSET
    """Failed attempts per cause, those of jobs that succeeded in the end among them."""
    exit_codes: Mapping[str, ExitCodesEntry] | UnsetType = UNSET
    """How failed jobs ended, per label."""
    last_failures: Sequence[LastFailureEntry] | UnsetType = UNSET
    """The jobs that failed last, the newest first."""
    retries: RetriesEntry | UnsetType = UNSET
    """Jobs that are retried after a failed attempt."""
    removals: RemovalsEntry | UnsetType = UNSET
    """Jobs that a person removed from the workload manager; they are DELETED."""
    label_summaries: Mapping[str, LabelSummaryEntry] | UnsetType = UNSET
    """Run times and memory, per label."""
    jobs: Sequence[JobEntry] | UnsetType = UNSET
    """All jobs; only with details."""


class ReportDocument(DatedDocument, frozen=True, kw_only=True):
    """State of one or more runs: `longshore report --json`."""

    kind: Literal["report"] = "report"
    runs: Sequence[RunEntry]
    """The runs."""
    notes: Sequence[str]
    """What a reader must know of runs that are not listed, or cannot be, a sentence each."""


def report_document(
    reports: Sequence[RunReport], *, as_of: float, details: bool, notes: Sequence[str] = ()
) -> ReportDocument:
    """Return runs as ``report --json`` prints them, with `details` also their jobs and summaries.

    `as_of` is in seconds since the epoch; `notes` are about missing runs.
    """
    runs = [_run_entry(report, details=details) for report in reports]
    return ReportDocument(runs=runs, notes=notes, as_of=format_timestamp(as_of, exact=True))


def report_pieces(report: RunReport, *, as_of: float) -> Iterator[str]:
    """Yield the text of a report with all jobs, a line each, in chunks: a million jobs need much memory."""
    document = report_document([msgspec.structs.replace(report, jobs=())], as_of=as_of, details=True)
    # No string contains this: quotation marks in strings are escaped.
    before, _, behind = to_json(document).rpartition('"jobs": []')
    yield f'{before}"jobs": ['
    jobs = report.jobs or ()
    entries = (
        starmap(JobEntry, jobs.values(format_exact_timestamp))
        if isinstance(jobs, JobReports)
        else map(_job_entry, jobs)
    )
    first = True
    while True:
        # Looking for garbage among the records of a hundred thousand jobs takes longer than to make them.
        with collection_paused():
            piece = list(islice(entries, _CHUNK))
            lines = _job_lines(piece) if piece else ""
        if not lines:
            break
        yield f"{'' if first else ','}\n        {lines}"
        first = False
    yield f"\n      ]{behind}\n"


def _job_lines(entries: Sequence[JobEntry]) -> str:
    """Encode entries, a line each; a thousand at once take a third of the time."""
    try:
        lines = _encode_lines(entries)
    except UnicodeEncodeError:
        return ",\n        ".join(map(to_line, entries))
    # No string contains a line feed: it is escaped.
    return escape_unsafe(lines.rstrip().replace(b"\n", b",\n        ").decode())


def _run_entry(report: RunReport, *, details: bool) -> RunEntry:
    return RunEntry.from_record(
        report,
        counts=counts_entry(report.counts),
        labels={label: counts_entry(counts) for label, counts in report.labels.items()},
        **(_summary_members(report.summary) if details and report.summary is not None else {}),
        jobs=list(map(_job_entry, report.jobs)) if details and report.jobs is not None else UNSET,
    )


_job_values: Final = attrgetter(*JobEntry.__struct_fields__)
_STARTED, _FINISHED = map(JobEntry.__struct_fields__.index, ("started_at", "finished_at"))


def _job_entry(report: JobReport) -> JobEntry:
    """Return a job for a document, much faster than `from_record`: a run has a hundred thousand."""
    values = list(_job_values(report))
    values[_STARTED] = format_exact_timestamp(values[_STARTED])
    values[_FINISHED] = format_exact_timestamp(values[_FINISHED])
    return JobEntry(*values)


def _summary_members(summary: RunSummary) -> dict[str, object]:
    left = summary.left_s
    return {
        "elapsed_s": summary.elapsed_s,
        "left_s": RangeEntry(*left) if left else None,
        "hopeless_jobs": summary.hopeless_jobs,
        "longest_running": list(map(RunningEntry.from_record, summary.running)),
        "waits": summary.waits,
        "digest": list(map(_failure_entry, summary.failures)),
        "badput": [_spent_entry(cause, spent) for cause, spent in summary.badput.items()],
        "exit_codes": {label: _exit_codes_entry(codes) for label, codes in summary.exit_codes.items()},
        "last_failures": list(map(LastFailureEntry.from_record, summary.last_failures)),
        "retries": RetriesEntry(summary.retries.jobs, list(map(LastFailureEntry.from_record, summary.retries.newest))),
        "removals": RemovalsEntry(summary.removals.jobs, list(map(RemovedEntry.from_record, summary.removals.newest))),
        "label_summaries": {
            label: LabelSummaryEntry.from_record(each, staged=staged_entry(each.staged))
            for label, each in summary.labels.items()
        },
    }


def _spent_entry(cause: Cause, spent: Badput) -> SpentEntry:
    codes = {str(code): number for code, number in spent.exit_codes.items()}
    signals = {str(signal): number for signal, number in spent.signals.items()}
    return SpentEntry.from_record(spent, cause=cause, exit_codes=codes, signals=signals)


def _failure_entry(failure: Failure) -> FailureEntry:
    return FailureEntry.from_record(failure, example=ExampleEntry.from_record(failure))


def _exit_codes_entry(codes: ExitCodes) -> ExitCodesEntry:
    payload, infrastructure = (
        {str(code): number for code, number in sorted(codes.codes.items()) if (code in PAYLOAD_CODES) == of_payload}
        for of_payload in (True, False)
    )
    return ExitCodesEntry(payload, infrastructure, codes.unknown)
