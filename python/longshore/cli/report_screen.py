"""Reports in the width of a terminal: frames of the live view, a run with its labels, the list of runs.

Tables leave out columns that say nothing; that of labels folds many labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from longshore.cli.error_text import indent_paragraph
from longshore.cli.report_text import (
    describe_hopeless,
    fact_lines,
    format_count,
    label_warnings,
    removals_text,
    run_summary_lines,
    sort_by_id,
)
from longshore.cli.terminal import Terminal
from longshore.model.report import (
    JobFailure,
    LabelSummary,
    RunningJob,
    RunReport,
    escape_controls,
    failure_text,
    format_duration,
    format_size,
)
from longshore.model.states import JobState
from longshore.reports.run_list import field_values
from longshore.reports.styled import (
    STATE_STYLES,
    Line,
    Span,
    TableColumn,
    cut,
    cut_line,
    cut_name,
    lines_text,
    pad,
    table_lines,
    table_width,
    width_of,
)

MAX_LABELS: Final = 20
"""Labels that have a row of their own."""
_FULL_MEMORY: Final = 0.9
"""Share of the requested memory from which on the peak is worth a look."""
_TROUBLE: Final = (JobState.FAILED, JobState.HELD, JobState.DELETED, JobState.PRUNED, JobState.UNKNOWN)
_ACTIVE: Final = (JobState.RUNNING, JobState.PENDING, JobState.READY)
_KEPT_FIRST: Final = (JobState.SUCCEEDED, JobState.FAILED, JobState.RUNNING, JobState.HELD, JobState.DELETED)
"""States whose columns are the last to go on a narrow terminal."""
_BLOCKS: Final = {True: ("█", "▓", "▒", "░"), False: ("#", "!", "=", ".")}
"""Characters of a bar, with Unicode and without: succeeded, ended otherwise, active, waiting."""


class _Row(NamedTuple):
    name: str
    counts: Mapping[JobState, int]
    expected: int
    summary: LabelSummary


class _Layout(NamedTuple):
    """Which columns there are, and how wide; `extras` are the last columns that are shown."""

    extras: int
    bar: int
    short: bool
    label: int

    @property
    def gap(self) -> int:
        """Spaces between two columns."""
        return 1 if self.short else 2


_LAYOUTS: Final = (
    _Layout(3, 16, short=False, label=60),
    _Layout(3, 10, short=False, label=40),
    _Layout(3, 10, short=False, label=24),
    _Layout(3, 8, short=True, label=20),
    _Layout(2, 8, short=True, label=20),
    _Layout(1, 8, short=True, label=16),
    _Layout(0, 8, short=True, label=16),
    _Layout(0, 0, short=True, label=16),
    _Layout(0, 0, short=True, label=10),
)
"""From wide to narrow."""


def label_lines(report: RunReport, width: int, *, has_unicode: bool, most: int = MAX_LABELS) -> list[Line]:
    """Return the table of a run's labels in at most `width` columns: the sum of all, then at most `most` labels.

    Labels are in the order of the workflow. More than `most` are folded: those with failures come first, then those
    with active jobs, and the last row has the sum of the rest.
    """
    rows = [_total(report), *_fold(_rows(report), most)]
    states = [state for state in JobState if state is JobState.SUCCEEDED or any(row.counts.get(state) for row in rows)]
    # As narrow as can be if nothing fits: the lines are cut then.
    for layout, shown in _attempts(states):
        columns = _columns(rows, shown, layout, has_unicode=has_unicode)
        if table_width(columns, layout.gap) <= width:
            break
    return table_lines(columns, layout.gap)


def bar_spans(counts: Mapping[JobState, int], width: int, *, has_unicode: bool) -> list[Span]:
    """Return a bar of a run's or label's states; a state that some job is in has a character if there is room."""
    done = counts.get(JobState.SUCCEEDED, 0)
    trouble = sum(counts.get(state, 0) for state in _TROUBLE)
    active = sum(counts.get(state, 0) for state in _ACTIVE[:2])
    waiting = max(0, sum(counts.values()) - done - trouble - active)
    lengths = _shares([done, trouble, active, waiting], width)
    styles = ("good", "bad", "active", "faint")
    pieces = zip(_BLOCKS[has_unicode], lengths, styles, strict=True)
    return [Span(sign * length, style) for sign, length, style in pieces if length]


def _shares(numbers: Sequence[int], width: int) -> list[int]:
    """Divide `width` in proportion to the numbers; one that is not 0 gets at least 1, if there is room."""
    total = sum(numbers)
    if not total:
        return [0, 0, 0, width]
    exact = [number * width / total for number in numbers]
    lengths = [max(1, int(share)) if number else 0 for number, share in zip(numbers, exact, strict=True)]
    while sum(lengths) > width:
        lengths[lengths.index(max(lengths))] -= 1
    while sum(lengths) < width:
        lacking = [share - length for share, length in zip(exact, lengths, strict=True)]
        lengths[lacking.index(max(lacking))] += 1
    return lengths


def _total(report: RunReport) -> _Row:
    return _Row("TOTAL", _with_uncounted(report.counts, report.expected), report.expected, LabelSummary())


def _rows(report: RunReport) -> Iterator[_Row]:
    expected = report.expected_labels or {}
    summaries = report.summary.labels if report.summary else {}
    known = report.labels if report.expected_labels is not None else sorted(report.labels)
    for label in dict.fromkeys((*expected, *known)):
        counts = report.labels.get(label)
        if counts is None:
            counts = {JobState.UNKNOWN: expected[label]}
        number = expected.get(label, sum(counts.values()))
        yield _Row(label, _with_uncounted(counts, number), number, summaries.get(label, LabelSummary()))


def _with_uncounted(counts: Mapping[JobState, int], expected: int) -> Mapping[JobState, int]:
    """Return counts in which jobs without a state wait for others."""
    uncounted = max(0, expected - sum(counts.values()))
    return {**counts, JobState.UNREADY: counts.get(JobState.UNREADY, 0) + uncounted} if uncounted else counts


def _fold(rows: Iterable[_Row], most: int) -> list[_Row]:
    rows = list(rows)
    if len(rows) <= most:
        return rows
    ranked = sorted(rows, key=_urgency)
    shown, rest = ranked[: max(most - 1, 0)], ranked[max(most - 1, 0) :]
    counts = {state: sum(row.counts.get(state, 0) for row in rest) for state in JobState}
    folded = _Row(f"... {len(rest)} more", counts, sum(row.expected for row in rest), LabelSummary())
    return [*shown, folded]


def _urgency(row: _Row) -> int:
    """Return the rank of a label among many: failures first."""
    groups = (_TROUBLE[:1], _TROUBLE, _ACTIVE[:1], _ACTIVE)
    found = (rank for rank, states in enumerate(groups) if any(row.counts.get(state) for state in states))
    return next(found, len(groups))


def _attempts(states: Sequence[JobState]) -> Iterator[tuple[_Layout, Sequence[JobState]]]:
    """Yield layouts with the states they show: all of them as long as any layout can, then fewer."""
    for layout in _LAYOUTS:
        yield layout, states
    order = sorted(states, key=lambda state: _KEPT_FIRST.index(state) if state in _KEPT_FIRST else len(_KEPT_FIRST))
    for number in range(len(order) - 1, 0, -1):
        yield _LAYOUTS[-1], [state for state in states if state in order[:number]]


def _columns(
    rows: Sequence[_Row], states: Sequence[JobState], layout: _Layout, *, has_unicode: bool
) -> list[TableColumn]:
    ellipsis = "…" if has_unicode else "..."
    columns = [TableColumn("LABEL", [(Span(cut_name(row.name, layout.label, ellipsis)),) for row in rows], left=True)]
    if layout.bar:
        bars = [tuple(bar_spans(row.counts, layout.bar, has_unicode=has_unicode)) for row in rows]
        columns.append(TableColumn("", bars, left=True))
    for state in states:
        style = STATE_STYLES.get(state, "")
        cells = [_number_cell(row.counts.get(state, 0), style) for row in rows]
        columns.append(TableColumn(state[:4] if layout.short else state.value, cells))
    columns.append(TableColumn("JOBS", [(Span(str(row.expected)),) for row in rows]))
    # In the order in which they are read; the layout says how many of them stay, by their ranks.
    extras = [
        (1, TableColumn("MEDIAN", [(Span(_duration(row.summary.median_s)),) for row in rows])),
        (3, TableColumn("P95", [(Span(_duration(row.summary.p95_s)),) for row in rows])),
        (2, TableColumn("MEMORY", [(_memory_span(row.summary),) for row in rows])),
    ]
    known = [(rank, column) for rank, column in extras if any(cell[0].text for cell in column.cells)]
    return columns + [column for rank, column in known if rank <= layout.extras]


def _number_cell(number: int, style: str) -> Line:
    return (Span(str(number), style if number else "faint"),)


def _duration(seconds: float | None) -> str:
    return "" if seconds is None else format_duration(seconds)


def _memory_span(summary: LabelSummary) -> Span:
    """Return the peak memory against the request."""
    peak, requested = summary.peak_memory_b, summary.requested_memory_b
    if not peak:
        return Span("")
    used = format_size(peak)
    if not requested:
        return Span(used)
    number, unit = used.split()
    most = format_size(requested)
    text = f"{number} of {most}" if most.endswith(f" {unit}") else f"{used} of {most}"
    return Span(text, "warning" if peak >= _FULL_MEMORY * requested else "")


_COLUMNS: Final = ("x", "state", "%s", "id", "operator", "project", "campaign", "payload", "run")
_DROPPED: Final = ("operator", "campaign", "project", "run", "payload")
"""Columns that a narrow terminal leaves out, the first first."""
_MIN_WIDTH: Final = 12
_GAP: Final = "  "


def run_list_screen(reports: Sequence[RunReport], terminal: Terminal, *, global_ids: bool = False) -> str:
    """Format a list of runs, a row each, sorted by id, in the width of a terminal."""
    rows = [_cells(report, global_ids=global_ids) for report in sort_by_id(reports)]
    names = [name for name in _COLUMNS if name in {"state", "id"} or any(row[name].strip() for row in rows)]
    for dropped in ("", *_DROPPED):
        names = [name for name in names if name != dropped]
        widths = {name: max(width_of(name), *(width_of(row[name]) for row in rows), 0) for name in names}
        excess = sum(widths.values()) + len(_GAP) * (len(names) - 1) - terminal.width
        widest = max(names, key=lambda name: widths[name])
        if excess <= 0 or widths[widest] - excess >= _MIN_WIDTH:
            widths[widest] -= max(0, excess)
            break
    ellipsis = "…" if terminal.has_unicode else "..."
    lines = [_line({name: name.upper() for name in names}, widths, ellipsis, style="strong")]
    lines += [_line(row, widths, ellipsis) for row in rows]
    return lines_text(lines, color=terminal.has_color)


def _cells(report: RunReport, *, global_ids: bool) -> dict[str, str]:
    values = zip(_COLUMNS, field_values(report, _COLUMNS), strict=True)
    row = {name: "" if value is None else str(value) for name, value in values}
    row["state"] = report.state_word
    if global_ids:
        row["id"] = report.global_id or report.id
    return {name: escape_controls(text) for name, text in row.items()}


def _line(row: dict[str, str], widths: dict[str, int], ellipsis: str, *, style: str = "") -> Line:
    spans = []
    for name, width in widths.items():
        text = pad(cut(row[name], width, ellipsis), width, left=name != "%s")
        spans += [Span(_GAP), Span(text, style or (STATE_STYLES.get(row[name], "") if name == "state" else ""))]
    return tuple(spans[1:])


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
    from textwrap import wrap

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
