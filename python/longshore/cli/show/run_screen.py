"""A run as a terminal shows it: a frame of the live view, the report of one run, and the list of runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Final

from longshore.cli.show.format import (
    escape_controls,
    failure_text,
    format_count,
    format_duration,
    indent_paragraph,
)
from longshore.cli.show.label_table import MAX_LABELS, bar_spans, label_lines
from longshore.cli.show.report_text import fact_lines, label_warnings
from longshore.cli.show.run_summary_text import describe_hopeless, removals_text, run_summary_lines
from longshore.cli.terminal import Terminal
from longshore.model.report import JobFailure, RunningJob, RunReport
from longshore.model.states import JobState
from longshore.reports.styled import STATE_STYLES, Line, Span, cut_line, cut_name, lines_text, pad, width_of

_INDENT: Final = Span("  ")
_BAR_WIDTH: Final = 60
_MIN_LABELS: Final = 3
_MAX_WRAPPED: Final = 3
"""Lines that a note or a reason may take."""
_NAME_SHARE: Final = 0.4
"""Share of the width that the names of jobs may take."""
_EMPTY: Final[Line] = ()


def frame_lines(report: RunReport, terminal: Terminal, *, now: float, is_last: bool = False) -> list[Line]:
    """Return a frame of the live view: no line is wider than the terminal.

    All but the last frame also fit its height, so that the next one can be drawn over it.
    """
    activity = [*_activity_lines(report, terminal, now=now), *_note_lines(report, terminal)]
    if not is_last:
        activity += [_EMPTY, (Span("Ctrl-C stops the watching, not the run.", "faint"),)]
    head = [*_head_lines(report, terminal), *_time_lines(report, terminal), _EMPTY]
    room = terminal.height - 1 - len(head) - len(activity) - 2
    most = MAX_LABELS if is_last else max(_MIN_LABELS, min(MAX_LABELS, room))
    table = label_lines(report, terminal.width, has_unicode=terminal.has_unicode, most=most)
    lines = [cut_line(line, terminal.width, _ellipsis(terminal)) for line in (*head, *table, *activity)]
    return lines if is_last else lines[: max(1, terminal.height - 1)]


def report_screen(report: RunReport, terminal: Terminal) -> str:
    """Format one run in detail for a terminal; paths and logs are never cut."""
    head = [*_head_lines(report, terminal), _EMPTY]
    lines = [cut_line(line, terminal.width, _ellipsis(terminal)) for line in head]
    parts = [lines_text(lines, color=terminal.has_color), *fact_lines(report), ""]
    table = label_lines(report, terminal.width, has_unicode=terminal.has_unicode)
    cut_table = [cut_line(line, terminal.width, _ellipsis(terminal)) for line in table]
    parts += [lines_text(cut_table, color=terminal.has_color), *label_warnings(report)]
    if report.summary:
        parts += run_summary_lines(report.summary)
    if report.notes:
        parts += ["", *(f"Note: {indent_paragraph(note)}" for note in report.notes)]
    return "\n".join(parts)


def _head_lines(report: RunReport, terminal: Terminal) -> Iterator[Line]:
    """Yield id, state and name of the run, and its bar."""
    done = report.counts.get(JobState.SUCCEEDED, 0)
    word = report.state_word
    share = "" if report.percent_succeeded is None else f" {report.percent_succeeded} %"
    yield (
        Span(report.id, "strong"),
        Span(" "),
        Span(word, STATE_STYLES.get(word, "")),
        Span(f"  {done} of {format_count(report.expected, 'job')} succeeded"),
        *((Span(f"  {report.name}", "faint"),) if report.name else ()),
    )
    width = min(_BAR_WIDTH, max(1, terminal.width - len(share)))
    yield (*bar_spans(report.counts, width, has_unicode=terminal.has_unicode), Span(share))


def _time_lines(report: RunReport, terminal: Terminal) -> Iterator[Line]:
    """Yield the time taken and the range of the time left; in two lines where one is too narrow."""
    summary = report.summary
    if summary is None:
        return
    if summary.elapsed_s is None:
        if summary.hopeless_jobs:
            yield (Span(f"Left never, as {describe_hopeless(summary.hopeless_jobs)}"),)
        return
    elapsed = f"Elapsed {format_duration(summary.elapsed_s)}"
    if summary.hopeless_jobs:
        left = f"left never, as {describe_hopeless(summary.hopeless_jobs)}"
    elif summary.left_s:
        low, high = (format_duration(seconds) for seconds in summary.left_s)
        left = f"left about {low}" if low == high else f"left about {low} to {high}"
    else:
        yield (Span(elapsed),)
        return
    if len(elapsed) + len(left) + 2 <= terminal.width:
        yield (Span(f"{elapsed}, {left}"),)
    else:
        yield from ((Span(elapsed),), (Span(f"L{left[1:]}"),))


def _activity_lines(report: RunReport, terminal: Terminal, *, now: float) -> Iterator[Line]:
    summary = report.summary
    if summary is None:
        return
    if summary.running:
        yield from (_EMPTY, (Span("Running longest", "strong"),))
        width = _name_width([job.name for job in summary.running], terminal)
        yield from (_running_line(job, width, now=now, ellipsis=_ellipsis(terminal)) for job in summary.running)
    if summary.last_failures:
        yield from (_EMPTY, (Span("Last failures", "strong"),))
        width = _name_width([job.name for job in summary.last_failures], terminal)
        yield from (_failure_line(job, width, ellipsis=_ellipsis(terminal)) for job in summary.last_failures)
    if retried := summary.retries.newest:
        yield from (_EMPTY, (Span(f"Retried: {format_count(summary.retries.jobs, 'job')}", "strong"),))
        width = _name_width([job.name for job in retried], terminal)
        yield from (_failure_line(job, width, ellipsis=_ellipsis(terminal)) for job in retried)
    if summary.removals.newest:
        yield _EMPTY
        yield from _wrap(removals_text(summary.removals), "", terminal)
    if summary.waits:
        yield _EMPTY
        for wait in summary.waits:
            yield from _wrap(f"Waiting: {wait}", "faint", terminal)


def _name_width(names: Sequence[str], terminal: Terminal) -> int:
    widest = max(width_of(escape_controls(name)) for name in names)
    return min(widest, max(8, int(terminal.width * _NAME_SHARE)))


def _running_line(job: RunningJob, width: int, *, now: float, ellipsis: str) -> Line:
    age = "" if job.started_at is None else format_duration(now - job.started_at)
    host = f"  {job.host}" if job.host else ""
    return (
        _INDENT,
        Span(pad(cut_name(job.name, width, ellipsis), width, left=True), "active"),
        Span(f"  {age:>12}{host}"),
    )


def _failure_line(job: JobFailure, width: int, *, ellipsis: str) -> Line:
    words = failure_text(job.cause, job.exit_code, job.signal)
    # The log says more than the cause in words, which may only repeat the exit code.
    text = job.message or (job.reason if job.reason != words else "")
    reason = f": {_one_line(text)}" if text else ""
    name = pad(cut_name(job.name, width, ellipsis), width, left=True)
    return (_INDENT, Span(name, "bad"), Span(f"  {words}{reason}"))


def _note_lines(report: RunReport, terminal: Terminal) -> Iterator[Line]:
    if report.notes:
        yield _EMPTY
    for note in report.notes:
        yield from _wrap(f"Note: {note}", "warning", terminal)


def _wrap(text: str, style: str, terminal: Terminal) -> Iterator[Line]:
    """Yield a text in a few lines."""
    lines = wrap(
        escape_controls(_one_line(text)),
        max(terminal.width, 20),
        subsequent_indent=_INDENT.text,
        max_lines=_MAX_WRAPPED,
        placeholder=f" {_ellipsis(terminal)}",
    )
    yield from ((Span(line, style),) for line in lines)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _ellipsis(terminal: Terminal) -> str:
    return "…" if terminal.has_unicode else "..."
