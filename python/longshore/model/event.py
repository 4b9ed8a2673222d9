"""The events of a run: the lines of its journal, their attempts, and job numbers of an earlier submission."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, Literal, Self, TypeAlias

import msgspec

from longshore.errors import DECODE_ERRORS, RunUnreadableError
from longshore.model.states import Cause, JobState
from longshore.model.workflow import Request

# The events of a run: the lines of its journal, which every service reports. An event is one JSON object; ``e`` names
# its kind. Jobs are identified by their index in ``workflow.jsonl`` (``j``), attempts by their number (``a``), batches
# by their id (``b``). ``t`` is the engine's clock, seconds since the epoch (UTC).


# Without postponed annotations: msgspec evaluates them as text, which takes three times as long.


FORMAT = 3
"""Version of the journal's format. Version 2 lacks the event ``facts``, which its readers would take for damage."""
MOST_LIVES = 100_000
"""Largest number of a life: an engine that began each minute would need two months for as many."""
PLAIN_FORMAT = 1
"""Version of events whose lines carry no checksums: older journals, and events that are no journal."""
ACCEPT_LOSS = "accept-loss"
"""What begins a life that starts no engine, and only records that a user accepted a loss."""


class Seal(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How much of an earlier life counts: what it wrote beyond `bytes` is void."""

    life: int
    """Number of the life."""
    bytes: int
    """Bytes of its file that count."""
    crc: int | None = None
    """CRC-32 of these bytes; absent in older journals."""


class Life(msgspec.Struct, frozen=True, kw_only=True, tag_field="e", tag="life", omit_defaults=True):
    """An engine starts; always the first event of its file."""

    v: int
    life: int
    t: float
    host: str
    pid: int
    boot: str
    by: str
    """``submit``, ``resume``, ``take-over``, ``restart``, ``cancel`` or `ACCEPT_LOSS`."""
    seals: Seal | None = None
    """As `Sealed`, in journals older than that event."""
    longshore: str = ""
    s: int = 0
    """Number of the submission that this life belongs to, from 1; 0 if it has no manifest."""
    manifest: str = ""
    """SHA-256 of that submission's manifest."""
    up: float | None = None
    """Seconds since the host was started, at `t`: two of them tell a duration whatever became of the clock."""


class _Numbered(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="e", omit_defaults=True):
    n: int = 0
    """Number of the event in its life; written by the journal."""
    t: float = 0.0


class Sealed(_Numbered, frozen=True, kw_only=True, gc=False, tag="sealed"):
    """Valid length of earlier lives, measured after this one began; always the second event of its file."""

    lives: tuple[Seal, ...]


class LossAccepted(_Numbered, frozen=True, kw_only=True, gc=False, tag="accepted"):
    """A user accepted that a part of the journal is lost; the seals before this event say what counts."""

    who: str
    losses: tuple[str, ...]
    """What was damaged, a sentence each."""


class Submitting(_Numbered, frozen=True, kw_only=True, gc=False, tag="submitting"):
    """Intent to dispatch a batch: durable before anything is started."""

    b: str
    tag: str
    jobs: tuple[tuple[int, int], ...]
    """Pairs (job, attempt)."""
    request: Request | None = None
    ids: Mapping[int, Mapping[str, tuple[str, ...]]] = msgspec.field(default_factory=dict)
    """Members of each resource per job, such as GPUs, exclusive while it runs."""


class Submitted(_Numbered, frozen=True, kw_only=True, gc=False, tag="submitted"):
    """The workload manager accepted the batch."""

    b: str
    id: str


class Refused(_Numbered, frozen=True, kw_only=True, gc=False, tag="refused"):
    """The batch, or those members of it that are named, was refused and never starts.

    Its attempts do not count unless `spent`.
    """

    b: str
    why: str
    spent: bool = False
    hopeless: bool = False
    """Whether a retry would be refused again: attempts that count are then not retried."""
    jobs: tuple[tuple[int, int], ...] | None = None


class Started(_Numbered, frozen=True, kw_only=True, gc=False, tag="started"):
    """An attempt started."""

    j: int
    a: int
    host: str | None = None
    at: float | None = None
    """Start time, on the clock of the host it runs on."""


class OutputState(StrEnum):
    """Fault of a declared output after an attempt."""

    MISSING = "missing"
    STALE = "stale"
    """It is as it was before the attempt."""
    EMPTY = "empty"


class OutputFinding(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A declared output with a fault after an attempt."""

    output: int
    """Its number among the outputs of the job that are checked, from 0."""
    state: OutputState
    path: str = ""
    """Its path; an executor leaves it out."""


class FileStamp(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Size of a file, and its time of modification in nanoseconds, as its file system has it."""

    size: int
    mtime_ns: int


class StagedFiles(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Files of an attempt that were copied to its scratch directory, and published from it.

    Attributes
    ----------
    files_in, bytes_in, in_s
        Number of inputs, their bytes, and the seconds of their transfer.
    files_out, bytes_out, out_s
        The same of outputs, including those of patterns.
    kept
        Outputs that were not published, because another attempt of the job had published them.
    """

    files_in: int = 0
    bytes_in: int = 0
    in_s: float = 0.0
    files_out: int = 0
    bytes_out: int = 0
    out_s: float = 0.0
    kept: int = 0


class Ended(_Numbered, frozen=True, kw_only=True, gc=False, tag="ended"):
    """An attempt ended with a known outcome; a success when `cause` is absent."""

    j: int
    a: int
    exit: int | None = None
    signal: int | None = None
    cause: Cause | None = None
    reason: str | None = None
    host: str | None = None
    start: float | None = None
    end: float | None = None
    queue_s: float | None = None
    """Seconds in the queue, on the workload manager's own clock."""
    run_s: float | None = None
    cpu_s: float | None = None
    rss_b: int | None = None
    matched: bool = False
    """Whether its log matches the pattern of ``retryOn``."""
    hopeless: bool = False
    """Whether it could not start and never can: it is not retried."""
    outputs: tuple[OutputFinding, ...] | None = None
    """What is wrong with its declared outputs; empty if nothing is, ``None`` if they were not checked."""
    stamps: tuple[FileStamp, ...] = ()
    """Stamp at the end of each output that is checked; none if they are not recorded."""
    staged: StagedFiles | None = None
    """Transfers of its files; ``None`` if it was not staged."""
    extra: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def is_plain_success(self) -> bool:
        """Whether the attempt succeeded and has neither a signal nor a reason.

        Readers keep these, nearly all of a run, in fewer bytes: each of them tests beside this what it has no room for.
        """
        return self.cause is None and self.signal is None and self.reason is None


class AttemptFacts(_Numbered, frozen=True, kw_only=True, gc=False, tag="facts"):
    """Facts of an attempt that ended, which its workload manager knew only later; ``None`` where it told none."""

    j: int
    a: int
    queue_s: float | None = None
    """As in `Ended`."""
    cpu_s: float | None = None
    rss_b: int | None = None
    extra: Mapping[str, str] = msgspec.field(default_factory=dict)


class Lost(_Numbered, frozen=True, kw_only=True, gc=False, tag="lost"):
    """An attempt is lost: its outcome cannot be known."""

    j: int
    a: int
    why: str


class Retry(_Numbered, frozen=True, kw_only=True, gc=False, tag="retry"):
    """A job will be retried after a failed attempt."""

    j: int
    a: int
    """Number of the next attempt."""
    cause: Cause
    request: Request | None = None
    not_before: float | None = None


class Failed(_Numbered, frozen=True, kw_only=True, gc=False, tag="failed"):
    """A job failed and has no attempts left; its descendants are pruned."""

    j: int
    why: str
    aborts: bool = False
    """Whether it ends the run: all unfinished jobs are cancelled, except the final job."""


class Steer(_Numbered, frozen=True, kw_only=True, gc=False, tag="steer"):
    """A user's intervention in the run."""

    who: str
    act: str
    select: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Names of the selected jobs or labels, as given."""
    set: Mapping[str, str] = msgspec.field(default_factory=dict)
    jobs: tuple[int, ...] | None = None
    """The selected jobs; absent for the whole run."""
    labels: tuple[int, ...] = ()
    """Indices of the throttled labels; none for the whole run."""
    request: Request | None = None
    """New request of each of these jobs."""
    order: str = ""
    """Name of the order's file, on the last event of an order; a later engine does not carry it out again."""


class Deleted(_Numbered, frozen=True, kw_only=True, gc=False, tag="deleted"):
    """Jobs are cancelled; descendants are deleted with the whole run, pruned otherwise."""

    jobs: tuple[int, ...]
    order: str = ""
    """As in `Steer`."""
    why: str = ""
    """What the workload manager says of a removal that no order asked for."""


class Restarted(_Numbered, frozen=True, kw_only=True, gc=False, tag="restarted"):
    """Jobs will run again, with a fresh budget of attempts."""

    jobs: tuple[int, ...]
    set: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Changes for all of these jobs; changes for some are in the `Steer` events that follow."""
    who: str = ""
    from_labels: tuple[str, ...] = ()
    """Labels whose jobs run again with their descendants, even if they succeeded."""
    order: str = ""
    """As in `Steer`."""


class Finished(_Numbered, frozen=True, kw_only=True, gc=False, tag="finished"):
    """The run is over: no job can change any more."""

    state: JobState
    up: float | None = None
    """As `Life.up`, on the same host."""


Event: TypeAlias = (
    Life
    | Sealed
    | LossAccepted
    | Submitting
    | Submitted
    | Refused
    | Started
    | Ended
    | AttemptFacts
    | Lost
    | Retry
    | Failed
    | Steer
    | Deleted
    | Restarted
    | Finished
)


def add_staged(one: StagedFiles, other: StagedFiles) -> StagedFiles:
    """Return the sum of transfers."""
    return StagedFiles(
        files_in=one.files_in + other.files_in,
        bytes_in=one.bytes_in + other.bytes_in,
        in_s=one.in_s + other.in_s,
        files_out=one.files_out + other.files_out,
        bytes_out=one.bytes_out + other.bytes_out,
        out_s=one.out_s + other.out_s,
        kept=one.kept + other.kept,
    )


def add_facts(end: Ended, facts: AttemptFacts) -> Ended:
    """Return the end of an attempt with the facts that came later."""
    return msgspec.structs.replace(
        end,
        queue_s=end.queue_s if facts.queue_s is None else facts.queue_s,
        cpu_s=end.cpu_s if facts.cpu_s is None else facts.cpu_s,
        rss_b=end.rss_b if facts.rss_b is None else facts.rss_b,
        extra={**facts.extra, **end.extra},
    )


class AttemptSucceeded(msgspec.Struct, frozen=True, gc=False):
    """A whole attempt from submission to success in one event, for counting; never written to the journal.

    Attributes
    ----------
    j, a
        The job and the attempt.
    at, t
        Start and end time.
    run_s
        Run time in seconds.
    rss_b
        Peak memory in bytes; ``None`` if unknown.
    host, end, cpu_s
        Host, end by the clock of the host, and processor time, where a reader of single jobs needs them. With a host,
        the exit code was 0, and nothing else is known that a report of the job shows.
    """

    j: int
    a: int
    at: float
    t: float
    run_s: float
    rss_b: int | None = None
    host: str | None = None
    end: float = 0.0
    cpu_s: float | None = None


BriefEvent: TypeAlias = Event | AttemptSucceeded


# An attempt, one execution of a job, in one form for all services.


class AttemptMeasures(msgspec.Struct, frozen=True, gc=False):
    """Identity and measures of an attempt; its fields have the names of `Attempt`.

    It is made in a quarter of the time, and takes half of the memory.
    """

    job: int
    number: int
    wms_id: str | None
    host: str | None
    requested: Request | None
    submitted_at: float | None
    started_at: float | None
    ended_at: float | None
    wait_s: float | None
    run_s: float | None
    cpu_s: float | None
    peak_memory_b: int | None
    exit_code: int | None
    cause: Cause | None

    @property
    def is_success(self) -> bool:
        """Whether it ended without a cause of failure."""
        return self.cause is None and self.ended_at is not None


class Attempt(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One execution of a job; ``None`` means unknown.

    Times are seconds since the epoch (UTC) on the clock named by `clock`; durations are measured on one clock and never
    subtract the clocks of two hosts.
    """

    job: int
    """Index of the job in ``workflow.jsonl``."""
    number: int
    """Counted from 1."""
    wms_id: str | None = None
    """The workload manager's id of it."""
    host: str | None = None
    requested: Request | None = None
    granted: Request | None = None
    submitted_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    clock: Literal["engine", "host", "scheduler"] = "engine"
    queue_s: float | None = None
    """Seconds in the queue, on the workload manager's clock."""
    seen_wait_s: float | None = None
    """Seconds from the submission to the news of the start, on the engine's clock."""
    run_s: float | None = None
    cpu_s: float | None = None
    peak_memory_b: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    cause: Cause | None = None
    """Why it failed; ``None`` for a success, and while it runs."""
    reason: str | None = None
    """The cause as text."""
    log: str | None = None
    """Path of its log, relative to the run directory."""
    outputs: tuple[OutputFinding, ...] = ()
    """Declared outputs that are missing, stale or empty."""
    staged: StagedFiles | None = None
    """Transfers of its files; ``None`` if it was not staged."""
    extra: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Fields specific to the scheduler."""
    is_abandoned: bool = False
    """Whether nothing drives its run any more, so that its end may never become known."""

    @property
    def measures(self) -> AttemptMeasures:
        """Identity and measures of this attempt."""
        return AttemptMeasures(*[getattr(self, name) for name in AttemptMeasures.__struct_fields__])

    @property
    def wait_s(self) -> float | None:
        """Seconds from its submission to its start: the workload manager's figure, else what the engine saw."""
        return self.seen_wait_s if self.queue_s is None else self.queue_s

    @property
    def is_success(self) -> bool:
        """Whether it ended without a cause of failure."""
        return self.cause is None and self.ended_at is not None

    @property
    def state(self) -> JobState:
        """SUCCEEDED, FAILED, DELETED, RUNNING or PENDING; UNKNOWN if it was abandoned without an end."""
        if self.ended_at is None:
            if self.is_abandoned:
                return JobState.UNKNOWN
            return JobState.PENDING if self.started_at is None else JobState.RUNNING
        if self.is_success:
            return JobState.SUCCEEDED
        return JobState.DELETED if self.cause is Cause.CANCELLED else JobState.FAILED


# Decodes events (the journal) from JSON Lines.


_events = msgspec.json.Decoder(Event)
decode_event = _events.decode
"""Decode an event from its line."""


def decode_events(lines: bytes, *, path: str) -> list[Event]:
    """Decode many events from their lines, several times as fast as one by one.

    Raises
    ------
    RunUnreadableError
        A line is no event.
    """
    try:
        events = _events.decode_lines(lines)
    except DECODE_ERRORS as error:
        raise RunUnreadableError(f"'{path}' has a line that is no event: {error}") from error
    # The decoder skips empty lines, and no writer makes any.
    if len(events) != lines.count(b"\n") + (lines[-1:] not in {b"", b"\n"}):
        raise RunUnreadableError(f"'{path}' has a line that is no event: it is empty")
    return events


# Map of job numbers from an earlier submission to a later one, and events translated by it. Each event has the job
# numbers of the submission of its life. A restart may begin a submission with another workflow. The events of earlier
# ones are then read with the numbers of the newest; those of jobs that it lacks are left out.


class JobMap(msgspec.Struct, frozen=True):
    """Numbers of jobs and labels of a later submission, by those of an earlier one; missing ones are gone."""

    jobs: Mapping[int, int]
    labels: Mapping[int, int]

    def then(self, later: Self) -> Self:
        """Return this map followed by a later one."""
        return type(self)(_compose(self.jobs, later.jobs), _compose(self.labels, later.labels))


def translate_events(events: Iterable[Event], job_map: JobMap) -> Iterator[Event]:
    """Yield events with the job numbers of a later submission, without those of jobs that it lacks."""
    for event in events:
        translate = _TRANSLATIONS.get(type(event))
        translated = translate(event, job_map) if translate else event
        if translated is not None:
            yield translated


def _compose(first: Mapping[int, int], second: Mapping[int, int]) -> dict[int, int]:
    return {old: second[new] for old, new in first.items() if new in second}


def _attempt(event: Any, job_map: JobMap) -> Event | None:
    number = job_map.jobs.get(event.j)
    return None if number is None else msgspec.structs.replace(event, j=number)


def _submitting(event: Submitting, job_map: JobMap) -> Event | None:
    jobs = _pairs(event.jobs, job_map)
    ids = {job_map.jobs[job]: members for job, members in event.ids.items() if job in job_map.jobs}
    return msgspec.structs.replace(event, jobs=jobs, ids=ids) if jobs else None


def _refused(event: Refused, job_map: JobMap) -> Event | None:
    if event.jobs is None:
        return event
    jobs = _pairs(event.jobs, job_map)
    return msgspec.structs.replace(event, jobs=jobs) if jobs else None


def _steer(event: Steer, job_map: JobMap) -> Event | None:
    jobs = None if event.jobs is None else _numbers(event.jobs, job_map.jobs)
    labels = _numbers(event.labels, job_map.labels)
    # No label means the whole run.
    if (event.jobs and not jobs) or (event.labels and not labels):
        return None
    return msgspec.structs.replace(event, jobs=jobs, labels=labels)


def _deleted(event: Deleted, job_map: JobMap) -> Event | None:
    jobs = _numbers(event.jobs, job_map.jobs)
    return msgspec.structs.replace(event, jobs=jobs) if jobs else None


def _restarted(event: Restarted, job_map: JobMap) -> Event:
    # Without any job it still ends a cancellation or a pause.
    return msgspec.structs.replace(event, jobs=_numbers(event.jobs, job_map.jobs))


def _pairs(pairs: Iterable[tuple[int, int]], job_map: JobMap) -> tuple[tuple[int, int], ...]:
    return tuple((job_map.jobs[job], attempt) for job, attempt in pairs if job in job_map.jobs)


def _numbers(numbers: Iterable[int], known: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(known[number] for number in numbers if number in known)


_TRANSLATIONS: Final[dict[type, Callable[[Any, JobMap], Event | None]]] = {
    Submitting: _submitting,
    Refused: _refused,
    Started: _attempt,
    Ended: _attempt,
    AttemptFacts: _attempt,
    Lost: _attempt,
    Retry: _attempt,
    Failed: _attempt,
    Steer: _steer,
    Deleted: _deleted,
    Restarted: _restarted,
}
"""Translation per kind of event that names jobs."""
