"""What holds for the attempts of a job: when it is tried again, when an end is a success, and what ends it early."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class RetryOn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ends after which a job is tried again, whatever its other rules say; any one of them is enough.

    Attributes
    ----------
    exit, signal
        Exit codes, and numbers of signals; a shell tells of a signal by an exit code of 128 and its number.
    log
        Regular expression that is searched for in the end of the log.
    only
        Whether no other end is tried again.
    """

    exit: tuple[int, ...] = ()
    signal: tuple[int, ...] = ()
    log: str | None = None
    only: bool = False


class Growth(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much more a job asks for when it ran out of what it had.

    Attributes
    ----------
    of_usage
        Whether the factor of memory is of the peak seen and not of what was asked for at first.
    memory_limit_b
        Bytes that no job can get beyond (``memoryLimit``). The factor and ``requestMemoryMax`` are attributes.
    walltime
        Factor per end for want of time; ``None`` where time does not grow.
    walltime_most_s
        Seconds it may ask for at most.
    """

    of_usage: bool = False
    memory_limit_b: int | None = None
    walltime: float | None = None
    walltime_most_s: float | None = None


class Backoff(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Seconds a job waits before it is tried again: twice as long each time, and never longer than `most_s`."""

    first_s: float = 1.0
    most_s: float = 300.0


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A number in the log, the first group of the last match, and the bounds it must keep to."""

    regex: str
    least: float | None = None
    most: float | None = None


class SuccessIf(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What must be true of an end that is a success; ``None`` asks for nothing.

    Attributes
    ----------
    exit
        Exit codes that are none of a failure.
    log
        Regular expression that must be found in the end of the log.
    file
        Path that must exist, seen from where the command starts; variables of the job stand in braces.
    least_s, most_s
        Bounds of the run time.
    value
        A number in the log that must keep to bounds.
    state
        ``SUCCEEDED`` and names of causes: how it may end.
    any_of
        Whether one of them is enough, whatever else is not as asked.
    """

    exit: tuple[int, ...] | None = None
    log: str | None = None
    file: str | None = None
    least_s: float | None = None
    most_s: float | None = None
    value: Value | None = None
    state: tuple[str, ...] | None = None
    any_of: bool = False


class Keep(StrEnum):
    """Which attempts leave something behind that is removed otherwise."""

    NONE = "none"
    FAILED = "failed"
    ALL = "all"


class Bounds(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an attempt may use before it is ended, and what it leaves behind.

    Attributes
    ----------
    memory
        Whether its memory is held to its request.
    grace_share, grace_b
        How far beyond its request it may go: a share of it, and an amount; both together.
    log_b
        Bytes its log may have.
    tmp
        Which attempts keep their temporary directories.
    logs
        Which attempts keep their logs.
    """

    memory: bool = False
    grace_share: float = 0.0
    grace_b: int = 0
    log_b: int | None = None
    tmp: Keep = Keep.NONE
    logs: Keep = Keep.ALL


class JobRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All rules of one profile that go beyond a number of retries."""

    retry_on: RetryOn | None = None
    retries_on_preempted: int = 20
    growth: Growth = Growth()
    backoff: Backoff = Backoff()
    success_if: SuccessIf | None = None
    bounds: Bounds = Bounds()
    resume_tasks: bool = True
    """Whether a job of several tasks goes on from the task that failed when it is tried again."""
