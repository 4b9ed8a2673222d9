"""Documents of ``events``: a line per event of a run, with the names of its jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from longshore.model.event import Event, FileStamp, OutputFinding, OutputState, Seal, StagedFiles
from longshore.model.states import Cause, JobState
from longshore.model.wording import format_timestamp
from longshore.reports.documents.document import Count, Document, DocumentEntry, Ordinal, Seconds, Time

JobNames: TypeAlias = Callable[[int], tuple[str, str]]
"""Name and label of a job, by its index."""

_MEMBER_NAMES: Final[Mapping[str, str]] = {
    "a": "attempt",
    "b": "batch",
    "exit": "exit_code",
    "rss_b": "peak_memory_b",
    "at": "started_at",
    "start": "started_at",
    "end": "ended_at",
    "why": "reason",
    "v": "journal_format",
    "id": "wms_id",
    "s": "submission",
    "up": "host_up_s",
}
"""Names of fields of the journal in a document; others keep theirs."""
_TIME_FIELDS: Final = frozenset({"at", "start", "end", "not_before"})


class RequestEntry(DocumentEntry, frozen=True):
    """Resources that a job requests; null where it requests nothing."""

    cpus: Ordinal
    """Number of logical processors."""
    memory_b: Count | None
    """Memory in bytes."""
    disk_b: Count | None
    """Disk in bytes."""
    walltime_s: Seconds | None
    """Wall time in seconds."""
    resources: Mapping[str, Count]
    """Amount of each other resource."""


class MemberEntry(DocumentEntry, frozen=True):
    """A job of an event about several."""

    job: str
    """Name of the job."""
    index: Count
    """Number of the job in the workflow, from 0."""
    label: str
    """Label of the job."""
    attempt: Ordinal | UnsetType = UNSET
    """Number of the attempt, in events about attempts."""


class StagedEntry(DocumentEntry, frozen=True):
    """Transfers of the files of a staged attempt."""

    files_in: Count
    """Number of inputs that were copied to the scratch directory."""
    bytes_in: Count
    """Their bytes."""
    in_s: Seconds
    """Seconds that took."""
    files_out: Count
    """Number of outputs that were copied from it."""
    bytes_out: Count
    """Their bytes."""
    out_s: Seconds
    """Seconds that took."""
    kept: Count
    """Outputs that were not published, because another attempt of the job had published them."""


class StampEntry(DocumentEntry, frozen=True):
    """Size and time of modification of a file; those of a folder are as its file system has them."""

    size_b: Count
    """Size in bytes."""
    modified_ns: int
    """Time of modification, in nanoseconds since the epoch, by the clock of the file system."""


class OutputEntry(DocumentEntry, frozen=True):
    """A declared output that is not as it should be after an attempt."""

    path: str
    """Path of the output."""
    state: OutputState
    """`missing`; `stale`, as it was before the attempt; or `empty`."""


class EventDocument(Document, frozen=True, kw_only=True):
    """One line of `longshore events`. Members that do not belong to an event, or have nothing to say, are absent."""

    kind: Literal["event"] = "event"
    run: str
    """Id of the run."""
    mark: Annotated[str, Meta(pattern=r"^[0-9]+\.[0-9]+$")]
    """Value of `--since` to go on behind this event: life of the engine, and number in that life."""
    at: Time | None
    """Time on the clock of the engine."""
    event: Annotated[str, Meta(pattern="^[a-z_]+$")]
    """Kind of the event; see the reference of the run directory. New kinds may be added."""
    job: str | UnsetType = UNSET
    """Name of the job, in events about one."""
    index: Count | UnsetType = UNSET
    """Number of the job in the workflow, from 0."""
    label: str | UnsetType = UNSET
    """Label of the job."""
    jobs: Sequence[MemberEntry] | UnsetType = UNSET
    """The jobs, in events about several; absent if the event is about the whole batch or run."""
    lives: Sequence[Seal] | UnsetType = UNSET
    """How much of each earlier life counts."""
    losses: Sequence[str] | UnsetType = UNSET
    """Damages of the journal that a user accepted, a sentence each."""
    batch: str | UnsetType = UNSET
    """Id of the batch."""
    tag: str | UnsetType = UNSET
    """Mark of the batch at the workload manager."""
    wms_id: str | UnsetType = UNSET
    """Id that the workload manager gave the batch."""
    journal_format: int | UnsetType = UNSET
    """Version of the journal's format."""
    life: Ordinal | UnsetType = UNSET
    """Number of the engine's life."""
    host_up_s: Seconds | UnsetType = UNSET
    """Seconds since the host of the engine was started."""
    attempt: Ordinal | UnsetType = UNSET
    """Number of the attempt; in `retry`, of the next one."""
    exit_code: int | UnsetType = UNSET
    """Exit code."""
    signal: int | UnsetType = UNSET
    """Signal that ended the attempt."""
    cause: Cause | UnsetType = UNSET
    """Why an attempt failed; absent from a success."""
    who: str | UnsetType = UNSET
    """Account of the user who intervened."""
    act: str | UnsetType = UNSET
    """Kind of the intervention."""
    select: Mapping[str, Sequence[str]] | UnsetType = UNSET
    """Jobs and labels selected, as the user named them; absent for the whole run."""
    reason: str | UnsetType = UNSET
    """The cause in words, or the reason of a decision."""
    spent: bool | UnsetType = UNSET
    """Whether a refusal counts as an attempt."""
    host: str | UnsetType = UNSET
    """Host of the attempt, or of the engine."""
    started_at: Time | UnsetType | None = UNSET
    """Start of the attempt, on the clock of its host."""
    ended_at: Time | UnsetType | None = UNSET
    """End of the attempt."""
    queue_s: Seconds | UnsetType = UNSET
    """Seconds from submission to start, on the clock of the workload manager."""
    run_s: Seconds | UnsetType = UNSET
    """Wall time in seconds."""
    cpu_s: Seconds | UnsetType = UNSET
    """Processor time in seconds."""
    peak_memory_b: Count | UnsetType = UNSET
    """Peak memory in bytes."""
    matched: bool | UnsetType = UNSET
    """Whether the log matches a pattern of `retryOn`."""
    hopeless: bool | UnsetType = UNSET
    """Whether another attempt would fail in the same way; none follows."""
    aborts: bool | UnsetType = UNSET
    """Whether the failure ends the run."""
    outputs: Sequence[OutputEntry] | UnsetType = UNSET
    """Declared outputs that the attempt left missing, stale or empty."""
    stamps: Sequence[StampEntry] | UnsetType = UNSET
    """State of each checked output at the end of a success, in the order of the declared outputs."""
    staged: StagedEntry | UnsetType = UNSET
    """Transfers of the files of a staged attempt."""
    extra: Mapping[str, str] | UnsetType = UNSET
    """Fields of the workload manager."""
    set: Mapping[str, str] | UnsetType = UNSET
    """Values that were set."""
    labels: Sequence[int] | UnsetType = UNSET
    """Numbers of the labels that are throttled, in the order of the pipeline."""
    request: RequestEntry | UnsetType = UNSET
    """Resources that the batch requests, or that the jobs will request from now on."""
    ids: Mapping[str, Mapping[str, Sequence[str]]] | UnsetType = UNSET
    """Members of resources, such as GPUs, given to each job of the batch, by its index."""
    not_before: Time | UnsetType | None = UNSET
    """Earliest start of the next attempt."""
    from_labels: Sequence[str] | UnsetType = UNSET
    """In a restart: labels that run again with all their descendants, even those that succeeded."""
    order: str | UnsetType = UNSET
    """Name of the order's file; on the last event of an order that an engine carried out."""
    state: JobState | UnsetType = UNSET
    """State of the run at its end."""
    pid: int | UnsetType = UNSET
    """Process of the engine."""
    boot: str | UnsetType = UNSET
    """The kernel's id of the boot."""
    by: str | UnsetType = UNSET
    """Command that started the engine: submit, resume, take-over, restart or cancel."""
    seals: Seal | UnsetType = UNSET
    """How much of the life before counts."""
    longshore: str | UnsetType = UNSET
    """Version of the engine."""
    submission: Count | UnsetType = UNSET
    """Number of the submission that the engine belongs to, from 1."""
    manifest: str | UnsetType = UNSET
    """SHA-256 of the manifest of that submission."""


def event_document(event: Event, mark: str, *, run: str, name_of: JobNames) -> EventDocument:
    """Return an event as ``events`` prints it; `run` is the run's id, `mark` the position to continue from."""
    tag, fields, read = _event_fields(type(event))
    at, *values = read(event)
    members: dict[str, Any] = {
        "run": run,
        "mark": mark,
        "at": format_timestamp(at or None, exact=True),
        "event": tag,
    }
    for (field, name, default), value in zip(fields, values, strict=True):
        if value == default:
            continue
        if field == "j":
            members["job"], members["label"] = name_of(value)
            members["index"] = value
        elif field == "jobs":
            members["jobs"] = [_member(each, name_of) for each in value]
        elif field in _TIME_FIELDS:
            members[name] = format_timestamp(value, exact=True)
        else:
            members[name] = _ENTRIES[field](value) if field in _ENTRIES else value
    return EventDocument(**members)


def output_entries(findings: Sequence[OutputFinding]) -> list[OutputEntry]:
    """Return findings on outputs for a document."""
    return [OutputEntry(finding.path, finding.state) for finding in findings]


def stamp_entries(stamps: Sequence[FileStamp]) -> list[StampEntry]:
    """Return the stamps of outputs for a document."""
    return [StampEntry(stamp.size, stamp.mtime_ns) for stamp in stamps]


def staged_entry(staged: StagedFiles | None) -> StagedEntry | None:
    """Return the transfers of an attempt for a document."""
    return None if staged is None else StagedEntry.from_record(staged)


_ENTRIES: Final[Mapping[str, Callable[[Any], object]]] = {
    "request": RequestEntry.from_record,
    "outputs": output_entries,
    "stamps": stamp_entries,
    "staged": staged_entry,
}
"""Entry of a document per field that is a record."""


@lru_cache
def _event_fields(
    kind: type[msgspec.Struct],
) -> tuple[str, Sequence[tuple[str, str, object]], Callable[[Event], tuple[Any, ...]]]:
    """Return the tag of an event class, its fields, and a getter of `t` and these; cached, as a run has a million.

    A field has its name, its name in a document, and the value that leaves it out.
    """
    fields = [
        (field.name, _MEMBER_NAMES.get(field.name, field.name), _default(field))
        for field in msgspec.structs.fields(kind)
        if field.name not in {"n", "t"}
    ]
    return str(kind.__struct_config__.tag), fields, attrgetter("t", *(field for field, _, _ in fields))


def _default(field: msgspec.structs.FieldInfo) -> object:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _member(member: int | tuple[int, int], name_of: JobNames) -> MemberEntry:
    index, attempt = member if isinstance(member, tuple) else (member, UNSET)
    name, label = name_of(index)
    return MemberEntry(name, index, label, attempt)
