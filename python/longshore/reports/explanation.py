"""What an explanation of a job says: the reasons for its state, as records and in words."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from longshore.contract.service import RunPaths
from longshore.engine.run_settings import read_settings
from longshore.engine.shares import LIMIT_PREFIX, read_entries
from longshore.errors import LongshoreError
from longshore.model.event import (
    Attempt,
    AttemptFacts,
    Deleted,
    Ended,
    Event,
    Failed,
    Lost,
    Refused,
    Restarted,
    Retry,
    Started,
    Steer,
    Submitted,
    Submitting,
)
from longshore.model.report import (
    INDENT,
    TextPrinter,
    escape_controls,
    failure_text,
    format_duration,
    format_signal,
    format_size,
    staged_text,
)
from longshore.model.states import Cause, JobState
from longshore.model.submission import REUSED_BATCH, REUSED_FROM
from longshore.model.wording import count_noun, format_moment, signal_name
from longshore.model.workflow import WHOLE_NODE_B, Allocation, JobSettings, Request
from longshore.reports.show_job import (
    AskedResources,
    RetryBudget,
    amount_text,
    budget_texts,
    request_text,
    retries_text,
)


class LimitUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Concurrency limit: its maximum, and the amount held per run id."""

    name: str
    maximum: int
    used_by_run: Mapping[str, int]

    @property
    def is_reached(self) -> bool:
        """Whether nothing of the limit is left."""
        return sum(self.used_by_run.values()) >= self.maximum


def limit_usage(run: RunPaths, settings: JobSettings) -> tuple[LimitUsage, ...]:
    """Return the limits that a job names and that have a maximum, with the runs that hold some of them."""
    if not settings.concurrency:
        return ()
    try:
        maxima = read_settings(run).concurrency_limits
        entries = read_entries()
    except (OSError, LongshoreError):
        # Runs of other services have none; without any run so far the host has no file.
        return ()
    return tuple(
        LimitUsage(
            name=name,
            maximum=maxima[name],
            used_by_run={
                each.run: amount for each in entries if (amount := each.holds.get(f"{LIMIT_PREFIX}{name}", 0))
            },
        )
        for name in settings.concurrency
        if name in maxima
    )


class RelatedJob(msgspec.Struct, frozen=True, kw_only=True):
    """Related job, with its newest attempt and that attempt's log, if any and relevant."""

    name: str
    state: JobState
    attempt: Attempt | None = None
    log: str | None = None


class PoolUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Free resources of this machine's pool.

    `capacity` and `free` are amounts per resource, `requested` is the job's request, `active` counts
    dispatched jobs that are not over.
    """

    capacity: Mapping[str, int]
    free: Mapping[str, int]
    requested: Mapping[str, int]
    active: int

    @property
    def fits(self) -> bool:
        """Whether the job could start now."""
        return all(amount <= self.free[name] for name, amount in self.requested.items())


class BlockingGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Group of jobs that an ordering puts before this one.

    `title` is its display name. With `must_succeed` all its jobs must succeed, else they only must be over;
    `unfinished` counts those that have not yet done so.
    """

    title: str
    must_succeed: bool
    unfinished: int


class ThrottleUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Throttle: how many jobs may be active at once.

    `label` is ``None`` for the whole run. `active` is the number at the engine's last report.
    """

    label: str | None
    maximum: int
    active: int


class JobExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """Explanation of a job.

    `parents` is their number; `waits_for` are those that have not succeeded, `blocking_groups` block it.
    `causes` are the jobs at the root: what it waits for, or whose failure or cancellation pruned it. `request` is
    that of the newest attempt, or of the next one; `asked` is what that means in the workload manager's own words, if
    it has any. `attempts` are sorted, oldest first; `logs` are paths per attempt number; `events` are those of the job.

    `retries` is the largest number of attempts after the first, of which `used_retries` are spent; `retry_budgets`
    are those of ends with a budget of their own. `not_before` is the earliest time of the next attempt. `note` says
    why the engine waits. `counts` are jobs per state, `throttles` bound similar jobs, both at the engine's last
    report. `is_engine_alive` is ``None`` if that is unknown; `stopped_at` is a dead engine's last sign of life.
    `limits` are given while the job is ready. `manager_reason` is the workload manager's own reason. `pause` says
    why the run is paused, and is empty if it is not.

    `as_of` is the time of the explanation. `reasons` are the reasons for the state, a sentence each, the most important
    first. `text` is the whole explanation as ``longshore explain`` prints it; ``print`` and notebooks show it.
    """

    as_of: float
    run: str
    name: str
    index: int
    label: str
    state: JobState
    is_undecided: bool
    is_final: bool
    parents: int
    waits_for: tuple[RelatedJob, ...]
    causes: tuple[RelatedJob, ...]
    request: Request
    attempts: tuple[Attempt, ...]
    logs: Mapping[int, str]
    events: tuple[tuple[str, Event], ...]
    retries: int
    retry_unless_exit: tuple[int, ...]
    used_retries: int
    not_before: float | None
    note: str
    counts: Mapping[JobState, int] = msgspec.field(default_factory=dict)
    room: PoolUsage | None = None
    throttles: tuple[ThrottleUsage, ...] = ()
    is_engine_alive: bool | None = None
    stopped_at: float | None = None
    is_run_finished: bool = False
    manager_reason: str = ""
    blocking_groups: tuple[BlockingGroup, ...] = ()
    limits: tuple[LimitUsage, ...] = ()
    pause: str = ""
    asked: AskedResources | None = None
    retry_budgets: tuple[RetryBudget, ...] = ()
    reasons: Sequence[str] = ()
    text: str = ""

    def __str__(self) -> str:
        """Return the text."""
        return self.text

    def _repr_pretty_(self, printer: TextPrinter, *_: object) -> None:
        printer.text(self.text)

    @property
    def why_failed(self) -> str | None:
        """Why no attempt was left."""
        reasons = [event.why for _, event in self.events if isinstance(event, Failed)]
        return reasons[-1] if reasons and self.state is JobState.FAILED else None

    @property
    def cancelled_by(self) -> Steer | None:
        """Newest cancel intervention that selected the job."""
        return self._newest_intervention("cancel")

    @property
    def removed_why(self) -> str:
        """What the workload manager says of the removal that deleted the job; empty if an order did."""
        found = [event.why for _, event in self.events if isinstance(event, Deleted)]
        return found[-1] if found and self.state is JobState.DELETED else ""

    @property
    def held_by(self) -> Steer | None:
        """Newest hold intervention that selected the job."""
        return self._newest_intervention("hold")

    def _newest_intervention(self, act: str) -> Steer | None:
        orders = [event for _, event in self.events if isinstance(event, Steer) and event.act == act]
        return orders[-1] if orders else None


# Reasons for a state, a sentence each.


_MAX_NAMES: Final = 5
_MIB: Final = 1024**2


def state_reasons(job: JobExplanation) -> list[str]:
    """Reasons for a job's state, a sentence each, the most important first."""
    return list(_reasons(job))


def _reasons(job: JobExplanation) -> Iterator[str]:
    if job.pause and job.state in {JobState.READY, JobState.UNREADY}:
        yield f"The run is PAUSED: {job.pause}; to continue it: longshore unpause {job.run}"
    yield from _REASONS.get(job.state, _why_other)(job)
    if job.stopped_at is not None:
        yield f"The engine is not running since {format_moment(job.stopped_at)}: longshore resume {job.run}"


def _why_pending(job: JobExplanation) -> Iterator[str]:
    newest = job.attempts[-1] if job.attempts else None
    since = f" since {format_moment(newest.submitted_at)}" if newest and newest.submitted_at else ""
    what = f" as '{newest.wms_id}'" if newest and newest.wms_id else ""
    yield f"It was handed to the workload manager{what} and has not been seen to start{since}."
    if job.manager_reason:
        yield f"The workload manager gives as its reason: {job.manager_reason}."


def _why_succeeded(job: JobExplanation) -> Iterator[str]:
    for newest in job.attempts[-1:]:
        if kept_from := newest.extra.get(REUSED_FROM):
            yield f"Its result was kept from run '{kept_from}'."
            return
        told = f", but {newest.reason}" if newest.outputs else ""
        yield f"Its attempt {newest.number} succeeded{_after_duration(newest)}{told}."
    if failed_attempts := [attempt for attempt in job.attempts if attempt.cause]:
        outcomes = "; ".join(map(outcome_text, failed_attempts[-_MAX_NAMES:]))
        yield f"Before that, {_attempts_text(len(failed_attempts))} ended badly: {outcomes}."


def _why_failed(job: JobExplanation) -> Iterator[str]:
    for newest in job.attempts[-1:]:
        yield f"Its attempt {newest.number} ended badly: {outcome_text(newest)}."
        if job.why_failed:
            # The reason stands on the line above.
            yield f"It was not tried again: {job.why_failed.removesuffix(f': {newest.reason}')}."
        if newest.cause is Cause.OOM:
            memory = f"--set requestMemory={_more_memory_mb(newest)} --label {shlex.quote(job.label)}"
            yield f"To run it again with more memory: longshore restart {job.run} {memory}"


def _why_deleted(job: JobExplanation) -> Iterator[str]:
    if job.removed_why:
        yield f"It was removed from the workload manager, by no order of Longshore: {job.removed_why}."
        yield f"'retryOn: {{operator: true}}' retries such jobs. To run it again now: longshore restart {job.run}"
        return
    order = job.cancelled_by
    yield f"It was cancelled{f' by {order.who} at {format_moment(order.t)}' if order else ''}."


def _why_other(job: JobExplanation) -> Iterator[str]:
    if job.state is JobState.UNKNOWN and job.is_engine_alive is None:
        yield "It was handed over; the workload manager cannot be asked, so what became of it since is not known."
    elif job.state is JobState.UNKNOWN:
        yield "It was handed over when the engine was last there; what became of it since is not known."
    for newest in job.attempts[-1:]:
        if newest.reason:
            yield newest.reason


def _why_unready(job: JobExplanation) -> Iterator[str]:
    if job.is_final:
        number = len(job.waits_for)
        others = f"{count_noun(number, 'other')} {'is' if number == 1 else 'are'}"
        yield f"It is the final job: {others} not over yet{_example_jobs(job.waits_for)}."
        return
    if job.waits_for or not job.blocking_groups:
        parents = "parent has" if job.parents == 1 else "parents have"
        yield f"{len(job.waits_for)} of its {job.parents} {parents} not succeeded yet: {_join_jobs(job.waits_for)}."
    for group in job.blocking_groups:
        yield _barrier_reason(group)
    named = {other.name for other in job.waits_for}
    if any(cause.name not in named for cause in job.causes):
        yield f"In the end it waits for {_join_jobs(job.causes)}."


def _barrier_reason(group: BlockingGroup) -> str:
    verb, is_or_are = ("has", "is") if group.unfinished == 1 else ("have", "are")
    still = f"{verb} not succeeded" if group.must_succeed else f"{is_or_are} not over"
    return f"It comes after the group {group.title}, of which {count_noun(group.unfinished, 'last job')} {still} yet."


def _why_ready(job: JobExplanation) -> Iterator[str]:
    yield from _retry_reasons(job)
    for throttle in job.throttles:
        if throttle.active >= throttle.maximum:
            yield _throttle_reason(throttle, job.run)
    for limit in job.limits:
        if limit.is_reached:
            who = ", ".join(f"{amount} by run {run}" for run, amount in limit.used_by_run.items())
            yield f"It waits for the limit '{limit.name}', of which {limit.maximum} may be taken at once: {who}."
    if job.note and not job.pause:
        yield f"The engine waits: {job.note}."
    if job.room:
        yield from _room_reasons(job, job.room)


def _retry_reasons(job: JobExplanation) -> Iterator[str]:
    """How the newest attempt of a job that is not over failed, and when the next one starts."""
    for newest in job.attempts[-1:]:
        if newest.cause:
            yield f"Its attempt {newest.number} ended badly: {outcome_text(newest)}."
    if job.is_undecided:
        yield "The engine has not yet decided whether it is tried again."
    if _is_delayed(job) and job.not_before is not None:
        yield f"It is tried again at {format_moment(job.not_before)} at the earliest."


def _is_delayed(job: JobExplanation) -> bool:
    return job.not_before is not None and job.not_before > job.as_of


def _room_reasons(job: JobExplanation, room: PoolUsage) -> Iterator[str]:
    if not room.fits:
        short = [name for name, amount in room.requested.items() if amount > room.free[name]]
        shortages = ", ".join(_shortage(room, name) for name in short)
        yield f"There is not enough room: {shortages}; {_active_jobs(room)}."
    elif not (
        job.pause
        or _is_delayed(job)
        or job.is_undecided
        or job.stopped_at is not None
        or any(limit.is_reached for limit in job.limits)
    ):
        ready = job.counts.get(JobState.READY, 0)
        rest = f"; {ready} jobs were ready when the engine last said" if ready > 1 else ""
        yield f"There is room for it now: the engine starts it in its turn{rest}."


def _throttle_reason(throttle: ThrottleUsage, run: str) -> str:
    whose, option = (
        ("", "") if throttle.label is None else (f" of label {throttle.label}", f" --label {throttle.label}")
    )
    return (
        f"It is throttled: at most {count_noun(throttle.maximum, 'job')}{whose} may be active at once, and "
        f"{throttle.active} {'is' if throttle.active == 1 else 'are'}: longshore throttle {run} --off{option}"
    )


def _why_held(job: JobExplanation) -> Iterator[str]:
    if job.manager_reason:
        yield from _why_pending(job)
        return
    order = job.held_by
    by = f" by {order.who} at {format_moment(order.t)}" if order else ""
    release = f"--job {shlex.quote(job.name)}"
    if order and (labels := order.select.get("labels")):
        release = " ".join(f"--label {shlex.quote(label)}" for label in labels)
    yield f"It was held{by}; to let it go on: longshore release {job.run} {release}"


def _why_running(job: JobExplanation) -> Iterator[str]:
    for attempt in job.attempts[-1:]:
        where = f" on {attempt.host}" if attempt.host else ""
        since = f" since {format_moment(attempt.started_at)}" if attempt.started_at is not None else ""
        # Records never subtract the clocks of two hosts; text for people may.
        long_s = None if attempt.started_at is None else max(0.0, job.as_of - attempt.started_at)
        long = "" if long_s is None else f", for about {format_duration(long_s)}"
        yield f"Its attempt {attempt.number} runs{where}{since}{long}."


def _why_pruned(job: JobExplanation) -> Iterator[str]:
    if job.is_final:
        yield "What it would have gathered did not all succeed."
    if not job.causes:
        return
    more = len(job.causes) - _MAX_NAMES
    yield f"It descends from {len(job.causes)} that did not succeed:" if job.causes[1:] else "It descends from:"
    for other in job.causes[:_MAX_NAMES]:
        how = f": {outcome_text(other.attempt)}" if other.attempt and _says_more(other.attempt) else ""
        log = f", log {other.log}" if other.log and other.attempt and other.attempt.cause is not Cause.SUBMIT else ""
        yield f"{INDENT}{other.name} ({other.state}{how}{log})"
    if more > 0:
        yield f"{INDENT}and {more} more"


def outcome_text(attempt: Attempt) -> str:
    """Format how an attempt ended, as short as possible."""
    times_text = attempt.cause is not None or attempt.signal is not None or attempt.exit_code is not None
    words = failure_text(attempt.cause, attempt.exit_code, attempt.signal) if times_text else "no outcome yet"
    # A reason without new information repeats the exit code or the signal.
    same = {words, f"killed by {signal_name(attempt.signal)}" if attempt.signal is not None else words}
    return f"{words} ({attempt.reason})" if attempt.reason and attempt.reason not in same else words


def _says_more(attempt: Attempt) -> bool:
    """Whether how an attempt ended says more than the state of its job: one that was cancelled is DELETED."""
    return attempt.cause not in {None, Cause.CANCELLED}


def _more_memory_mb(attempt: Attempt) -> int:
    """Twice the memory that an attempt requested or used, in MiB."""
    requested_b = attempt.requested.memory_b if attempt.requested else None
    return 2 * max(requested_b or 0, attempt.peak_memory_b or 0, _MIB) // _MIB


def _shortage(room: PoolUsage, name: str) -> str:
    requested, free = (amount_text(name, amounts[name]) for amounts in (room.requested, room.free))
    return f"it asks for {requested} of {name}, and {free} is free"


def _active_jobs(room: PoolUsage) -> str:
    return f"{room.active} job{' has' if room.active == 1 else 's have'} the rest"


def _after_duration(attempt: Attempt) -> str:
    return f" after {format_duration(attempt.run_s)}" if attempt.run_s is not None else ""


def _attempts_text(number: int) -> str:
    return "an attempt" if number == 1 else f"{number} attempts"


def _example_jobs(others: Sequence[RelatedJob]) -> str:
    return f", such as {_join_jobs(others)}" if others else ""


def _join_jobs(others: Sequence[RelatedJob]) -> str:
    more = f" and {len(others) - _MAX_NAMES} more" if others[_MAX_NAMES:] else ""
    return ", ".join(f"{other.name} ({other.state})" for other in others[:_MAX_NAMES]) + more


_REASONS: Final[Mapping[JobState, Callable[[JobExplanation], Iterator[str]]]] = {
    JobState.UNREADY: _why_unready,
    JobState.READY: _why_ready,
    JobState.PENDING: _why_pending,
    JobState.HELD: _why_held,
    JobState.RUNNING: _why_running,
    JobState.SUCCEEDED: _why_succeeded,
    JobState.FAILED: _why_failed,
    JobState.DELETED: _why_deleted,
    JobState.PRUNED: _why_pruned,
}
"""Function per state that gives the reasons for it."""


# History of a job, a line per event.


def event_text(event: Event, job: int) -> str:
    """Format an event as a line: its time, and its meaning for the job of that index."""
    formatter = _FORMATTERS.get(type(event))
    return f"{format_moment(event.t)}  {formatter(event, job) if formatter else type(event).__name__.lower()}"


def _submitting(event: Submitting, job: int) -> str:
    number = next(attempt for member, attempt in event.jobs if member == job)
    with_others = f", with {len(event.jobs) - 1} others" if event.jobs[1:] else ""
    return f"attempt {number} is submitted, in batch {event.b}{with_others}"


def _submitted(event: Submitted, _: int) -> str:
    identity = f", which knows it as {event.id}" if event.id != event.b else ""
    return f"the workload manager took batch {event.b}{identity}"


def _refused(event: Refused, _: int) -> str:
    spent = "which counts as an attempt" if event.spent else "which costs no attempt"
    return f"batch {event.b} was not taken ({spent}): {event.why}"


def _started(event: Started, _: int) -> str:
    return f"attempt {event.a} started{f' on {event.host}' if event.host else ''}"


def _ended(event: Ended, _: int) -> str:
    used = [f"after {format_duration(event.run_s)}"] if event.run_s is not None else []
    used += [f"peak memory {format_size(event.rss_b)}"] if event.rss_b is not None else []
    details = f" ({', '.join(used)})" if used else ""
    if event.cause is None and (run := event.extra.get(REUSED_FROM)):
        return f"its result was kept from run '{run}'"
    if event.cause is None:
        told = f", but {event.reason}" if event.outputs and event.reason else ""
        return f"attempt {event.a} succeeded{details}{told}"
    outcome = format_signal(event.signal) if event.signal is not None else f"exit code {event.exit}"
    identity = outcome if event.signal is not None or event.exit is not None else "no exit code"
    same = {identity, f"killed by {identity.removeprefix('signal ')}"}
    reason = f": {event.reason}" if event.reason and event.reason not in same else ""
    return f"attempt {event.a} ended badly, {event.cause.value}, {identity}{details}{reason}"


def _attempt_facts(event: AttemptFacts, _: int) -> str:
    used = [f"peak memory {format_size(event.rss_b)}"] if event.rss_b is not None else []
    used += [f"{format_duration(event.cpu_s)} of processor"] if event.cpu_s is not None else []
    used += [f"{format_duration(event.queue_s)} in the queue"] if event.queue_s is not None else []
    return f"accounting has attempt {event.a}{': ' if used else ''}{', '.join(used)}"


def _lost(event: Lost, _: int) -> str:
    return f"attempt {event.a} was lost: {event.why}"


def _retry(event: Retry, _: int) -> str:
    later = f", not before {format_moment(event.not_before)}" if event.not_before is not None else ""
    changed = ", with another request" if event.request else ""
    return f"it is tried again as attempt {event.a}, because of {event.cause.value}{later}{changed}"


def _failed(event: Failed, _: int) -> str:
    return f"it failed for good: {event.why}"


def _steer(event: Steer, _: int) -> str:
    selected = "; ".join(f"{kind} {', '.join(names[:5])}" for kind, names in event.select.items())
    changed = ", ".join(f"{key}={value}" for key, value in event.set.items())
    details = f" ({changed})" if changed else ""
    target = selected or ("the whole run" if event.jobs is None else count_noun(len(event.jobs), "job"))
    return f"{event.who} ordered: {event.act} {target}{details}"


def _deleted(event: Deleted, _: int) -> str:
    return f"it was removed from the workload manager: {event.why}" if event.why else "it was cancelled by that order"


def _restarted(event: Restarted, _: int) -> str:
    changed = ", ".join(f"{key}={value}" for key, value in event.set.items())
    by = f" of {event.who}" if event.who else ""
    since = f" from {', '.join(event.from_labels)}" if event.from_labels else ""
    return f"it is to run again, in a restart{by}{since}{f' with {changed}' if changed else ''}"


_FORMATTERS: Final[Mapping[type, Callable[[Any, int], str]]] = {
    Submitting: _submitting,
    Submitted: _submitted,
    Refused: _refused,
    Started: _started,
    Ended: _ended,
    AttemptFacts: _attempt_facts,
    Lost: _lost,
    Retry: _retry,
    Failed: _failed,
    Steer: _steer,
    Deleted: _deleted,
    Restarted: _restarted,
}


_MAX_HISTORY: Final = 60
"""Maximum lines of history in a text; the record has all of it."""


def explanation_text(job: JobExplanation) -> str:
    """Format the explanation of a job's state, as ``explain`` prints it."""
    lines = [f"{job.name} (number {job.index}, label {job.label}) of run {job.run} is {job.state}."]
    lines += [f"{INDENT}{reason}" for reason in job.reasons]
    lines += ["", f"Request:  {request_text(job.request)}"]
    lines += _asked_lines(job.asked, job.request) if job.asked else []
    if job.room:
        lines.append(f"Room:     {_free_resources(job.room)}")
    used = f", {job.used_retries} used so far" if job.retries else ""
    lines.append(f"Retries:  {retries_text(job.retries, job.retry_unless_exit)}{used}")
    lines += [f"{'':9} {text}" for text in budget_texts(job.retries, job.retry_budgets)]
    for attempt in job.attempts:
        kept_from = attempt.extra.get(REUSED_FROM)
        if kept_from:
            where = f"longshore logs {kept_from} {shlex.quote(job.name)}"
            lines += ["", f"Attempt {attempt.number}: kept from run '{kept_from}'; its log: {where}"]
        else:
            lines += ["", *_attempt_lines(attempt, job.logs.get(attempt.number))]
    # The batch of results that are kept was never handed over.
    history = [event_text(event, job.index) for _, event in job.events if getattr(event, "b", "") != REUSED_BATCH]
    if history:
        lines += ["", "History (UTC):"]
        if len(history) > _MAX_HISTORY:
            lines.append(f"{INDENT}... {len(history) - _MAX_HISTORY} earlier: --json has them")
        lines += [INDENT + line for line in history[-_MAX_HISTORY:]]
    return "\n".join(map(escape_controls, lines))


def _asked_lines(asked: AskedResources, request: Request) -> Iterator[str]:
    """Yield what a job asks of its workload manager, where that is more than its request."""
    for number, each in enumerate(asked.components):
        is_first = not number
        if is_first and len(asked.components) == 1 and each == Allocation.of_request(request) and not asked.partition:
            continue
        title = f"{asked.service}:" if is_first else "and:"
        yield f"{title:9} {_allocation_text(each, asked.partition if is_first else '')}"
    if asked.settings:
        yield f"{'':9} by {', '.join(f'{key}={value}' for key, value in asked.settings.items())}"


def _allocation_text(asked: Allocation, partition: str) -> str:
    each = " on each node" if (asked.nodes or 1) > 1 else ""
    most = f" to {asked.most_nodes}" if asked.most_nodes else ""
    parts = [f"{asked.nodes}{most} nodes" if most else count_noun(asked.nodes, "node")] if asked.nodes else []
    parts += ["whole nodes"] if asked.whole_nodes else []
    cpus = count_noun(asked.cpus_per_task, "cpu")
    parts.append(f"{count_noun(asked.tasks, 'task')} of {cpus}" if asked.tasks > 1 else cpus)
    parts += [f"at least {count_noun(asked.least_cpus, 'cpu')} on each node"] if asked.least_cpus else []
    parts += [f"{count_noun(asked.threads_per_core, 'thread')} of each core"] if asked.threads_per_core else []
    if asked.memory_per_cpu_b:
        parts.append(f"{format_size(asked.memory_per_cpu_b)} of memory for each cpu")
    elif asked.memory_b is not None:
        memory = "all memory" if asked.memory_b == WHOLE_NODE_B else f"{format_size(asked.memory_b)} of memory"
        parts.append(memory + each)
    if asked.disk_b is not None:
        parts.append(f"{format_size(asked.disk_b)} of disk{each}")
    if asked.walltime_s is not None:
        is_endless = asked.walltime_s == math.inf
        parts.append("no time limit" if is_endless else f"{format_duration(asked.walltime_s)} of wall time")
    parts += [f"{amount} of {name}{each}" for name, amount in asked.resources.items()]
    parts += [f"feature {' or '.join(sorted(words))}" for words in asked.features]
    names = asked.partitions or filter(None, (partition,))
    parts += [f"partition {name}" for name in names]
    return ", ".join(parts)


def _attempt_lines(attempt: Attempt, log: str | None) -> list[str]:
    outcome = outcome_text(attempt) if attempt.cause else "succeeded" if attempt.ended_at is not None else "not over"
    if attempt.outputs and not attempt.cause:
        outcome += f", but {attempt.reason}"
    lines = [f"Attempt {attempt.number}: {outcome}"]
    times = [("handed over", attempt.submitted_at), ("started", attempt.started_at), ("ended", attempt.ended_at)]
    times_text = ", ".join(f"{what} {format_moment(at)}" for what, at in times if at is not None)
    host = f", on {attempt.host}" if attempt.host else ""
    lines.append(f"{INDENT}{times_text}{host}")
    if used := list(_usage(attempt)):
        lines.append(f"{INDENT}{', '.join(used)}")
    if log and attempt.cause is not Cause.SUBMIT:
        lines.append(f"{INDENT}log {log}")
    lines += [f"{INDENT}staged {staged_text(attempt.staged)}"] if attempt.staged else []
    if attempt.extra:
        lines.append(f"{INDENT}{', '.join(f'{name}={value}' for name, value in attempt.extra.items() if value)}")
    return lines


def _usage(attempt: Attempt) -> Iterator[str]:
    asked = attempt.requested
    if attempt.queue_s is not None:
        yield f"waited {format_duration(attempt.queue_s)}"
    if attempt.run_s is not None:
        yield f"ran {format_duration(attempt.run_s)}" + _percent_of_request(
            attempt.run_s, asked.walltime_s if asked else None, format_duration
        )
    if attempt.cpu_s is not None:
        yield f"{format_duration(attempt.cpu_s)} of processor"
    if attempt.peak_memory_b is not None:
        yield f"peak memory {format_size(attempt.peak_memory_b)}" + _percent_of_request(
            attempt.peak_memory_b, asked.memory_b if asked else None, lambda amount: format_size(int(amount))
        )


def _percent_of_request(used: float, asked: float | None, text: Callable[[float], str]) -> str:
    if not asked:
        return ""
    return f" ({100 * used / asked:.0f} % of the {text(asked)} requested)"


def _free_resources(room: PoolUsage) -> str:
    return ", ".join(
        f"{amount_text(name, room.free[name])} of {amount_text(name, room.capacity[name])} {name} free"
        for name in room.capacity
    )
