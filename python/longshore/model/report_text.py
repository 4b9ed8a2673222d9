"""Formats the report of a run in a few lines: its state, its counts, its failures and its notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from longshore.model.run.states import JobState
from longshore.model.text_format import INDENT, escape_controls, failure_text, format_duration
from longshore.model.wording import count_noun

if TYPE_CHECKING:
    from longshore.model.run.report import Failure, RunReport

_MAX_LABELS: Final = 20
_MAX_FAILURES: Final = 5


def report_summary(report: RunReport) -> str:
    """Format a report in lines: one of the run, one of its outcome, one per label, failure and note."""
    where = report.site or report.service
    lines = [f"{report.id}  {report.name}  {report.state_word}" + (f" on {where}" if where else "")]
    lines += [INDENT + outcome_line(report), *_label_lines(report), *_failure_lines(report)]
    lines += [f"Note: {note}" for note in report.notes]
    return "\n".join(escape_controls(line) for line in lines)


def outcome_line(report: RunReport) -> str:
    """Format how a run ended, in one line whose counts add up to the number of jobs."""
    expected = report.expected
    parts = [f"{expected} job" + ("" if expected == 1 else "s")]
    parts += [f"{state.lower()} {report.counts.get(state, 0)}/{expected}" for state in _outcome_states(report)]
    seconds = report.wall_s
    if seconds is not None:
        parts.append(f"wall time {format_duration(seconds)}")
    return ", ".join(parts)


def _outcome_states(report: RunReport) -> list[JobState]:
    """Succeeded and failed, and other states that some job is in."""
    always = [JobState.SUCCEEDED, JobState.FAILED]
    return always + [state for state in JobState if state not in always and report.counts.get(state)]


def _label_lines(report: RunReport) -> Iterator[str]:
    for label, counts in list(report.labels.items())[:_MAX_LABELS]:
        states = ", ".join(f"{number} {state.lower()}" for state, number in counts.items() if number)
        yield f"{INDENT}{label}: {states or 'no jobs'}"
    if (more := len(report.labels) - _MAX_LABELS) > 0:
        yield f"{INDENT}and {count_noun(more, 'more label')}"


def _failure_lines(report: RunReport) -> Iterator[str]:
    failures = report.summary.failures if report.summary else ()
    yield from map(_failure_line, failures[:_MAX_FAILURES])
    if (more := len(failures) - _MAX_FAILURES) > 0:
        yield f"Failed: {count_noun(more, 'more group')} of jobs"


def _failure_line(failure: Failure) -> str:
    why = failure_text(failure.cause, failure.exit_code, failure.signal)
    jobs = failure.job
    if failure.count > 1:
        jobs = f"{count_noun(failure.count, 'job')} of {failure.label}, for example {failure.job}"
    message = f": {failure.message}" if failure.message else ""
    log = f"; log: {failure.log}" if failure.log else ""
    return f"Failed: {jobs} ({why}){message}{log}"
