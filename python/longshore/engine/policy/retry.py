"""Retries: whether and when a job is tried again after a bad end, and with which request; pure.

Each cause has its own rule and its own budget: memory, time, loss, preemption and removal by a person come first, then
``retryOn``, then ``retryUnlessExit`` and commands that cannot be started, and at last the number of retries. Decision
0084 has the reason.

"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import msgspec

from longshore.model.event import Deleted, Ended, Failed, Lost, Retry
from longshore.model.states import Cause
from longshore.model.tasks import Scalar
from longshore.model.wording import count_noun
from longshore.model.workflow import MIB, Backoff, JobSettings, Request, RetryOn

# Growth of requests: the memory or run time to request after an attempt ran out of it.


_LARGEST: Final = 2**62
"""Bytes or seconds beyond which nothing grows: a factor to a high power overflows."""


def compute_memory_b(
    first_b: int,
    factor: float,
    ends: int,
    *,
    peak_b: int | None = None,
    most_b: int | None = None,
    of_usage: bool = False,
) -> int:
    """Return the bytes to request after a number of ends for lack of memory.

    That is ``min(max(first * factor**ends, peak), most)``, in whole MiB.

    Parameters
    ----------
    first_b
        Bytes of the first request.
    factor
        Multiplier per end.
    ends
        Number of ends for lack of memory; other ends do not count.
    peak_b
        Most memory that the job was seen to use; ``None`` if unknown.
    most_b
        Most that it may request; ``None`` without a limit.
    of_usage
        Whether the factor multiplies the peak, where that is known.
    """
    if of_usage and peak_b is not None and ends:
        next_value = min(peak_b * factor, _LARGEST)
    else:
        next_value = max(_power(first_b, factor, ends), peak_b or 0)
    grown = math.ceil(next_value / MIB) * MIB
    return grown if most_b is None else min(grown, most_b)


def compute_walltime_s(first_s: float, factor: float, ends: int, *, most_s: float | None = None) -> float:
    """Return the seconds to request after a number of ends for lack of time."""
    next_value = _power(first_s, factor, ends)
    return next_value if most_s is None else min(next_value, most_s)


def _power(first: float, factor: float, ends: int) -> float:
    try:
        return float(min(first * factor**ends, _LARGEST))
    except OverflowError:
        return float(_LARGEST)


def grow_memory(
    request: Request,
    first_request: Request,
    *,
    factor: float,
    ends: int,
    peak_b: int | None,
    most_b: int | None,
    of_usage: bool,
) -> Request | None:
    """Return the next request of a job that ran out of memory; ``None`` if it already had the most allowed.

    `request` is the request of the attempt that ended, `first_request` that of the first attempt; the rest is as for
    `compute_memory_b`.
    """
    current_b = request.memory_b
    if current_b is not None and most_b is not None and current_b >= most_b:
        return None
    start = first_request.memory_b or current_b or peak_b
    if start is None:
        # No memory was requested or measured, so that a factor has nothing to multiply.
        return request
    next_value = compute_memory_b(start, factor, ends, peak_b=peak_b, most_b=most_b, of_usage=of_usage)
    if current_b is not None and next_value <= current_b:
        # A person raised it beyond the series meanwhile, or the peak was missed: it grows from there.
        next_value = compute_memory_b(current_b, factor, 1, most_b=most_b)
    return msgspec.structs.replace(request, memory_b=next_value)


def grow_walltime(
    request: Request, first_request: Request, *, factor: float, ends: int, most_s: float | None
) -> Request | None:
    """Return the next request of a job that ran out of time; ``None`` if it already had the most allowed."""
    current_s = request.walltime_s
    if current_s is None:
        # The limit is the workload manager's own: a time that was never requested cannot be multiplied.
        return request
    if most_s is not None and current_s >= most_s:
        return None
    next_value = compute_walltime_s(first_request.walltime_s or current_s, factor, ends, most_s=most_s)
    if next_value <= current_s:
        next_value = compute_walltime_s(current_s, factor, 1, most_s=most_s)
    return msgspec.structs.replace(request, walltime_s=next_value)


# Decisions.


_TOLD_CAUSES: Final = frozenset({Cause.PREEMPTED, Cause.TRANSFER, Cause.INPUT_MISSING})
"""Causes with a budget of their own in any case; that of lost attempts is counted apart."""
_SIGNALLED: Final = 128
UNSTARTABLE: Final[Mapping[int, str]] = {126: "the command cannot be executed", 127: "the command was not found"}
"""Exit codes by which shells tell that a command cannot be started, and what they mean."""
_NO_PROGRAM: Final = "exec format error"
"""The kernel's words for a file that is no program of this machine."""


class RetryRules(msgspec.Struct, frozen=True, kw_only=True):
    """Retry rules of one profile.

    Attributes
    ----------
    retries
        Attempts after the first that failed for any cause without a budget of its own.
    unless_exit
        Exit codes after which a retry is useless.
    unstartable
        Whether it is retried although its command cannot be started.
    retries_on_lost, retries_on_preempted
        Attempts after one that was lost, or preempted; budgets of their own.
    retries_on_transfer
        Attempts after one whose input was missing, or whose transfer failed; also a budget of its own.
    retries_on_memory, retries_on_time
        Attempts after one that ran out of memory, or of time, and can have more; ``None`` if these spend `retries`.
    on
        Ends after which it is retried all the same.
    retries_on_match
        Attempts after such an end; ``None`` if these spend `retries`.
    memory_factor, memory_most_b, memory_of_usage
        Growth of memory; see `longshore.engine.policy.retry`. Without growth the factor is ``None``.
    walltime_factor, walltime_most_s
        Growth of run time.
    abort_on
        Exit code that ends the run; ``None`` for no such code.
    backoff
        Delay before a retry; ``None`` for no delay.
    """

    retries: int = 0
    unless_exit: tuple[int, ...] = ()
    unstartable: bool = False
    retries_on_lost: int = 1
    retries_on_preempted: int = 20
    retries_on_transfer: int = 3
    retries_on_memory: int | None = None
    retries_on_time: int | None = None
    retries_on_match: int | None = None
    abort_on: int | None = None
    on: RetryOn | None = None
    memory_factor: float | None = None
    memory_most_b: int | None = None
    memory_of_usage: bool = False
    walltime_factor: float | None = None
    walltime_most_s: float | None = None
    backoff: Backoff | None = None

    @property
    def own_causes(self) -> frozenset[Cause]:
        """Causes of ended attempts that spend a budget of their own."""
        return _TOLD_CAUSES.union(
            {Cause.OOM} if self.memory_factor is not None and self.retries_on_memory is not None else (),
            {Cause.WALLTIME} if self.walltime_factor is not None and self.retries_on_time is not None else (),
        )

    def with_retries(self, retries: int) -> RetryRules:
        """Return the rules with another number of retries; 0 is none for any cause."""
        if retries:
            return msgspec.structs.replace(self, retries=retries, retries_on_match=None)
        return msgspec.structs.replace(
            self,
            retries=0,
            retries_on_lost=0,
            retries_on_preempted=0,
            retries_on_transfer=0,
            retries_on_memory=0,
            retries_on_time=0,
            retries_on_match=0,
        )


class BadEnds(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Bad ends of a job, the newest included.

    Attributes
    ----------
    tries
        All of them since its budget was fresh.
    lost, preempted, transfers
        How many of these were lost, preempted, or failed transfers of files, missing inputs included.
    ooms, overtimes
        Ends for lack of memory, and of time, since the job began: its request grew that often.
    spent_ooms, spent_overtimes
        These since its budget was fresh.
    """

    tries: int
    lost: int = 0
    preempted: int = 0
    transfers: int = 0
    ooms: int = 0
    overtimes: int = 0
    spent_ooms: int = 0
    spent_overtimes: int = 0


def make_retry_rules(settings: JobSettings, *, retries_on_lost: int, capacity: Mapping[str, int] | None) -> RetryRules:
    """Return the retry rules of a profile.

    Parameters
    ----------
    settings
        The profile's settings.
    retries_on_lost
        The run's setting, where the profile has none.
    capacity
        The largest amount of each resource that the service can grant; ``None`` if unknown.
    """
    rules = settings.rules
    growth = rules.growth
    factor = settings.attributes.get("memoryMultiplier")
    return RetryRules(
        retries=settings.number_of_retries,
        unless_exit=settings.retry_unless_exit,
        unstartable=rules.retry_unstartable,
        retries_on_lost=retries_on_lost if rules.retries_on_lost is None else rules.retries_on_lost,
        retries_on_preempted=rules.retries_on_preempted,
        retries_on_transfer=rules.retries_on_transfer,
        retries_on_memory=rules.retries_on_memory,
        retries_on_time=rules.retries_on_time,
        retries_on_match=rules.retries_on_match,
        abort_on=_exit_code(settings.attributes.get("abortOnValue")),
        on=rules.retry_on,
        memory_factor=float(factor) if isinstance(factor, int | float) and factor > 1 else None,
        memory_most_b=_memory_limit_b(settings, capacity),
        memory_of_usage=growth.of_usage,
        walltime_factor=growth.walltime,
        walltime_most_s=growth.walltime_most_s,
        backoff=rules.backoff if rules.backoff.first_s else None,
    )


def _memory_limit_b(settings: JobSettings, capacity: Mapping[str, int] | None) -> int | None:
    most = settings.attributes.get("requestMemoryMax")
    own_limit_b = int(most) if isinstance(most, int | float) else None
    limits_b = (own_limit_b, settings.rules.growth.memory_limit_b, (capacity or {}).get("memory"))
    return min((each for each in limits_b if each is not None), default=None)


def _exit_code(value: Scalar | None) -> int | None:
    return None if value is None else int(value)


def limit_first_request(request: Request, rules: RetryRules) -> Request:
    """Return the request of the first attempt: where memory may grow, never more than its limit."""
    if rules.memory_factor is None or rules.memory_most_b is None or request.memory_b is None:
        return request
    return msgspec.structs.replace(request, memory_b=min(request.memory_b, rules.memory_most_b))


def lowered_first_memory(settings: JobSettings) -> int | None:
    """Return the bytes of a first request that `memory_most_b` lowers on any service; ``None`` if unchanged."""
    limit_b = _memory_limit_b(settings, None)
    if limit_b is None or (settings.request.memory_b or 0) <= limit_b:
        return None
    rules = make_retry_rules(settings, retries_on_lost=0, capacity=None)
    first_request = limit_first_request(settings.request, rules).memory_b
    return None if first_request == settings.request.memory_b else first_request


def decide_retry(
    end: Ended | Lost,
    *,
    bad_ends: BadEnds,
    rules: RetryRules,
    request: Request | None = None,
    first_request: Request | None = None,
) -> Retry | Failed | Deleted:
    """Decide after a bad end: retry a job, fail it, or delete it as a person removed it.

    Parameters
    ----------
    end
        How its newest attempt ended.
    bad_ends
        The bad ends so far.
    rules
        The rules of its profile.
    request
        The request of that attempt.
    first_request
        The request of the first attempt.
    """
    if isinstance(end, Lost):
        return _after_loss(end, end.why, bad_ends, rules)
    if rules.abort_on is not None and end.exit == rules.abort_on:
        return Failed(j=end.j, why=f"exit code {end.exit} ends the run (abortOnValue)", aborts=True)
    if end.hopeless:
        return Failed(j=end.j, why=f"a retry cannot succeed{_reason(end)}")
    request = request or Request()
    match end.cause:
        case Cause.LOST:
            return _after_loss(end, end.reason or "", bad_ends, rules)
        case Cause.OOM:
            return _after_oom(end, bad_ends, rules, request, first_request or request)
        case Cause.WALLTIME:
            return _after_walltime(end, bad_ends, rules, request, first_request or request)
        case Cause.PREEMPTED:
            return _after_preemption(end, bad_ends, rules)
        case Cause.TRANSFER | Cause.INPUT_MISSING:
            return _after_transfer(end, bad_ends, rules)
        case Cause.CANCELLED:
            return _after_removal(end, bad_ends, rules)
        case _:
            return _after_other_end(end, bad_ends, rules)


def _after_loss(end: Ended | Lost, why: str, bad_ends: BadEnds, rules: RetryRules) -> Retry | Failed:
    """Decide after the loss of a machine, whether the workload manager reports it, or the end is unknown."""
    if bad_ends.lost <= rules.retries_on_lost:
        return Retry(j=end.j, a=end.a + 1, cause=Cause.LOST)
    reason = f": {why}" if why else ""
    return Failed(j=end.j, why=f"lost {bad_ends.lost} times, and retryOnLost is {rules.retries_on_lost}{reason}")


def _after_oom(
    end: Ended, bad_ends: BadEnds, rules: RetryRules, request: Request, first_request: Request
) -> Retry | Failed:
    if rules.memory_factor is None:
        return _retry_within_budget(end, bad_ends, rules)
    more = grow_memory(
        request,
        first_request,
        factor=rules.memory_factor,
        ends=bad_ends.ooms,
        peak_b=end.rss_b,
        most_b=rules.memory_most_b,
        of_usage=rules.memory_of_usage,
    )
    if more is None:
        had = f"{(request.memory_b or 0) / MIB:.0f} MiB"
        return Failed(j=end.j, why=f"out of memory with {had}, the most it may have{_reason(end)}")
    if rules.retries_on_memory is None:
        return _retry_within_budget(end, bad_ends, rules, request=more)
    told = f"out of memory {count_noun(bad_ends.spent_ooms, 'time')}, and retryOnMemory is {rules.retries_on_memory}"
    return _retry_own(end, told, is_left=bad_ends.spent_ooms <= rules.retries_on_memory, request=more)


def _after_walltime(
    end: Ended, bad_ends: BadEnds, rules: RetryRules, request: Request, first_request: Request
) -> Retry | Failed:
    if rules.walltime_factor is None:
        # With the same time it would come no further, only later.
        return Failed(j=end.j, why=f"out of time, and walltimeMultiplier is not set{_reason(end)}")
    more = grow_walltime(
        request, first_request, factor=rules.walltime_factor, ends=bad_ends.overtimes, most_s=rules.walltime_most_s
    )
    if more is None:
        return Failed(j=end.j, why=f"out of time with {request.walltime_s:.0f} s, the most it may have{_reason(end)}")
    if rules.retries_on_time is None:
        return _retry_within_budget(end, bad_ends, rules, request=more)
    told = f"out of time {count_noun(bad_ends.spent_overtimes, 'time')}, and retryOnTime is {rules.retries_on_time}"
    return _retry_own(end, told, is_left=bad_ends.spent_overtimes <= rules.retries_on_time, request=more)


def _after_preemption(end: Ended, bad_ends: BadEnds, rules: RetryRules) -> Retry | Failed:
    told = f"preempted {bad_ends.preempted} times, and retryOnPreempted is {rules.retries_on_preempted}"
    return _retry_own(end, told, is_left=bad_ends.preempted <= rules.retries_on_preempted)


def _after_transfer(end: Ended, bad_ends: BadEnds, rules: RetryRules) -> Retry | Failed:
    times = "once" if bad_ends.transfers == 1 else f"{bad_ends.transfers} times"
    told = f"files could not be transferred {times}, and retryOnTransfer is {rules.retries_on_transfer}"
    due = end.t + delay_s(rules.backoff, end.j, end.a, bad_ends.transfers) if rules.backoff else None
    return _retry_own(end, told, is_left=bad_ends.transfers <= rules.retries_on_transfer, not_before=due)


def _retry_own(
    end: Ended, told: str, *, is_left: bool, request: Request | None = None, not_before: float | None = None
) -> Retry | Failed:
    """Retry a job while a budget of its cause's own `is_left`, else fail it; `told` says what is spent."""
    if not is_left:
        return Failed(j=end.j, why=f"{told}{_reason(end)}")
    return Retry(j=end.j, a=end.a + 1, cause=end.cause or Cause.EXIT, request=request, not_before=not_before)


def _after_removal(end: Ended, bad_ends: BadEnds, rules: RetryRules) -> Retry | Deleted:
    """A person removed the job from its workload manager: it is deleted, unless removed jobs are to be retried."""
    is_wanted = rules.on is not None and rules.on.operator
    decision = _retry_within_budget(end, bad_ends, rules, is_wanted=True) if is_wanted else None
    return decision if isinstance(decision, Retry) else Deleted(jobs=(end.j,), why=end.reason or "a person removed it")


def _after_other_end(end: Ended, bad_ends: BadEnds, rules: RetryRules) -> Retry | Failed:
    wanted = rules.on is not None and _matches(rules.on, end)
    if not wanted:
        if rules.on is not None and rules.on.only:
            return Failed(j=end.j, why=f"{_describe_end(end)} is not listed in retryOn{_reason(end)}")
        if end.exit is not None and end.exit in rules.unless_exit:
            return Failed(j=end.j, why=f"exit code {end.exit} is in retryUnlessExit")
        if not rules.unstartable and (fault := _start_fault(end)):
            return Failed(j=end.j, why=f"{fault}, and a retry would end alike{_reason(end)}")
        if end.cause is Cause.OUTPUT:
            return Failed(j=end.j, why=f"a retry would write as large a log{_reason(end)}")
    return _retry_within_budget(end, bad_ends, rules, has_backoff=True, is_wanted=wanted)


def _start_fault(end: Ended) -> str:
    """Return why the command cannot be started; empty if it was, or nothing tells."""
    if end.cause not in {Cause.EXIT, Cause.PREDICATE}:
        return ""
    if end.reason and _NO_PROGRAM in end.reason.lower():
        return "the command is no program of this machine"
    meaning = UNSTARTABLE.get(end.exit) if end.exit is not None else None
    return f"{meaning} (exit code {end.exit})" if meaning else ""


def _matches(on: RetryOn, end: Ended) -> bool:
    # A shell that ran the command reports a signal as 128 plus its number, and few commands run without a shell.
    signal = end.signal if end.exit is None else end.exit - _SIGNALLED
    return end.matched or end.exit in on.exit or signal in on.signal


def _retry_within_budget(
    end: Ended,
    bad_ends: BadEnds,
    rules: RetryRules,
    *,
    request: Request | None = None,
    has_backoff: bool = False,
    is_wanted: bool = False,
) -> Retry | Failed:
    """Retry a job while the budget that most causes share lasts, else fail it; `is_wanted` is an end of ``retryOn``."""
    counted = bad_ends.tries - bad_ends.lost - bad_ends.preempted - bad_ends.transfers
    counted -= bad_ends.spent_ooms if Cause.OOM in rules.own_causes else 0
    counted -= bad_ends.spent_overtimes if Cause.WALLTIME in rules.own_causes else 0
    matched = rules.retries_on_match if is_wanted else None
    if counted > (rules.retries if matched is None else matched):
        budget = f"numberOfRetries is {rules.retries}" if matched is None else f"retryOn allows {matched} retries"
        return Failed(j=end.j, why=f"no attempt left: {budget}{_reason(end)}")
    due = end.t + delay_s(rules.backoff, end.j, end.a, counted) if has_backoff and rules.backoff else None
    return Retry(j=end.j, a=end.a + 1, cause=end.cause or Cause.EXIT, request=request, not_before=due)


def delay_s(backoff: Backoff, job: int, attempt: int, tries: int) -> float:
    """Return the back-off in seconds after an attempt: doubled each time, and between half of that and all of it.

    The share is drawn from the numbers of the job and the attempt, so that jobs that fail together do not come back
    together, and so that the same history always gives the same answer.
    """
    longest_s = min(backoff.first_s * 2.0 ** min(tries - 1, 60), backoff.most_s)
    return round(longest_s * (0.5 + 0.5 * _pseudo_random(job, attempt)), 3)


def _pseudo_random(job: int, attempt: int) -> float:
    """Return a pseudo-random number from 0 to 1 (the finaliser of SplitMix64)."""
    number = (job * 0x9E3779B97F4A7C15 + attempt * 0xD1B54A32D192ED03) % 2**64
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        number = (number ^ (number >> shift)) * factor % 2**64
    return (number ^ (number >> 31)) / 2**64


def _describe_end(end: Ended) -> str:
    if end.signal is not None:
        return f"signal {end.signal}"
    return f"exit code {end.exit}" if end.exit is not None else f"an end by {end.cause}"


def _reason(end: Ended) -> str:
    return f": {end.reason}" if end.reason else ""
