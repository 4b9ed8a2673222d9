"""Documents of commands about single jobs: ``show-job``, ``explain`` and ``logs``, and of ``draw``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from longshore.model.report import Damage, Drawing
from longshore.model.states import Cause, JobState
from longshore.model.wording import format_timestamp
from longshore.reports.documents.document import (
    Count,
    DatedDocument,
    DocumentEntry,
    JsonValue,
    Ordinal,
    Seconds,
    Time,
    to_json,
    to_line,
)
from longshore.reports.documents.event import (
    EventDocument,
    OutputEntry,
    RequestEntry,
    StagedEntry,
    event_document,
    output_entries,
    staged_entry,
)

if TYPE_CHECKING:
    from longshore.model.event import Attempt
    from longshore.reports.explanation import JobExplanation, RelatedJob
    from longshore.reports.logs import Log
    from longshore.reports.show_job import AskedResources, JobDetails


class LogEntry(DocumentEntry, frozen=True):
    """The log of one attempt."""

    job: str
    """Name of the job."""
    index: Count
    """Number of the job in the workflow, from 0."""
    label: str
    """Label of the job."""
    attempt: Ordinal
    """Number of the attempt."""
    path: str
    """Absolute path."""
    size_b: Count
    """Size in bytes."""
    lines: Sequence[str] | UnsetType = UNSET
    r"""With --tail or --grep: the lines asked for. Bytes that are no UTF-8 are written as \xff and the like."""


class LogsDocument(DatedDocument, frozen=True, kw_only=True):
    """Logs of jobs of a run: `longshore logs --json`."""

    kind: Literal["logs"] = "logs"
    run: str
    """Id of the run."""
    logs: Sequence[LogEntry]
    """A log per job, in the order of the workflow."""
    notes: Sequence[str]
    """Notes on logs that are not listed, a sentence each."""
    damage: Sequence[Damage]
    """Files and lines of the run directory that are not as they were written; empty if it is intact."""


class _JobDocument(DatedDocument, frozen=True, kw_only=True):
    run: str
    """Id of the run."""
    name: str
    """Name of the job."""
    index: Count
    """Number of the job in the workflow, from 0."""
    label: str
    """Label of the job."""
    damage: Sequence[Damage]
    """Files and lines of the run directory that are not as they were written; empty if it is intact."""


class FileEntry(DocumentEntry, frozen=True):
    """A file that a job reads or writes."""

    name: str
    """Name in the workflow."""
    path: str | None
    """Path of the file; a relative path starts at the run directory. Null if not known."""


class JobDocument(_JobDocument, frozen=True, kw_only=True):
    """What exactly an attempt of a job runs: `longshore show-job --json`."""

    kind: Literal["job"] = "job"
    attempt: Ordinal
    """Number of the attempt shown; 1 before the first."""
    attempts: Count
    """Number of attempts so far."""
    cause: Cause | None
    """Why the attempt failed; null for a success, and while it runs."""
    reason: str | None
    """The cause in words, or what was wrong with an output of a success."""
    command: str
    """The command as a line for a POSIX shell, without values that look like secrets."""
    launcher: str
    """Prefix of the command, such as that of a container, as text of a POSIX shell; empty without one."""
    setup: Sequence[str]
    """Lines of shell that run before it."""
    environment: Mapping[str, str | None]
    """Variables that the run sets; null where the value is hidden."""
    hidden: Sequence[str]
    """Names of variables whose values look like secrets."""
    request: RequestEntry
    """Resources that the attempt requests."""
    working_directory: str
    """Directory in which the command starts."""
    inputs: Sequence[FileEntry]
    """Files that it reads."""
    outputs: Sequence[FileEntry]
    """Files that it writes."""
    staged: StagedEntry | None
    """Transfers of these files; null before their end, and if the attempt was not staged."""
    tags: Mapping[str, str | float | bool | None]
    """Dimensions and other tags of the job."""
    tasks: Count
    """Number of tasks that it runs."""
    site: str | None
    """The site's section that supplied values."""
    cloud: str | None
    """The cloud's section that supplied values."""
    number_of_retries: Count
    """Attempts after the first."""
    retry_unless_exit: Sequence[int]
    """Exit codes that are not retried."""
    retry_budgets: Sequence[RetryBudgetEntry]
    """Retries after ends with a budget of their own, which do not count among `number_of_retries`."""
    attributes: Mapping[str, JsonValue]
    """Other requests to the workload manager."""
    parents: Sequence[str]
    """Names of the jobs it waits for."""
    children: Sequence[str]
    """Names of the jobs that wait for it."""
    log: str
    """Path of the attempt's log, which need not exist."""
    script: str
    """A POSIX shell script that runs the attempt by hand."""


class AttemptEntry(DocumentEntry, frozen=True):
    """One execution of a job; null is unknown, or not yet."""

    number: Ordinal
    """Number of the attempt, from 1."""
    wms_id: str | None
    """Id that the workload manager gave it."""
    host: str | None
    """Host of the attempt."""
    request: RequestEntry | None
    """Resources that it requested."""
    submitted_at: Time | None
    """Time of submission."""
    started_at: Time | None
    """Start, on the clock of its host."""
    ended_at: Time | None
    """End."""
    queue_s: Seconds | None
    """Seconds from submission to start, on the clock of the workload manager."""
    run_s: Seconds | None
    """Wall time in seconds."""
    cpu_s: Seconds | None
    """Processor time in seconds."""
    peak_memory_b: Count | None
    """Peak memory in bytes."""
    exit_code: int | None
    """Exit code."""
    signal: int | None
    """Signal that ended it."""
    cause: Cause | None
    """Why it failed; null for a success, and while it runs."""
    reason: str | None
    """The cause in words."""
    log: str | None
    """Path of its log, which need not exist."""
    outputs: Sequence[OutputEntry]
    """Declared outputs that it left missing, stale or empty."""
    staged: StagedEntry | None
    """Transfers of its files; null if it was not staged."""
    extra: Mapping[str, str]
    """Fields of the workload manager."""


class RelatedJobEntry(DocumentEntry, frozen=True):
    """Another job that explains the state of this one."""

    name: str
    """Name of the job."""
    state: JobState
    """State of the job."""
    attempt: AttemptEntry | None
    """Its newest attempt; null if there was none, or it does not matter."""


class RetryBudgetEntry(DocumentEntry, frozen=True):
    """Retries after one kind of end."""

    key: str
    """The key of the configuration that gives their number."""
    retries: Count
    """Their number."""
    used: Count
    """How many are spent; 0 in a document that does not tell of attempts."""


class GroupEntry(DocumentEntry, frozen=True):
    """A group of jobs that comes before this one."""

    group: str
    """Name of the group."""
    must_succeed: bool
    """Whether all its jobs must succeed; otherwise they must be over."""
    left: int
    """Number of its last jobs that are still to do so."""


class RoomEntry(DocumentEntry, frozen=True):
    """Resources of this machine."""

    capacity: Mapping[str, int]
    """Amount of each resource."""
    free: Mapping[str, int]
    """Amount that is free."""
    asked: Mapping[str, int]
    """Amount that this job requests."""
    active: Count
    """Number of jobs that have the rest."""
    fits: bool
    """Whether the job could start now."""


class ThrottleEntry(DocumentEntry, frozen=True):
    """A limit, set by a user, on jobs that are active at once."""

    label: str | None
    """Label it is about; null for the whole run."""
    max: Ordinal
    """Number of jobs that may be active."""
    active: Count
    """Number of jobs that were active at the last report of the engine."""


class LimitEntry(DocumentEntry, frozen=True):
    """A concurrency limit that a job names."""

    name: str
    """Name of the limit."""
    max: int
    """Amount that jobs may have at once."""
    taken: Mapping[str, int]
    """Amount that jobs have, by the id of their run."""


class AllocationEntry(DocumentEntry, frozen=True):
    """What a job, or one component of a heterogeneous job, asks of its workload manager; null where it asks nothing."""

    nodes: Ordinal | None
    """Least number of nodes; null for as many as the tasks need."""
    most_nodes: Ordinal | None
    """Most nodes, where that is another number."""
    tasks: Ordinal
    """Number of tasks."""
    cpus_per_task: Ordinal
    """Number of logical processors of each task."""
    least_cpus: Count
    """Least number of processors on each node; 0 for what the tasks need."""
    whole_nodes: bool
    """Whether the job has its nodes to itself, with all their processors."""
    threads_per_core: Ordinal | None
    """Number of processors of a core that the job uses, where it has whole cores."""
    memory_b: Count | None
    """Memory on each node in bytes; 9223372036854775807 for all memory of the node."""
    memory_per_cpu_b: Count | None
    """Memory for each processor in bytes, from which that on each node follows."""
    disk_b: Count | None
    """Disk on each node in bytes."""
    walltime_s: Seconds | None
    """Wall time in seconds."""
    resources: Mapping[str, Count]
    """Amount of each other resource on each node."""
    features: Sequence[Sequence[str]]
    """Sets of features of which nodes must have at least one each."""
    partitions: Sequence[str]
    """Partitions that the job names."""


class AskedEntry(DocumentEntry, frozen=True):
    """What a job asks of its workload manager, in the words of the workload manager's own map too."""

    service: str
    """Name of the service."""
    components: Sequence[AllocationEntry]
    """One, or one for each component of a heterogeneous job."""
    partition: str
    """Row of the site's `partitions` that the job gets; empty without one."""
    settings: Mapping[str, Any]
    """The job's part of the service's own map."""


class ExplainJobDocument(_JobDocument, frozen=True, kw_only=True):
    """Why a job is in its state: `longshore explain --json`."""

    kind: Literal["explain_job"] = "explain_job"
    state: JobState
    """State of the job."""
    reasons: Sequence[str]
    """The reasons, a sentence each, the most important first; for people."""
    parents: Count
    """Number of its parents."""
    waits_for: Sequence[RelatedJobEntry]
    """Parents that have not succeeded; for the final job, all jobs that are not over."""
    comes_after: Sequence[GroupEntry]
    """Groups of jobs that must come before it and keep it waiting."""
    causes: Sequence[RelatedJobEntry]
    """The jobs that keep it waiting in the end, or whose failure or cancellation pruned it."""
    request: RequestEntry
    """Resources that its newest attempt requested, or its next one will."""
    asked: AskedEntry | None
    """What that means to the workload manager; null where it has no words of its own."""
    room: RoomEntry | None
    """Resources for a READY job; null for others, and where a workload manager keeps count."""
    throttles: Sequence[ThrottleEntry]
    """Throttles that apply to the job."""
    limits: Sequence[LimitEntry]
    """Concurrency limits that a READY job names, and the runs that have them."""
    retries: Count
    """Attempts after the first."""
    retry_unless_exit: Sequence[int]
    """Exit codes that are not retried."""
    retry_budgets: Sequence[RetryBudgetEntry]
    """Retries after ends with a budget of their own, which do not count among `retries`."""
    not_before: Time | None
    """Earliest start of the next attempt."""
    note: str
    """Why the engine waits; empty if it does not."""
    paused: bool
    """Whether no more jobs of the run start until it is unpaused."""
    waits_at_manager: str | None
    """Why the workload manager does not start the job, in its own words."""
    attempts: Sequence[AttemptEntry]
    """All attempts, oldest first."""
    history: Sequence[EventDocument]
    """All events of the job, as `longshore events` prints them."""


def logs_pieces(
    run: str,
    logs: Iterable[Log],
    lines: Callable[[Log], Iterable[str]] | None,
    *,
    notes: Sequence[str],
    damage: Sequence[Damage] = (),
    as_of: float,
) -> Iterator[str]:
    """Yield the text of ``logs --json`` in chunks, because the logs need not fit into memory.

    `run` is the run's id; `lines` reads the requested lines of a log; `notes` are about missing logs. `damage` is
    that of the run. `as_of` is in seconds since the epoch.
    """
    document = LogsDocument(run=run, logs=(), notes=notes, damage=damage, as_of=format_timestamp(as_of, exact=True))
    # No string contains this: quotation marks in strings are escaped.
    before, _, behind = to_json(document).rpartition('"logs": []')
    yield f'{before}"logs": ['
    for number, log in enumerate(logs):
        entry = LogEntry.from_record(log, path=str(log.path))
        yield f"{',' if number else ''}\n    {to_line(entry).removesuffix('}')}"
        if lines is not None:
            yield ', "lines": ['
            for place, line in enumerate(lines(log)):
                yield f"{',' if place else ''}\n      {to_line(line)}"
            yield "\n    ]"
        yield "}"
    yield f"\n  ]{behind}\n"


def job_document(job: JobDetails, *, damage: Sequence[Damage] = (), as_of: float) -> JobDocument:
    """Return a job as ``show-job --json`` prints it; `damage` is that of its run."""
    return JobDocument.from_record(
        job,
        command=job.line,
        hidden=sorted(name for name, value in job.environment.items() if value is None),
        request=RequestEntry.from_record(job.request),
        inputs=list(map(FileEntry.from_record, job.inputs)),
        outputs=list(map(FileEntry.from_record, job.outputs)),
        staged=staged_entry(job.staged),
        retry_budgets=list(map(RetryBudgetEntry.from_record, job.retry_budgets)),
        damage=damage,
        as_of=as_of,
    )


def explain_job_document(job: JobExplanation, *, damage: Sequence[Damage] = ()) -> ExplainJobDocument:
    """Return the explanation of a job as ``explain --json`` prints it; `damage` is that of its run."""

    def name_of(index: int) -> tuple[str, str]:
        # Events of a batch name its other members too; they are left out below.
        return (job.name, job.label) if index == job.index else ("", "")

    history = [event_document(event, mark, run=job.run, name_of=name_of) for mark, event in job.events]
    return ExplainJobDocument.from_record(
        job,
        reasons=job.reasons,
        damage=damage,
        waits_for=list(map(_related_job, job.waits_for)),
        comes_after=[GroupEntry(group.title, group.must_succeed, group.unfinished) for group in job.blocking_groups],
        causes=list(map(_related_job, job.causes)),
        request=RequestEntry.from_record(job.request),
        asked=_asked_entry(job.asked) if job.asked else None,
        room=RoomEntry.from_record(job.room, asked=job.room.requested) if job.room else None,
        throttles=[ThrottleEntry.from_record(throttle, max=throttle.maximum) for throttle in job.throttles],
        limits=[LimitEntry.from_record(limit, max=limit.maximum, taken=limit.used_by_run) for limit in job.limits],
        retry_budgets=list(map(RetryBudgetEntry.from_record, job.retry_budgets)),
        paused=bool(job.pause),
        waits_at_manager=job.manager_reason or None,
        attempts=[_attempt_entry(attempt, job.logs.get(attempt.number)) for attempt in job.attempts],
        history=[_with_one_job(event, job.index) for event in history],
        as_of=job.as_of,
    )


def _asked_entry(asked: AskedResources) -> AskedEntry:
    components = [
        AllocationEntry.from_record(each, features=[sorted(words) for words in each.features])
        for each in asked.components
    ]
    return AskedEntry.from_record(asked, components=components)


def _with_one_job(event: EventDocument, index: int) -> EventDocument:
    """Return an event without its other jobs."""
    if event.jobs is UNSET:
        return event
    return replace(event, jobs=[member for member in event.jobs if member.index == index])


def _related_job(other: RelatedJob) -> RelatedJobEntry:
    attempt = _attempt_entry(other.attempt, other.log) if other.attempt else None
    return RelatedJobEntry(other.name, other.state, attempt)


def _attempt_entry(attempt: Attempt, log: str | None) -> AttemptEntry:
    request = RequestEntry.from_record(attempt.requested) if attempt.requested else None
    return AttemptEntry.from_record(
        attempt,
        request=request,
        log=log,
        outputs=output_entries(attempt.outputs),
        staged=staged_entry(attempt.staged),
    )


class BoxEntry(DocumentEntry, frozen=True):
    """A label, a job, or the jobs of a label that are left out."""

    name: str
    """The label, or the name of the one job."""
    label: str
    """The label."""
    jobs: Ordinal
    """Number of jobs in the box."""
    counts: Mapping[JobState, Ordinal]
    """Number of jobs per state; empty if not known."""
    here: bool
    """Whether the box is the job that was asked for."""
    more: bool
    """Whether the box stands for jobs that are left out."""


class ArrowEntry(DocumentEntry, frozen=True):
    """An edge between two boxes."""

    start: Count
    """Index of the box that comes first."""
    end: Count
    """Index of the box that waits for it."""
    jobs: Ordinal
    """Number of pairs of jobs that the edge stands for."""


class DrawDocument(DatedDocument, frozen=True, kw_only=True):
    """A picture of a run or a configuration: `longshore draw --json`."""

    kind: Literal["draw"] = "draw"
    title: str
    """Title of the picture."""
    boxes: Sequence[BoxEntry]
    """The boxes."""
    arrows: Sequence[ArrowEntry]
    """The edges."""
    damage: Sequence[Damage]
    """Files and lines of the run directory that are not as they were written; empty if it is intact."""


def draw_document(picture: Drawing, *, as_of: float) -> DrawDocument:
    """Return a picture as ``draw --json`` prints it."""
    boxes = list(map(BoxEntry.from_record, picture.boxes))
    arrows = list(map(ArrowEntry.from_record, picture.arrows))
    return DrawDocument.from_record(picture, boxes=boxes, arrows=arrows, as_of=as_of)
