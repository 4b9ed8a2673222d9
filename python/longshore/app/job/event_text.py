"""Formats an event as a line of a job's history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from longshore.model.run.event import (
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
from longshore.model.run.input_files import REUSED_FROM
from longshore.model.run.moment import format_moment
from longshore.model.text_format import format_duration, format_signal, format_size
from longshore.model.wording import count_noun


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
