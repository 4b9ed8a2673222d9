"""The events of a run: the lines of its journal, which every service reports.

An event is one JSON object; ``e`` names its kind. Jobs are identified by their index in ``workflow.jsonl`` (``j``),
attempts by their number (``a``), batches by their id (``b``). ``t`` is the engine's clock, seconds since the epoch
(UTC).
"""

# Without postponed annotations: msgspec evaluates them as text, which takes three times as long.

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec

from longshore.model.run.states import Cause, JobState
from longshore.model.workflow.request import Request

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
