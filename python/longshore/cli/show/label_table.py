"""Table of labels for a terminal: fits its width, leaves out columns of zeros, and folds many labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from longshore.cli.show.format import format_duration, format_size
from longshore.model.report import LabelSummary, RunReport
from longshore.model.states import JobState
from longshore.reports.styled import STATE_STYLES, Line, Span, TableColumn, cut_name, table_lines, table_width

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
