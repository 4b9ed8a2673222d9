"""Turns the keeper's records into events."""

from __future__ import annotations

import errno
import os
from typing import Any, Final, TypeAlias

import msgspec

from longshore.model.event import Ended, Started
from longshore.model.signals import signal_name
from longshore.model.state import Cause

_NOT_FOUND = 127
_NOT_RUNNABLE = 126
"""What a POSIX shell exits with when a program is not found, or cannot be executed (2.8.2)."""


PASSING: Final = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE),
        *(errno.EACCES, errno.EIO, errno.EROFS, errno.ESTALE, errno.ETIMEDOUT),
    }
)
"""Errors of a full disk, an exhausted machine, expired credentials, a file server that is away."""
_EXHAUSTED: Final = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})


class KeeperBegan(msgspec.Struct, frozen=True, tag_field="r", tag="keeper"):
    """First record of a keeper."""

    pid: int
    host: str
    boot: str
    tmp: str
    """Folder of the temporary directories of attempts."""


class Got(msgspec.Struct, frozen=True, tag_field="r", tag="got"):
    """These members of a batch may have been started from here on."""

    b: str
    m: tuple[tuple[int, int], ...]


class Never(msgspec.Struct, frozen=True, tag_field="r", tag="never"):
    """Attempts that waited in a lane, and will not be started."""

    m: tuple[tuple[int, int], ...]


class StartRecord(msgspec.Struct, frozen=True, tag_field="r", tag="start"):
    """A process was started."""

    j: int
    a: int
    pid: int
    t: float
    up: float
    lim: dict[str, Any] | None = None
    """The limits it was ordered with, in the words of the keeper."""
    log: str = ""


class EndRecord(msgspec.Struct, frozen=True, gc=False, tag_field="r", tag="end"):
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
    own: bool = False
    """Whether it was its log or its temporary directory that could not be made."""

    @property
    def passing(self) -> bool:
        """Whether it was not started for a reason that will pass: a condition, and no fault of the job's."""
        return self.s is None and (self.no in _EXHAUSTED or (self.own and self.no in PASSING))


class Closed(msgspec.Struct, frozen=True, tag_field="r", tag="closed"):
    """The keeper has read every order there ever was."""


Record: TypeAlias = KeeperBegan | Got | Never | StartRecord | EndRecord | Closed
_decoder: Final = msgspec.json.Decoder(Record)
decode_record = _decoder.decode
"""A record from its line."""
decode_records = _decoder.decode_lines
"""All records of a text."""


def started(record: StartRecord, *, host: str) -> Started:
    """The event of a start."""
    return Started(j=record.j, a=record.a, host=host, at=record.t)


def ended(record: EndRecord, *, host: str) -> Ended:
    """The event of an end."""
    if record.s is None:
        code = _NOT_FOUND if record.no == errno.ENOENT else _NOT_RUNNABLE
        return Ended(
            j=record.j,
            a=record.a,
            exit=code,
            cause=Cause.EXIT,
            reason=record.err,
            host=host,
            end=record.t,
            # A command that is none, or longer than the kernel takes, is the same next time.
            hopeless=record.no in (None, errno.E2BIG),
        )
    event = ended_with_status(
        record.j,
        record.a,
        record.s,
        host=host,
        end=record.t,
        run_s=record.run,
        cpu_s=record.cpu,
        rss_b=record.rss,
    )
    return _with_limits(event, record) if record.why or record.tmp else event


def _with_limits(event: Ended, record: EndRecord) -> Ended:
    """The end of an attempt that went beyond a limit, or whose temporary directory was kept."""
    if record.why:
        event = msgspec.structs.replace(event, cause=Cause(record.why), reason=record.say)
    return msgspec.structs.replace(event, extra={"tmp": record.tmp}) if record.tmp else event


def ended_with_status(
    job: int,
    attempt: int,
    status: int,
    *,
    host: str,
    end: float,
    run_s: float | None = None,
    cpu_s: float | None = None,
    rss_b: int | None = None,
) -> Ended:
    """The event of an end from a wait status."""
    code: int | None = None
    number: int | None = None
    cause: Cause | None = None
    reason: str | None = None
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        cause = Cause.SIGNAL
        reason = f"killed by {signal_name(number)}"
    else:
        code = os.waitstatus_to_exitcode(status)
        cause = Cause.EXIT if code else None
    return Ended(
        j=job,
        a=attempt,
        exit=code,
        signal=number,
        cause=cause,
        reason=reason,
        host=host,
        start=end - run_s if run_s is not None else None,
        end=end,
        run_s=run_s,
        cpu_s=cpu_s,
        rss_b=rss_b,
    )
