"""Formats the explanation of a job's state as text."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from typing import Final

from longshore.app.job.asked_resources import AskedResources
from longshore.app.job.event_text import event_text
from longshore.app.job.job_explanation import JobExplanation, PoolUsage
from longshore.app.job.request_text import amount_text, budget_texts, request_text, retries_text
from longshore.app.job.state_reasons import outcome_text
from longshore.model.run.attempt import Attempt
from longshore.model.run.input_files import REUSED_BATCH, REUSED_FROM
from longshore.model.run.moment import format_moment
from longshore.model.run.states import Cause
from longshore.model.text_format import INDENT, escape_controls, format_duration, format_size, staged_text
from longshore.model.wording import count_noun
from longshore.model.workflow.allocation import WHOLE_NODE_B, Allocation
from longshore.model.workflow.request import Request

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
