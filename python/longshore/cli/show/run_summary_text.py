"""Formats the summary of a run: time left, running jobs, waits and failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Final

from longshore.cli.show.format import (
    INDENT,
    escape_controls,
    failure_text,
    format_count,
    format_duration,
    staged_text,
)
from longshore.model.event import add_staged
from longshore.model.report import Badput, Failure, Removals, Retries, RunSummary, count_failed_jobs
from longshore.model.states import Cause

_MAX_CODES: Final = 4
"""Maximum number of exit codes and signals shown per cause; programs get all."""
_MAX_GROUPS: Final = 5
"""Maximum number of failure groups shown with an example; programs get all."""


def run_summary_lines(summary: RunSummary, *, now: float | None = None, examples: bool = True) -> list[str]:
    """Format a run's summary, a line each, with empty lines between the parts.

    With `now`, running jobs show how long they have run. With `examples`, failure groups have an example each.
    """
    lines = _progress_lines(summary)
    if summary.running:
        lines.append(f"Longest running: {', '.join(_running_jobs(summary, now))}")
    lines += [f"Waiting: {escape_controls(words)}" for words in summary.waits]
    staged = [label.staged for label in summary.labels.values() if label.staged is not None]
    if staged:
        lines.append(f"Staged: {staged_text(reduce(add_staged, staged))}")
    if summary.badput:
        lines.append(f"Ended badly: {_badput_text(summary.badput)}")
    if summary.retries.newest:
        lines.append(_retries_text(summary.retries))
    if summary.removals.newest:
        lines.append(removals_text(summary.removals))
    if summary.failures:
        lines += ["", *failure_lines(summary.failures, examples=examples)]
    return ["", *lines] if lines and lines[0] else lines


def failure_lines(failures: Sequence[Failure], *, examples: bool = True) -> list[str]:
    """Format groups of failures, all in a few lines, and then an example of each if wanted."""
    lines = list(_group_lines(failures)) if failures else []
    for number, failure in enumerate(failures[:_MAX_GROUPS] if examples else (), start=1):
        lines += ["", *_example_lines(number, failure)]
    return lines


def describe_hopeless(number: int) -> str:
    """Describe why a run has no end."""
    return "1 job can never start" if number == 1 else f"{number} jobs can never start"


def _progress_lines(summary: RunSummary) -> list[str]:
    parts = []
    if summary.elapsed_s is not None:
        parts.append(f"Elapsed: {format_duration(summary.elapsed_s)}")
    if summary.left_s:
        low, high = (format_duration(seconds) for seconds in summary.left_s)
        parts.append(f"left: about {low}" if low == high else f"left: about {low} to {high}")
    elif summary.hopeless_jobs:
        parts.append(f"left: never, as {describe_hopeless(summary.hopeless_jobs)}")
    return [", ".join(parts)] if parts else []


def _running_jobs(summary: RunSummary, now: float | None) -> Iterator[str]:
    for job in summary.running:
        parts = [escape_controls(job.name)]
        if now is not None and job.started_at is not None:
            parts.append(f"for {format_duration(max(0.0, now - job.started_at))}")
        if job.host:
            parts.append(f"on {escape_controls(job.host)}")
        yield " ".join(parts)


def _badput_text(badput: Mapping[Cause, Badput]) -> str:
    attempts = sum(spent.attempts for spent in badput.values())
    seconds = sum(spent.seconds for spent in badput.values())
    causes = ", ".join(
        f"{spent.attempts} with cause {cause} ({'; '.join(_spent_parts(spent))})" for cause, spent in badput.items()
    )
    return f"{format_count(attempts, 'attempt')}, {format_duration(seconds)}: {causes}"


def _spent_parts(spent: Badput) -> Iterator[str]:
    """How attempts of one cause ended, the most frequent first, and their time."""
    ends = [(number, f"exit code {code}") for code, number in sorted(spent.exit_codes.items())]
    ends += [(number, f"signal {signal}") for signal, number in sorted(spent.signals.items())]
    ends.sort(key=lambda end: -end[0])
    named = [f"{number} with {what}" for number, what in ends[:_MAX_CODES]]
    if ends[_MAX_CODES:]:
        named.append(f"{sum(number for number, _ in ends[_MAX_CODES:])} with others")
    # One attempt, or all of them, need no number.
    if len(ends) == 1 and ends[0][0] == spent.attempts:
        named = [ends[0][1]]
    if named:
        yield ", ".join(named)
    yield format_duration(spent.seconds)


def _retries_text(retries: Retries) -> str:
    """Jobs that are retried, with how the newest of their attempts failed."""
    newest = retries.newest[0]
    outcome = failure_text(newest.cause, newest.exit_code, newest.signal)
    number = format_count(retries.jobs, "job")
    example = f"{'the last is ' if retries.jobs > 1 else ''}{newest.name}, attempt {newest.attempt}"
    message = f": {newest.message}" if newest.message else ""
    return escape_controls(f"Retried: {number}, {example} ({outcome}){message}")


def removals_text(removals: Removals) -> str:
    """Describe how many jobs a person removed; the newest one is named, with the reason of its removal."""
    newest = removals.newest[0]
    number = format_count(removals.jobs, "job")
    last = "the last is " if removals.jobs > 1 else ""
    return escape_controls(f"Removed from the workload manager: {number}, {last}{newest.name} ({newest.reason})")


def _group_lines(failures: Sequence[Failure]) -> Iterator[str]:
    """All causes in a few lines, above the logs, so that they are on the first screen."""
    total = count_failed_jobs(failures)
    yield f"Failed: {format_count(total, 'job')}, alike in {format_count(len(failures), 'group')}:"
    for number, failure in enumerate(failures[:_MAX_GROUPS], start=1):
        yield f"{INDENT}{number}. {_group_text(failure)}"
    rest = failures[_MAX_GROUPS:]
    if rest:
        # Those of unread logs are told with the first group of their kind.
        jobs = format_count(total - count_failed_jobs(failures[:_MAX_GROUPS]), "job")
        groups = format_count(len(rest), "more group")
        yield f"{INDENT}... and {groups} of {jobs}: --json has them all"


def _group_text(failure: Failure) -> str:
    number = format_count(failure.count, "job")
    more = f", and perhaps more of {failure.unread} whose logs were not read" if failure.unread else ""
    words = f"{failure.label}: {number} ({failure_text(failure.cause, failure.exit_code, failure.signal)}{more})"
    return escape_controls(f"{words}: {failure.message}" if failure.message else words)


def _example_lines(number: int, failure: Failure) -> Iterator[str]:
    where = f" on {failure.host}" if failure.host else ""
    reason = f": {failure.reason}" if failure.reason else ""
    yield escape_controls(
        f"{number}. {failure.label}, for example {failure.job}, attempt {failure.attempt}{where}{reason}"
    )
    if failure.not_retried:
        # The reason stands on the line above.
        rule = failure.not_retried.removesuffix(f": {failure.reason}")
        yield f"{INDENT}not tried again: {escape_controls(rule)}"
    if failure.log:
        # The absolute path, to be copied to a pager.
        yield f"{INDENT}log: {escape_controls(failure.log)}"
    if failure.by_hand:
        yield f"{INDENT}again by hand: {escape_controls(failure.by_hand)}"
    for line in failure.tail:
        yield f"{INDENT}| {escape_controls(line)}"
    if failure.log and not failure.tail:
        yield f"{INDENT}(the log is empty, or cannot be read)"
