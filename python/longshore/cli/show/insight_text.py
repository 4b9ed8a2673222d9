"""Formats the summary of a run: time left, running jobs, waits and failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from longshore.cli.show.format import INDENT, counted, duration, visible, why
from longshore.model.run.report import Failure, RunSummary, Spent
from longshore.model.run.state import Cause

_GROUPS: Final = 5
"""Maximum number of failure groups shown with an example; programs get all."""


def insight_lines(insight: RunSummary, *, now: float | None = None, examples: bool = True) -> list[str]:
    """Format a run's summary, a line each, with empty lines between the parts.

    With `now`, running jobs show how long they have run. With `examples`, failure groups have an example each.
    """
    lines = _progress(insight)
    if insight.running:
        lines.append(f"Longest running: {', '.join(_running(insight, now))}")
    lines += [f"Waiting: {visible(words)}" for words in insight.waits]
    if insight.badput:
        lines.append(f"Ended badly: {_badput(insight.badput)}")
    failures = insight.failures
    if failures:
        lines += ["", *_groups(failures)]
        for number, failure in enumerate(failures[:_GROUPS] if examples else (), start=1):
            lines += ["", *_example(number, failure)]
    return ["", *lines] if lines and lines[0] else lines


def _progress(insight: RunSummary) -> list[str]:
    parts = []
    if insight.elapsed_s is not None:
        parts.append(f"Elapsed: {duration(insight.elapsed_s)}")
    if insight.left_s:
        low, high = (duration(seconds) for seconds in insight.left_s)
        parts.append(f"left: about {low}" if low == high else f"left: about {low} to {high}")
    return [", ".join(parts)] if parts else []


def _running(insight: RunSummary, now: float | None) -> Iterator[str]:
    for job in insight.running:
        parts = [visible(job.name)]
        if now is not None and job.started_at is not None:
            parts.append(f"for {duration(now - job.started_at)}")
        if job.host:
            parts.append(f"on {visible(job.host)}")
        yield " ".join(parts)


def _badput(badput: Mapping[Cause, Spent]) -> str:
    attempts = sum(spent.attempts for spent in badput.values())
    seconds = sum(spent.seconds for spent in badput.values())
    causes = ", ".join(f"{cause} {spent.attempts} ({duration(spent.seconds)})" for cause, spent in badput.items())
    return f"{counted(attempts, 'attempt')}, {duration(seconds)}: {causes}"


def _groups(failures: Sequence[Failure]) -> Iterator[str]:
    """All causes in a few lines, above the logs, so that they are on the first screen."""
    # Every group of one kind counts the jobs with unread logs; add them only once.
    unread = {_kind(failure): failure.unread for failure in failures}
    total = sum(failure.count for failure in failures) + sum(unread.values())
    yield f"Failed: {counted(total, 'job')}, alike in {counted(len(failures), 'group')}:"
    for number, failure in enumerate(failures[:_GROUPS], start=1):
        yield f"{INDENT}{number}. {_headline(failure)}"
    rest = failures[_GROUPS:]
    if rest:
        jobs = sum(failure.count for failure in rest)
        yield f"{INDENT}... and {counted(len(rest), 'more group')} of {counted(jobs, 'job')}: --json has them all"


def _headline(failure: Failure) -> str:
    number = counted(failure.count, "job")
    more = f", and perhaps more of {failure.unread} whose logs were not read" if failure.unread else ""
    words = f"{failure.label}: {number} ({why(failure.cause, failure.exit_code, failure.signal)}{more})"
    return visible(f"{words}: {failure.message}" if failure.message else words)


def _example(number: int, failure: Failure) -> Iterator[str]:
    where = f" on {failure.host}" if failure.host else ""
    reason = f": {failure.reason}" if failure.reason else ""
    yield visible(f"{number}. {failure.label}, for example {failure.job}, attempt {failure.attempt}{where}{reason}")
    if failure.log:
        # The absolute path, to be copied to a pager.
        yield f"{INDENT}log: {visible(failure.log)}"
    if failure.by_hand:
        yield f"{INDENT}again by hand: {visible(failure.by_hand)}"
    for line in failure.tail:
        yield f"{INDENT}| {visible(line)}"
    if failure.log and not failure.tail:
        yield f"{INDENT}(the log is empty, or cannot be read)"


def _kind(failure: Failure) -> tuple[object, ...]:
    return failure.label, failure.cause, failure.exit_code, failure.signal
