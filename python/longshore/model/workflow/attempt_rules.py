"""Rules for the attempts of a job: retries, growth of requests, back-off, success conditions and limits."""

# Without postponed annotations: msgspec evaluates them as text, which takes three times as long.

from enum import StrEnum

import msgspec

from longshore.model.workflow.staging_rules import StagingRules


class RetryOn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ends after which a job is retried, regardless of its other rules; any one of them is enough.

    Attributes
    ----------
    exit, signal
        Exit codes, and numbers of signals; a shell reports a signal by the exit code 128 plus its number.
    log
        Regular expression, searched for in the end of the log.
    only
        Whether no other end is retried.
    operator
        Whether a job is retried that a person removed from its workload manager.
    """

    exit: tuple[int, ...] = ()
    signal: tuple[int, ...] = ()
    log: str | None = None
    only: bool = False
    operator: bool = False


class RequestGrowth(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Growth of a job's request after it ran out of memory or time.

    Attributes
    ----------
    of_usage
        Whether the memory factor applies to the peak usage and not to the first request.
    memory_limit_b
        Maximum bytes of any job (``memoryLimit``). The factor and ``requestMemoryMax`` are attributes.
    walltime
        Factor per end by walltime; ``None`` where walltime does not grow.
    walltime_most_s
        Maximum walltime in seconds.
    """

    of_usage: bool = False
    memory_limit_b: int | None = None
    walltime: float | None = None
    walltime_most_s: float | None = None


class Backoff(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Delay before a retry in seconds: doubled each time, up to `most_s`."""

    first_s: float = 1.0
    most_s: float = 300.0


class LogValue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A number in the log (the first group of the last match), and its bounds."""

    regex: str
    least: float | None = None
    most: float | None = None


class SuccessIf(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Conditions for the success of an attempt; ``None`` is no condition.

    Attributes
    ----------
    exit
        Exit codes of a success.
    log
        Regular expression that must match in the end of the log.
    file
        Path that must exist, relative to the command's working directory; variables of the job stand in braces.
    least_s, most_s
        Bounds of the run time.
    value
        A number in the log that must keep to bounds.
    state
        ``SUCCEEDED`` and names of causes: allowed ends.
    any_of
        Whether one condition is enough, even if others fail.
    """

    exit: tuple[int, ...] | None = None
    log: str | None = None
    file: str | None = None
    least_s: float | None = None
    most_s: float | None = None
    value: LogValue | None = None
    state: tuple[str, ...] | None = None
    any_of: bool = False


class KeepPolicy(StrEnum):
    """Attempts whose files are kept instead of removed."""

    NONE = "none"
    FAILED = "failed"
    ALL = "all"


class LimitRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of an attempt, beyond which it is ended, and the files it leaves.

    Attributes
    ----------
    memory
        Whether its memory is held to its request.
    grace_share, grace_b
        Allowed excess over its request: a share of it, and an amount; both together.
    log_b
        Maximum bytes of its log; 0 for no limit, ``None`` for the default of the service.
    tmp
        Attempts that keep their temporary directories.
    logs
        Attempts that keep their logs.
    """

    memory: bool = False
    grace_share: float = 0.0
    grace_b: int = 0
    log_b: int | None = None
    tmp: KeepPolicy = KeepPolicy.NONE
    logs: KeepPolicy = KeepPolicy.ALL


class OutputCheck(StrEnum):
    """What a success must have left of its declared outputs."""

    NONE = "none"
    EXISTS = "exists"
    FRESH = "fresh"
    """They exist, are not empty, and were written by the attempt."""


class JobRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All rules of one profile beyond a number of retries."""

    retry_on: RetryOn | None = None
    retries_on_match: int | None = None
    """Retries after ends of `retry_on`; ``None`` if they spend the number of retries."""
    retries_on_memory: int | None = None
    """Retries with more memory; ``None`` if they spend the number of retries."""
    retries_on_time: int | None = None
    """Retries with more time; ``None`` if they spend the number of retries."""
    retries_on_lost: int | None = None
    """Retries after the loss of a machine; ``None`` is the run's number."""
    retries_on_preempted: int = 20
    retries_on_transfer: int = 3
    growth: RequestGrowth = RequestGrowth()
    backoff: Backoff = Backoff()
    success_if: SuccessIf | None = None
    bounds: LimitRules = LimitRules()
    resume_tasks: bool = True
    """Whether a retried job of several tasks resumes at the failed task."""
    check_outputs: OutputCheck = OutputCheck.NONE
    retry_unstartable: bool = False
    """Whether an end that tells that the command cannot be started is retried."""
    staging: StagingRules | None = None
    """How files are copied to a scratch directory and back; ``None`` if jobs use them where they lie."""
