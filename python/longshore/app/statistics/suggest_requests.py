"""Suggested requests of a label, from what its attempts used (pure)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from longshore.model.distribution import quantile
from longshore.model.run.attempt import Attempt
from longshore.model.run.states import Cause, JobState
from longshore.model.workflow.request import MIB, Request, round_up
from longshore.model.workflow.request_margin import DEFAULT_MARGIN

MIN_PERCENTILE: Final = 20
"""Values from which on their 95th percentile differs from their maximum; fewer give the maximum."""
MIN_SUCCESSES: Final = 3
"""Successes below which a suggestion is called a guess."""
_LEAST_MARGIN_B: Final = 16 * MIB
"""Memory above what was measured: small programs differ by this between hosts."""
_BOUND_FACTOR: Final = 2.0
"""Factor on a lower bound, as the engine has for a retry."""
_WALLTIME_FACTOR: Final = 1.5
"""Least factor on run times, which vary with the host; a job beyond its time is killed."""
_SAME: Final = 0.1
"""Part of a request by which a lower one must differ to be worth a change."""
LEAST_RUN_S: Final = 1.0
"""Shortest run time that says how many processors a job uses: the start of a process has a share of a shorter one."""
_IDLE_CPUS: Final = 0.1
"""Use of one more processor that does not need it."""


class Basis(StrEnum):
    """What a suggestion rests on."""

    P95 = "p95"
    MAX = "max"
    BOUND = "bound"
    """A lower bound: attempts ran out of it, and no attempt of their job succeeded."""


class Usage(NamedTuple):
    """An attempt with what it requested; `run` is the number of its run among several."""

    run: int
    attempt: Attempt
    request: Request


class SuggestedValue(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A suggested value, and where it comes from.

    Attributes
    ----------
    key
        Key of the configuration.
    requested, suggested
        Value now and from here on: bytes, processors or seconds; ``None`` where nothing is requested.
    basis, measured
        What the suggestion rests on.
    samples
        Number of measured values.
    exceeding
        Those of them that are above the suggestion: jobs that would be retried.
    bounds
        Jobs that ran out of it in all their attempts.
    """

    key: str
    requested: float | None
    suggested: float
    basis: Basis
    measured: float
    samples: int
    exceeding: int = 0
    bounds: int = 0

    @property
    def is_change(self) -> bool:
        """Whether the suggestion differs from the request by enough."""
        if self.requested is None or self.suggested > self.requested:
            return True
        return self.suggested <= self.requested * (1 - _SAME)


class LabelSuggestion(msgspec.Struct, frozen=True, kw_only=True):
    """Suggested requests of a label, and what they save of the measured runs.

    Attributes
    ----------
    attempts, successes
        Attempts that ended, and those that succeeded.
    values
        Values for memory, processors and run time, as far as something was measured.
    expected_retries
        Jobs that would be retried, and `avoided_retries` the attempts that would not have failed.
    core_s, memory_b_s
        Core seconds and byte seconds that the runs would not have taken; negative if they would have taken more.
    why_none
        Why there is no suggestion; empty if there is one.
    """

    label: str
    attempts: int
    successes: int
    values: tuple[SuggestedValue, ...] = ()
    expected_retries: int = 0
    avoided_retries: int = 0
    core_s: float = 0.0
    memory_b_s: float = 0.0
    why_none: str = ""

    @property
    def is_guess(self) -> bool:
        """Whether too few attempts succeeded to rely on."""
        return self.successes < MIN_SUCCESSES

    @property
    def why_unchanged(self) -> str:
        """Why the requests stay as they are; empty if some change."""
        if self.why_none or self.changes:
            return self.why_none
        has_memory = any(value.key == "requestMemory" for value in self.values)
        return "its requests fit" if has_memory else "its peak memory is unknown"

    @property
    def changes(self) -> tuple[SuggestedValue, ...]:
        """Values that are worth a change."""
        return tuple(value for value in self.values if value.is_change)


def suggest_requests(
    label: str, usages: Sequence[Usage], requests: Sequence[Request], *, margin: float = DEFAULT_MARGIN
) -> LabelSuggestion:
    """Suggest requests for the jobs of a label.

    Parameters
    ----------
    usages
        Its attempts, of one run or several.
    requests
        The different requests that its first attempts have; the first one is what is compared.
    margin
        Factor on what was measured.
    """
    ended = [usage for usage in usages if usage.attempt.ended_at is not None]
    good = [usage for usage in ended if usage.attempt.state is JobState.SUCCEEDED]
    known = LabelSuggestion(label=label, attempts=len(ended), successes=len(good))
    if len(set(map(Request.key, requests))) > 1:
        return msgspec.structs.replace(
            known, why_none="its jobs request different amounts, which one value would replace"
        )
    values = tuple(
        value
        for value in (
            _suggest_memory(ended, good, requests[0], margin),
            _suggest_cpus(good, requests[0]),
            _suggest_walltime(ended, good, requests[0], margin),
        )
        if value is not None
    )
    if not values:
        why = (
            "nothing was measured of its attempts" if good else "no attempt succeeded" if ended else "no attempt ended"
        )
        return msgspec.structs.replace(known, why_none=why)
    return _with_savings(msgspec.structs.replace(known, values=values), ended, good)


def _suggest_memory(
    ended: Sequence[Usage], good: Sequence[Usage], request: Request, margin: float
) -> SuggestedValue | None:
    peaks = sorted(usage.attempt.peak_memory_b for usage in good if usage.attempt.peak_memory_b)
    bounds = [
        max(usage.attempt.peak_memory_b or 0, usage.request.memory_b or 0)
        for usage in _never_succeeded(ended, good, Cause.OOM)
    ]
    measured, basis = _measure(peaks, bounds)
    if basis is None:
        return None
    wanted = measured * _BOUND_FACTOR if basis is Basis.BOUND else max(measured * margin, measured + _LEAST_MARGIN_B)
    suggested = round_up(math.ceil(wanted / MIB)) * MIB
    return SuggestedValue(
        key="requestMemory",
        requested=request.memory_b,
        suggested=suggested,
        basis=basis,
        measured=measured,
        samples=len(peaks),
        exceeding=sum(peak > suggested for peak in peaks),
        bounds=len(bounds),
    )


def _suggest_cpus(good: Sequence[Usage], request: Request) -> SuggestedValue | None:
    used = sorted(
        usage.attempt.cpu_s / usage.attempt.run_s
        for usage in good
        if usage.attempt.cpu_s is not None and usage.attempt.run_s and usage.attempt.run_s >= LEAST_RUN_S
    )
    measured, basis = _measure(used, ())
    if basis is None:
        return None
    return SuggestedValue(
        key="requestCpus",
        requested=request.cpus,
        suggested=max(1, math.ceil(measured - _IDLE_CPUS)),
        basis=basis,
        measured=measured,
        samples=len(used),
    )


def _suggest_walltime(
    ended: Sequence[Usage], good: Sequence[Usage], request: Request, margin: float
) -> SuggestedValue | None:
    """Suggest a run time where one is requested: a new limit would only add a way to fail."""
    if request.walltime_s is None:
        return None
    times = sorted(usage.attempt.run_s for usage in good if usage.attempt.run_s is not None)
    bounds = [
        max(usage.attempt.run_s or 0.0, usage.request.walltime_s or 0.0)
        for usage in _never_succeeded(ended, good, Cause.WALLTIME)
    ]
    most, basis = _measure(times[-1:], bounds)
    if basis is None:
        return None
    factor = _BOUND_FACTOR if basis is Basis.BOUND else max(margin, _WALLTIME_FACTOR)
    return SuggestedValue(
        key="requestWalltime",
        requested=request.walltime_s,
        suggested=_round_time(most * factor),
        basis=basis,
        measured=most,
        samples=len(times),
        bounds=len(bounds),
    )


def _measure(ascending: Sequence[float], bounds: Sequence[float]) -> tuple[float, Basis | None]:
    """Return the value that a request must exceed, and what it is."""
    measured, basis = 0.0, None
    if ascending:
        basis = Basis.P95 if len(ascending) >= MIN_PERCENTILE else Basis.MAX
        measured = (quantile(ascending, 0.95) or 0.0) if basis is Basis.P95 else ascending[-1]
    if bounds and max(bounds) >= measured:
        return max(bounds), Basis.BOUND
    return measured, basis


def _never_succeeded(ended: Sequence[Usage], good: Sequence[Usage], cause: Cause) -> list[Usage]:
    """Return, per job without success, the last attempt that ran out of something."""
    succeeded = {(usage.run, usage.attempt.job) for usage in good}
    last = {
        (usage.run, usage.attempt.job): usage
        for usage in sorted(ended, key=lambda usage: usage.attempt.number)
        if usage.attempt.cause is cause
    }
    return [usage for job, usage in last.items() if job not in succeeded]


def _round_time(seconds: float) -> float:
    minutes = math.ceil(seconds / 60)
    step = 1 if minutes <= 60 else 5 if minutes <= 360 else 30
    return float(-(-minutes // step) * step * 60)


def _with_savings(suggestion: LabelSuggestion, ended: Sequence[Usage], good: Sequence[Usage]) -> LabelSuggestion:
    """Add what the measured runs would have saved with the changes."""
    changes = {value.key: value for value in suggestion.changes}
    memory, cpus = changes.get("requestMemory"), changes.get("requestCpus")
    core_s = memory_b_s = 0.0
    for usage in good:
        run_s = usage.attempt.run_s or 0.0
        is_retried = memory is not None and (usage.attempt.peak_memory_b or 0) > memory.suggested
        if memory is not None and usage.request.memory_b is not None:
            memory_b_s += run_s * (usage.request.memory_b - memory.suggested * (_BOUND_FACTOR if is_retried else 1.0))
        if cpus is not None:
            core_s += run_s * (usage.request.cpus - cpus.suggested)
        if is_retried and memory is not None:
            # The attempt that would fail before it, at most for its run time.
            memory_b_s -= run_s * memory.suggested
            core_s -= run_s * (usage.request.cpus if cpus is None else cpus.suggested)
    avoided = list(_avoided_attempts(ended, good, changes.values()))
    for usage in avoided:
        core_s += (usage.attempt.run_s or 0.0) * usage.request.cpus
        memory_b_s += (usage.attempt.run_s or 0.0) * (usage.request.memory_b or 0)
    return msgspec.structs.replace(
        suggestion,
        expected_retries=0 if memory is None else memory.exceeding,
        avoided_retries=len(avoided),
        core_s=core_s,
        memory_b_s=memory_b_s,
    )


def _avoided_attempts(
    ended: Sequence[Usage], good: Sequence[Usage], changes: Iterable[SuggestedValue]
) -> Iterator[Usage]:
    """Yield the attempts that ran out of something which the suggestion has enough of for their job."""
    suggested = {value.key: value.suggested for value in changes}
    memory_b, walltime_s = suggested.get("requestMemory", 0.0), suggested.get("requestWalltime", 0.0)
    used = {(usage.run, usage.attempt.job): usage.attempt for usage in good}
    for usage in ended:
        success = used.get((usage.run, usage.attempt.job))
        had: float | None
        needs: float | None
        if usage.attempt.cause is Cause.OOM:
            had, has, needs = usage.request.memory_b, memory_b, success.peak_memory_b if success else None
        elif usage.attempt.cause is Cause.WALLTIME:
            had, has, needs = usage.request.walltime_s, walltime_s, success.run_s if success else None
        else:
            continue
        if (had or 0) < has and (needs or 0) <= has:
            yield usage
