"""The events of a run: the lines of its journal, and what every service reports.

An event is one JSON object; ``e`` names its kind. Jobs are meant by their index in ``workflow.jsonl`` (``j``), attempts
by their number (``a``), batches by their id (``b``). ``t`` is the engine's clock, seconds since the epoch (UTC).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from longshore.model.run.state import Cause, JobState
from longshore.model.workflow.request import Request

FORMAT = 1
"""Version of the journal's format."""


class Seal(msgspec.Struct, frozen=True, gc=False):
    """How much of an earlier life counts: what it wrote beyond `bytes` is void."""

    life: int
    """Number of the life."""
    bytes: int
    """Bytes of its file that count."""


class Life(msgspec.Struct, frozen=True, kw_only=True, tag_field="e", tag="life", omit_defaults=True):
    """An engine begins; always the first event of its file."""

    v: int
    life: int
    t: float
    host: str
    pid: int
    boot: str
    by: str
    """``submit``, ``resume``, ``take-over``, ``restart`` or ``cancel``."""
    seals: Seal | None = None
    """As `Sealed`, in journals of before that event was."""
    longshore: str = ""


class _Numbered(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="e", omit_defaults=True):
    n: int = 0
    """Number of the event in its life; written by the journal."""
    t: float = 0.0


class Sealed(_Numbered, frozen=True, kw_only=True, gc=False, tag="sealed"):
    """How much of earlier lives counts, as measured once this one had begun; always the second event of its file."""

    lives: tuple[Seal, ...]


class Submitting(_Numbered, frozen=True, kw_only=True, gc=False, tag="submitting"):
    """The intent to hand over a batch: durable before anything is started."""

    b: str
    tag: str
    jobs: tuple[tuple[int, int], ...]
    """Pairs (job, attempt)."""
    request: Request | None = None
    ids: Mapping[int, Mapping[str, tuple[str, ...]]] = msgspec.field(default_factory=dict)
    """Per job, which members of each resource it is given, such as which GPUs: no other has them while it runs."""


class Submitted(_Numbered, frozen=True, kw_only=True, gc=False, tag="submitted"):
    """The workload manager took the batch."""

    b: str
    id: str


class Refused(_Numbered, frozen=True, kw_only=True, gc=False, tag="refused"):
    """The batch, or those members of it that are named, was not started and never will be.

    Its attempts do not count unless `spent`.
    """

    b: str
    why: str
    spent: bool = False
    hopeless: bool = False
    """Whether the same would be refused again: attempts that count are not followed by others."""
    jobs: tuple[tuple[int, int], ...] | None = None


class Started(_Numbered, frozen=True, kw_only=True, gc=False, tag="started"):
    """An attempt runs."""

    j: int
    a: int
    host: str | None = None
    at: float | None = None
    """When, on the clock of the host it runs on."""


class Ended(_Numbered, frozen=True, kw_only=True, gc=False, tag="ended"):
    """An attempt ended and its outcome is known; a success when `cause` is absent."""

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
    """Seconds it waited, on the workload manager's own clock."""
    run_s: float | None = None
    cpu_s: float | None = None
    rss_b: int | None = None
    matched: bool = False
    """Whether its log holds what is searched for under ``retryOn``."""
    hopeless: bool = False
    """Whether it could not even be started, and never can be: it is not tried again."""
    extra: Mapping[str, str] = msgspec.field(default_factory=dict)


class Lost(_Numbered, frozen=True, kw_only=True, gc=False, tag="lost"):
    """An attempt is gone and its outcome cannot be known."""

    j: int
    a: int
    why: str


class Retry(_Numbered, frozen=True, kw_only=True, gc=False, tag="retry"):
    """A job whose attempt ended badly will be tried again."""

    j: int
    a: int
    """Number of the attempt to come."""
    cause: Cause
    request: Request | None = None
    not_before: float | None = None


class Failed(_Numbered, frozen=True, kw_only=True, gc=False, tag="failed"):
    """A job has no attempt left; what descends from it is pruned."""

    j: int
    why: str
    aborts: bool = False
    """Whether it ends the run: all that is not over is cancelled, but for the final job."""


class Steer(_Numbered, frozen=True, kw_only=True, gc=False, tag="steer"):
    """Somebody changed the course of the run."""

    who: str
    act: str
    select: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Names of what is meant, as people gave them."""
    set: Mapping[str, str] = msgspec.field(default_factory=dict)
    jobs: tuple[int, ...] | None = None
    """The jobs that are meant; absent for the whole run."""
    labels: tuple[int, ...] = ()
    """The labels that are throttled, by their number; none for the whole run."""
    request: Request | None = None
    """What each of these jobs asks for from now on."""


class Deleted(_Numbered, frozen=True, kw_only=True, gc=False, tag="deleted"):
    """Jobs are cancelled; what descends from them is deleted with the whole run, pruned otherwise."""

    jobs: tuple[int, ...]


class Restarted(_Numbered, frozen=True, kw_only=True, gc=False, tag="restarted"):
    """Jobs are to run again, with a fresh budget of attempts."""

    jobs: tuple[int, ...]
    set: Mapping[str, str] = msgspec.field(default_factory=dict)
    """What was set of all of them; what was set of some is in the `Steer` events that follow."""
    who: str = ""
    from_labels: tuple[str, ...] = ()
    """Labels whose jobs, and what descends from these, run again even if they succeeded."""


class Finished(_Numbered, frozen=True, kw_only=True, gc=False, tag="finished"):
    """Nothing of the run can move any more."""

    state: JobState


Event: TypeAlias = (
    Life
    | Sealed
    | Submitting
    | Submitted
    | Refused
    | Started
    | Ended
    | Lost
    | Retry
    | Failed
    | Steer
    | Deleted
    | Restarted
    | Finished
)


class Passed(msgspec.Struct, frozen=True, gc=False):
    """An attempt went its whole way, from its submission to its success: in a word, for who only counts; never written.

    Attributes
    ----------
    j, a
        The job and the attempt.
    at, t
        When it began to run, and when it ended.
    run_s
        How long it ran.
    """

    j: int
    a: int
    at: float
    t: float
    run_s: float


News: TypeAlias = Event | Passed
