"""Formats a job's details and the explanation of its state as text."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from longshore.cli.show.event_text import event_text
from longshore.cli.show.format import (
    INDENT,
    escape_controls,
    failure_text,
    format_count,
    format_duration,
    format_size,
    staged_text,
)
from longshore.config.lint.secrets import hide_secrets
from longshore.model.run.input_files import REUSED_BATCH, REUSED_FROM
from longshore.model.run.moment import format_moment
from longshore.model.run.states import Cause, JobState
from longshore.model.signals import signal_name
from longshore.model.wording import count_noun
from longshore.model.workflow.allocation import WHOLE_NODE_B, Allocation

if TYPE_CHECKING:
    from longshore.app.inspect.asked_resources import AskedResources
    from longshore.app.inspect.explain_job import BlockingGroup, JobExplanation, PoolUsage, RelatedJob, ThrottleUsage
    from longshore.app.inspect.show_job import JobDetails, JobFile
    from longshore.model.run.attempt import Attempt
    from longshore.model.workflow.request import Request

_MAX_NAMES: Final = 5
_MAX_HISTORY: Final = 60
"""Maximum lines of history in a text; the JSON has all of it."""
_MIB: Final = 1024**2


def shown_command(line: str) -> str:
    """A command with likely secrets masked."""
    return hide_secrets(line)


def job_text(job: JobDetails) -> str:
    """Format a job's command, environment, request and files, as ``show-job`` prints it."""
    attempts = "not begun yet" if not job.attempts else f"of {job.attempts} so far"
    facts: list[tuple[str, str]] = [
        ("Job", f"{job.name} (number {job.index}, label {job.label}) of run {job.run}"),
        ("Attempt", f"{job.attempt}, {attempts}"),
        *([("Ended", f"{job.cause or 'succeeded'}: {job.reason}")] if job.reason else []),
        ("Request", request_text(job.request)),
        ("Retries", _retries_text(job.number_of_retries, job.retry_unless_exit)),
        ("Directory", f"{'scratch, with files of ' if job.is_staged else ''}{job.working_directory}"),
        ("Log", job.log),
        ("Staged", staged_text(job.staged) if job.staged else ""),
        ("Tags", ", ".join(f"{name}={value}" for name, value in job.tags.items())),
        ("Tasks", str(job.tasks) if job.tasks > 1 else ""),
        ("Site", " ".join(filter(None, [job.site, job.cloud and f"(cloud {job.cloud})"]))),
        ("Asked for", ", ".join(f"{name}={value}" for name, value in job.attributes.items())),
        ("Parents", _join_names(job.parents)),
        ("Children", _join_names(job.children)),
    ]
    lines = [f"{name + ':':10} {value}" for name, value in facts if value]
    lines += _file_lines("Reads", job.inputs) + _file_lines("Writes", job.outputs)
    lines += ["", "Environment set by the run:"]
    for name, value in job.environment.items():
        lines.append(f"{INDENT}{name}={'(hidden: it looks like a secret)' if value is None else value}")
    lines += ["", "Command:"]
    lines += [INDENT + line for setup in job.setup for line in shown_command(setup).splitlines()]
    lines += [INDENT + line for line in shown_command(job.line).splitlines()]
    where = f"longshore show-job {job.run} {shlex.quote(job.name)} --attempt {job.attempt} --script | sh"
    lines += ["", f"By hand: {where}"]
    return "\n".join(map(escape_controls, lines))


def explanation_text(job: JobExplanation, *, now: float) -> str:
    """Format the explanation of a job's state, as ``explain`` prints it."""
    lines = [f"{job.name} (number {job.index}, label {job.label}) of run {job.run} is {job.state}."]
    lines += [f"{INDENT}{reason}" for reason in state_reasons(job, now=now)]
    lines += ["", f"Request:  {request_text(job.request)}"]
    lines += asked_lines(job.asked, job.request) if job.asked else []
    if job.room:
        lines.append(f"Room:     {_free_resources(job.room)}")
    used = f", {job.used_retries} used so far" if job.retries else ""
    lines.append(f"Retries:  {_retries_text(job.retries, job.retry_unless_exit)}{used}")
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


def state_reasons(job: JobExplanation, *, now: float) -> list[str]:
    """Reasons for a job's state, a sentence each, the most important first."""
    return list(_reasons(job, now))


def _reasons(job: JobExplanation, now: float) -> Iterator[str]:
    if job.pause and job.state in {JobState.READY, JobState.UNREADY}:
        yield f"The run is PAUSED: {job.pause}; to continue it: longshore unpause {job.run}"
    yield from _REASONS.get(job.state, _why_other)(job, now)
    if job.stopped_at is not None:
        yield f"The engine is not running since {format_moment(job.stopped_at)}: longshore resume {job.run}"


def _why_pending(job: JobExplanation, _: float) -> Iterator[str]:
    newest = job.attempts[-1] if job.attempts else None
    since = f" since {format_moment(newest.submitted_at)}" if newest and newest.submitted_at else ""
    what = f" as '{newest.wms_id}'" if newest and newest.wms_id else ""
    yield f"It was handed to the workload manager{what} and has not been seen to start{since}."
    if job.manager_reason:
        yield f"The workload manager gives as its reason: {job.manager_reason}."


def _why_succeeded(job: JobExplanation, _: float) -> Iterator[str]:
    for newest in job.attempts[-1:]:
        if kept_from := newest.extra.get(REUSED_FROM):
            yield f"Its result was kept from run '{kept_from}'."
            return
        told = f", but {newest.reason}" if newest.outputs else ""
        yield f"Its attempt {newest.number} succeeded{_after_duration(newest)}{told}."
    if failed_attempts := [attempt for attempt in job.attempts if attempt.cause]:
        outcomes = "; ".join(map(outcome_text, failed_attempts[-_MAX_NAMES:]))
        yield f"Before that, {_attempts_text(len(failed_attempts))} ended badly: {outcomes}."


def _why_failed(job: JobExplanation, _: float) -> Iterator[str]:
    for newest in job.attempts[-1:]:
        yield f"Its attempt {newest.number} ended badly: {outcome_text(newest)}."
        if job.why_failed:
            # The reason stands on the line above.
            yield f"It was not tried again: {job.why_failed.removesuffix(f': {newest.reason}')}."
        if newest.cause is Cause.OOM:
            memory = f"--set requestMemory={_more_memory_mb(newest)} --label {shlex.quote(job.label)}"
            yield f"To run it again with more memory: longshore restart {job.run} {memory}"


def _why_deleted(job: JobExplanation, _: float) -> Iterator[str]:
    if job.removed_why:
        yield f"It was removed from the workload manager, by no order of Longshore: {job.removed_why}."
        yield f"'retryOn: {{operator: true}}' retries such jobs. To run it again now: longshore restart {job.run}"
        return
    order = job.cancelled_by
    yield f"It was cancelled{f' by {order.who} at {format_moment(order.t)}' if order else ''}."


def _why_other(job: JobExplanation, _: float) -> Iterator[str]:
    if job.state is JobState.UNKNOWN and job.is_engine_alive is None:
        yield "It was handed over; the workload manager cannot be asked, so what became of it since is not known."
    elif job.state is JobState.UNKNOWN:
        yield "It was handed over when the engine was last there; what became of it since is not known."
    for newest in job.attempts[-1:]:
        if newest.reason:
            yield newest.reason


def _why_unready(job: JobExplanation, _: float) -> Iterator[str]:
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
    return f"It comes after the group {group.title}, of which {format_count(group.unfinished, 'last job')} {still} yet."


def _why_ready(job: JobExplanation, now: float) -> Iterator[str]:
    yield from _retry_reasons(job, now)
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
        yield from _room_reasons(job, job.room, now)


def _retry_reasons(job: JobExplanation, now: float) -> Iterator[str]:
    """How the newest attempt of a job that is not over failed, and when the next one starts."""
    for newest in job.attempts[-1:]:
        if newest.cause:
            yield f"Its attempt {newest.number} ended badly: {outcome_text(newest)}."
    if job.is_undecided:
        yield "The engine has not yet decided whether it is tried again."
    if _is_delayed(job, now) and job.not_before is not None:
        yield f"It is tried again at {format_moment(job.not_before)} at the earliest."


def _is_delayed(job: JobExplanation, now: float) -> bool:
    return job.not_before is not None and job.not_before > now


def _room_reasons(job: JobExplanation, room: PoolUsage, now: float) -> Iterator[str]:
    if not room.fits:
        short = [name for name, amount in room.requested.items() if amount > room.free[name]]
        shortages = ", ".join(_shortage(room, name) for name in short)
        yield f"There is not enough room: {shortages}; {_active_jobs(room)}."
    elif not (
        job.pause
        or _is_delayed(job, now)
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
        f"It is throttled: at most {format_count(throttle.maximum, 'job')}{whose} may be active at once, and "
        f"{throttle.active} {'is' if throttle.active == 1 else 'are'}: longshore throttle {run} --off{option}"
    )


def _why_held(job: JobExplanation, now: float) -> Iterator[str]:
    if job.manager_reason:
        yield from _why_pending(job, now)
        return
    order = job.held_by
    by = f" by {order.who} at {format_moment(order.t)}" if order else ""
    release = f"--job {shlex.quote(job.name)}"
    if order and (labels := order.select.get("labels")):
        release = " ".join(f"--label {shlex.quote(label)}" for label in labels)
    yield f"It was held{by}; to let it go on: longshore release {job.run} {release}"


def _why_running(job: JobExplanation, now: float) -> Iterator[str]:
    for attempt in job.attempts[-1:]:
        where = f" on {attempt.host}" if attempt.host else ""
        since = f" since {format_moment(attempt.started_at)}" if attempt.started_at is not None else ""
        # Records never subtract the clocks of two hosts; text for people may.
        long = f", for about {format_duration(now - attempt.started_at)}" if attempt.started_at is not None else ""
        yield f"Its attempt {attempt.number} runs{where}{since}{long}."


def _why_pruned(job: JobExplanation, _: float) -> Iterator[str]:
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


def asked_lines(asked: AskedResources, request: Request) -> Iterator[str]:
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
    parts = [count_noun(asked.nodes, "node")] if asked.nodes else []
    cpus = count_noun(asked.cpus_per_task, "cpu")
    parts.append(f"{count_noun(asked.tasks, 'task')} of {cpus}" if asked.tasks > 1 else cpus)
    if asked.memory_b is not None:
        memory = "all memory" if asked.memory_b == WHOLE_NODE_B else f"{format_size(asked.memory_b)} of memory"
        parts.append(memory + each)
    if asked.disk_b is not None:
        parts.append(f"{format_size(asked.disk_b)} of disk{each}")
    if asked.walltime_s is not None:
        parts.append(f"{format_duration(asked.walltime_s)} of wall time")
    parts += [f"{amount} of {name}{each}" for name, amount in asked.resources.items()]
    parts += [f"feature {' or '.join(sorted(words))}" for words in asked.features]
    names = asked.partitions or filter(None, (partition,))
    parts += [f"partition {name}" for name in names]
    return ", ".join(parts)


def request_text(request: Request) -> str:
    """Format a request."""
    parts = [f"{request.cpus} cpu" + ("" if request.cpus == 1 else "s")]
    if request.memory_b is not None:
        parts.append(f"{format_size(request.memory_b)} of memory")
    if request.disk_b is not None:
        parts.append(f"{format_size(request.disk_b)} of disk")
    if request.walltime_s is not None:
        parts.append(f"{format_duration(request.walltime_s)} of wall time")
    return ", ".join([*parts, *(f"{amount} of {name}" for name, amount in request.resources.items())])


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
        f"{_amount(name, room.free[name])} of {_amount(name, room.capacity[name])} {name} free"
        for name in room.capacity
    )


def _shortage(room: PoolUsage, name: str) -> str:
    return f"it asks for {_amount(name, room.requested[name])} of {name}, and {_amount(name, room.free[name])} is free"


def _active_jobs(room: PoolUsage) -> str:
    return f"{room.active} job{' has' if room.active == 1 else 's have'} the rest"


def _amount(name: str, amount: int) -> str:
    return format_size(amount) if name in {"memory", "disk"} else str(amount)


def _retries_text(number: int, unless: Sequence[int]) -> str:
    text = {0: "none", 1: "1 after the first attempt"}.get(number, f"{number} after the first attempt")
    return f"{text}, but not after exit code {', '.join(map(str, unless))}" if unless and number else text


def _after_duration(attempt: Attempt) -> str:
    return f" after {format_duration(attempt.run_s)}" if attempt.run_s is not None else ""


def _attempts_text(number: int) -> str:
    return "an attempt" if number == 1 else f"{number} attempts"


def _example_jobs(others: Sequence[RelatedJob]) -> str:
    return f", such as {_join_jobs(others)}" if others else ""


def _join_jobs(others: Sequence[RelatedJob]) -> str:
    more = f" and {len(others) - _MAX_NAMES} more" if others[_MAX_NAMES:] else ""
    return ", ".join(f"{other.name} ({other.state})" for other in others[:_MAX_NAMES]) + more


def _join_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if names[_MAX_NAMES:] else ""
    return ", ".join(names[:_MAX_NAMES]) + more


def _file_lines(title: str, files: Sequence[JobFile]) -> list[str]:
    more = [f"{INDENT}... and {len(files) - _MAX_NAMES} more"] if files[_MAX_NAMES:] else []
    names = (f"{INDENT}{file.path or file.name}" for file in files[:_MAX_NAMES])
    return [f"{title}:", *names, *more] if files else []


_REASONS: Final[Mapping[JobState, Callable[[JobExplanation, float], Iterator[str]]]] = {
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
