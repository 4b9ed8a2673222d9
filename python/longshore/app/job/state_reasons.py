"""Words the reasons for a job's state, a sentence each."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from longshore.app.job.job_explanation import BlockingGroup, JobExplanation, PoolUsage, RelatedJob, ThrottleUsage
from longshore.app.job.request_text import amount_text
from longshore.model.run.attempt import Attempt
from longshore.model.run.input_files import REUSED_FROM
from longshore.model.run.moment import format_moment
from longshore.model.run.states import Cause, JobState
from longshore.model.signals import signal_name
from longshore.model.text_format import INDENT, failure_text, format_duration
from longshore.model.wording import count_noun

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
