"""What an engine orders from keepers, and what these record: types, encoding, and conversion to events.

The module `longshore.keeper.program.keeper` documents the protocol. Where a keeper runs, only type checkers need these
types, so they are not among the files that are copied.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NotRequired, TypeAlias, TypedDict

import msgspec

from longshore.contract.executor import AttemptLimits
from longshore.contract.service import RunPaths
from longshore.errors import RunNotFoundError
from longshore.model.event import Ended, FileStamp, OutputFinding, OutputState, Started
from longshore.model.states import Cause
from longshore.model.wording import signal_name
from longshore.rundir.run_directory import read_card

# Orders, and parts of records.


class LimitsOrder(TypedDict, total=False):
    """Limits of an attempt, all optional; `watchdog.WatchedAttempt` documents them."""

    mem: int
    asked: int
    wall: float
    log: int
    tmp: str
    sig: Sequence[int]
    grace: float


class MemberOrder(TypedDict):
    """An attempt to start."""

    j: int
    a: int
    argv: list[str] | tuple[str, ...]
    e: int
    v: Mapping[str, str]
    cwd: str
    log: str
    lim: NotRequired[LimitsOrder]
    out: NotRequired[list[str] | tuple[str, ...]]
    u: NotRequired[Sequence[Sequence[int]]]


class EnvironmentOrder(TypedDict):
    """An environment for later orders to refer to."""

    o: Literal["env"]
    id: int
    on: NotRequired[int]
    env: Mapping[str, str]


class RunOrder(TypedDict):
    """Attempts to start, at once or as their lane has slots."""

    o: Literal["run"]
    b: str
    m: Sequence[MemberOrder]
    l: NotRequired[str]  # noqa: E741 - the name of the key
    n: NotRequired[int]


class KillOrder(TypedDict):
    """A signal to attempts."""

    o: Literal["kill"]
    m: Sequence[tuple[int, int]]
    sig: int


class EndNotes(TypedDict, total=False):
    """Fields of an end record beside status and times."""

    why: str
    say: str
    rss: int
    tmp: str
    out: Sequence[tuple[int, str]]
    st: Sequence[tuple[int, int]]
    """Size and modification time (ns) of each output, if all are there."""


Order: TypeAlias = EnvironmentOrder | RunOrder | KillOrder


# Encoding of orders, and the variables that identify processes.


RUN_VARIABLE: Final = "LONGSHORE_JOB_RUN_MARK"
JOB_VARIABLE: Final = "LONGSHORE_JOB_INDEX"
"""Environment variables that identify every process of a run and of an attempt."""


def run_token(run: RunPaths) -> str:
    """Return the run token, which stays valid when its directory moves; without a card, its path."""
    try:
        return read_card(run).run_token
    except RunNotFoundError:
        return str(run.root)


def attempt_name(job: int, attempt: int) -> str:
    """Return the value of `JOB_VARIABLE` in the processes of an attempt."""
    return f"{job}.{attempt}"


def encode_order(order: Mapping[str, object]) -> bytes:
    """Encode an order as JSON without line feed."""
    try:
        return msgspec.json.encode(order)
    except UnicodeEncodeError:
        # Environment variables may hold bytes that are not text.
        return json.dumps(order, separators=(",", ":")).encode()


def limits_order(limits: AttemptLimits, *, signals: Sequence[int], grace_s: float) -> LimitsOrder:
    """Convert limits to the keeper's format; `signals` and `grace_s` are for jobs beyond them."""
    order: LimitsOrder = {"tmp": limits.keep_tmp.value, "sig": signals, "grace": grace_s}
    if limits.memory_b is not None:
        order["mem"] = limits.memory_b
    if limits.asked_b is not None:
        order["asked"] = limits.asked_b
    if limits.walltime_s is not None:
        order["wall"] = limits.walltime_s
    if limits.log_b is not None:
        order["log"] = limits.log_b
    return order


# Records.


_NOT_FOUND = 127
_NOT_RUNNABLE = 126
"""Exit status of a POSIX shell for a program that cannot be executed (2.8.2)."""


TEMPORARY_ERRORS: Final = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE),
        *(errno.EACCES, errno.EIO, errno.EROFS, errno.ESTALE, errno.ETIMEDOUT),
    }
)
"""Temporary errors: a full disk, an exhausted machine, expired credentials, an unreachable file server."""
_EXHAUSTED: Final = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})


class KeeperRecord(msgspec.Struct, frozen=True, tag_field="r", tag="keeper"):
    """First record of a keeper."""

    pid: int
    host: str
    boot: str
    tmp: str
    """Folder of the attempts' temporary directories."""
    guard: int = 0
    """Process of its guard; 0 in an older format."""


class ReceivedRecord(msgspec.Struct, frozen=True, tag_field="r", tag="got"):
    """These members of a batch may have been started from here on."""

    b: str
    m: tuple[tuple[int, int], ...]


class NeverStartedRecord(msgspec.Struct, frozen=True, tag_field="r", tag="never"):
    """Attempts that waited in a lane and will not be started."""

    m: tuple[tuple[int, int], ...]


class StartRecord(msgspec.Struct, frozen=True, tag_field="r", tag="start"):
    """A process was started."""

    j: int
    a: int
    pid: int
    t: float
    up: float
    lim: LimitsOrder | None = None
    """The limits in the command, in the keeper's format."""
    log: str = ""


class ReapingRecord(msgspec.Struct, frozen=True, gc=False, tag_field="r", tag="exit"):
    """A process ended and is about to be reaped; its end record follows unless the keeper dies."""

    j: int
    a: int
    t: float
    s: int


class ExitRecord(msgspec.Struct, frozen=True, gc=False, tag_field="r", tag="end"):
    """A process ended, or could not be started."""

    j: int
    a: int
    t: float
    s: int | None = None
    run: float | None = None
    cpu: float | None = None
    rss: int | None = None
    err: str | None = None
    no: int | None = None
    why: str | None = None
    say: str | None = None
    tmp: str | None = None
    out: tuple[tuple[int, OutputState], ...] | None = ()
    """Outputs that are not as they should be; ``None`` if nobody looked."""
    st: tuple[FileStamp, ...] = ()
    """Stamp of each output; none if one is missing."""
    own: bool = False
    """Whether the failure was in creating its log or its temporary directory."""

    @property
    def is_temporary(self) -> bool:
        """Whether the start failed for a temporary reason, which is no fault of the job."""
        return self.s is None and (self.no in _EXHAUSTED or (self.own and self.no in TEMPORARY_ERRORS))


class ClosedRecord(msgspec.Struct, frozen=True, tag_field="r", tag="closed"):
    """The keeper has read all commands; no more can come."""


Record: TypeAlias = (
    KeeperRecord | ReceivedRecord | NeverStartedRecord | StartRecord | ReapingRecord | ExitRecord | ClosedRecord
)
_decoder: Final = msgspec.json.Decoder(Record)
decode_record = _decoder.decode
"""Decode a record from its line."""
decode_records = _decoder.decode_lines
"""Decode all records of a text."""


def start_event(record: StartRecord, *, host: str) -> Started:
    """Convert a start record to an event."""
    return Started(j=record.j, a=record.a, host=host, at=record.t)


def exit_event(record: ReapingRecord, *, host: str) -> Ended:
    """Convert an exit record to an event. Its outputs were not checked."""
    return end_event(ExitRecord(j=record.j, a=record.a, t=record.t, s=record.s, out=None), host=host)


def end_event(record: ExitRecord, *, host: str) -> Ended:
    """Convert an end record to an event."""
    if record.s is None:
        return Ended(
            j=record.j,
            a=record.a,
            exit=_NOT_FOUND if record.no == errno.ENOENT else _NOT_RUNNABLE,
            cause=Cause.EXIT,
            reason=record.err,
            host=host,
            end=record.t,
            # A command that is invalid, or too long for the kernel, fails the same next time.
            hopeless=record.no in (None, errno.E2BIG),
        )
    number = os.WTERMSIG(record.s) if os.WIFSIGNALED(record.s) else None
    code = os.waitstatus_to_exitcode(record.s) if number is None else None
    cause: Cause | None
    if record.why:
        # It exceeded a limit.
        cause, reason = Cause(record.why), record.say
    elif number is not None:
        cause, reason = Cause.SIGNAL, f"killed by {signal_name(number)}"
    else:
        cause, reason = Cause.EXIT if code else None, None
    return Ended(
        j=record.j,
        a=record.a,
        exit=code,
        signal=number,
        cause=cause,
        reason=reason,
        host=host,
        start=None if record.run is None else record.t - record.run,
        end=record.t,
        run_s=record.run,
        cpu_s=record.cpu,
        rss_b=record.rss,
        outputs=None if record.out is None else tuple(OutputFinding(*each) for each in record.out),
        stamps=record.st,
        extra={"tmp": record.tmp} if record.tmp else {},
    )
